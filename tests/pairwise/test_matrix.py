"""All pairs at once are what every pair is by itself."""

import itertools
import json
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dhsic
from dhsic.engine.events import PassFinished, RunStarted
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.estimators.resample import Orbit
from dhsic.kernels import Polynomial, parse
from tests import oracles

N = 120


@pytest.fixture
def data(rng):
    x, noise, other = rng.standard_normal((3, N))
    return [x, x**2 + 0.5 * noise, rng.standard_normal((N, 2)), other]


@pytest.fixture
def found(data):
    return dhsic.dependence_matrix(*data, n_landmarks=N, rng=3, names=["x", "y", "wide", "z"])


def grams(found, data):
    columns = [np.reshape(x, (N, -1)) for x in data]
    gammas = [float(v.kernel.split(":")[1]) for v in found.variables]
    return [oracles.gaussian_gram(x, x, g) for x, g in zip(columns, gammas, strict=True)]


def test_hsic__of_all_landmarks_is_the_v_statistic_of_every_pair(found, data):
    k = grams(found, data)
    expected = np.array([[oracles.v_hsic([a, b]) for b in k] for a in k])
    np.testing.assert_allclose(found.hsic, expected, rtol=2e-6, atol=1e-9)


def test_cka__is_the_cosine_of_centred_gram_matrices_less_that_of_permutations(found, data):
    centre = np.eye(N) - 1.0 / N
    k = [centre @ gram @ centre for gram in grams(found, data)]
    orders = np.random.default_rng(0).permuted(np.tile(np.arange(N), (4000, 1)), axis=1)
    drawn = np.mean([(k[0] * k[1][np.ix_(order, order)]).sum() for order in orders])
    chance = np.outer(*[[np.trace(a) for a in k]] * 2) / (N - 1)
    assert drawn == pytest.approx(chance[0, 1], rel=0.02)
    products = np.array([[(a * b).sum() for b in k] for a in k])
    norms = np.sqrt(np.outer(products.diagonal(), products.diagonal()))
    expected = (products - chance) / (norms - chance)
    np.testing.assert_allclose(found.cka, expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(found.cka.diagonal(), 1.0)
    np.testing.assert_array_equal(found.cka, found.cka.T)


def test_cka__of_whole_groups_is_less_that_of_groups_that_change_places():
    found = []
    for seed in range(4):
        columns = np.repeat(np.random.default_rng(seed).standard_normal((4, 20)), 10, axis=1)
        rows = np.repeat(np.arange(20), 10)
        matrix = dhsic.dependence_matrix(*columns, groups=rows, n_resamples=99, rng=seed, threads=1)
        found += matrix.cka[np.triu_indices(4, 1)].tolist()
    # Less the mean over permutations of all rows it is 0.15 on average.
    assert abs(np.mean(found)) < 0.06


@pytest.mark.parametrize("null", ["spectral", "shifts"])
@pytest.mark.parametrize(("i", "j"), [(0, 1), (0, 2), (1, 3)])
def test_pvalue__is_that_of_the_test_of_the_pair(data, null, i, j):
    """By shifts with all landmarks, of which the order does not matter, and the same groups."""
    resamples = {} if null == "spectral" else {"n_resamples": 500}
    found = dhsic.dependence_matrix(*data, n_landmarks=N, null=null, rng=3, **resamples)
    kernels = [parse(found.variables[k].kernel) for k in (i, j)]
    estimator = dhsic.NystromHSIC(n_landmarks=N)
    alone = dhsic.independence_test(
        data[i], data[j], kernels=kernels, estimator=estimator, null=null, rng=3, **resamples
    )
    assert found.pvalues[i, j] == pytest.approx(alone.pvalue, rel=1e-4)
    assert found.pvalues[j, i] == found.pvalues[i, j]
    assert found.hsic[i, j] == pytest.approx(alone.estimate, rel=1e-6)
    assert (found.null, found.null_reason) == (alone.null, alone.null_reason)


@pytest.mark.parametrize("n_resamples", [120, 240])
def test_shifts__are_those_of_every_permutation(data, n_resamples):
    """Of the pair's Gram matrices, with the rows of the later variable in every order."""
    found = dhsic.dependence_matrix(*data, n_landmarks=N, rng=3, n_resamples=n_resamples)
    orbit = Orbit.of(N, n_resamples, 3)
    assert found.null_reason == f"exact for exchangeable rows; {orbit.detail}"
    orders, k = oracles.orders_of_orbit(orbit), grams(found, data)
    for i, j in itertools.combinations(range(4), 2):
        centred = oracles.centred_gram(k[i])
        values = np.array([(centred * k[j][np.ix_(order, order)]).sum() for order in orders])
        expected = np.mean(values >= values[0] * (1.0 - 1e-6))
        assert found.pvalues[i, j] == pytest.approx(expected, abs=1.01 / len(orbit))
    np.testing.assert_allclose(found.pvalues.diagonal(), 1.0 / len(orbit))


def test_little_memory__takes_more_passes_and_gives_the_same(no_libraries):
    variables = np.random.default_rng(0).standard_normal((6, 2000))
    variables[3] += variables[0]
    options = {"n_landmarks": 30, "rng": 1, "null": dhsic.Shifts(500)}
    large, small = (
        dhsic.dependence_matrix(*variables, memory=memory, threads=2, **options)
        for memory in ("2GiB", "32MiB")
    )
    assert len(large.passes) == 2 < len(small.passes) < 9
    np.testing.assert_array_equal(small.pvalues, large.pvalues)
    assert large.pvalues[0, 3] < 0.01 < np.sort(large.pvalues[np.triu_indices(6, 1)])[1]


def test_auto__takes_the_spectrum_where_shifts_take_long(no_libraries):
    rng = np.random.default_rng(0)
    many = dhsic.dependence_matrix(*rng.standard_normal((21, 60)), n_landmarks=5, rng=0)
    assert many.null == "spectral"
    assert many.null_reason.startswith("an approximation for many rows, since 210 pairs: null='shi")
    exact = dhsic.dependence_matrix(
        *rng.standard_normal((21, 60)), n_landmarks=5, rng=0, null="shifts", n_resamples=99
    )
    assert exact.null == "shifts"
    short = dhsic.dependence_matrix(
        *rng.standard_normal((6, 2000, 2)), n_landmarks=40, rng=0, memory="32MiB", threads=2
    )
    assert short.null == "spectral"
    assert "since exact replicates of 15 pairs would take" in short.null_reason


@pytest.mark.xfail(
    strict=True,
    reason="each pair draws features and replicates of its own, so that the cost of exact shifts "
    "does not grow with the pairs alone: of more than some 200 pairs the default takes a limit law",
)
def test_auto__takes_one_null_whatever_the_number_of_variables():
    variables = np.random.default_rng(0).standard_normal((30, 60))
    few, many = (
        dhsic.dependence_matrix(*variables[:m], n_landmarks=5, rng=0).null for m in (5, 30)
    )
    assert few == many


def test_default__has_replicates_enough_for_all_pairs():
    variables = np.random.default_rng(0).standard_normal((9, 300))
    variables[1] = variables[0]
    found = dhsic.dependence_matrix(*variables, n_landmarks=8, rng=0)
    assert found.pvalues.min() == pytest.approx(1 / 1500)
    assert found.adjusted[0, 1] <= 0.025


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"null": "shift"}, "null must be one of 'auto', 'shifts', 'spectral', got 'shift'; did"),
        ({"null": dhsic.Permutation(9)}, "null must be one of 'auto', 'shifts', 'spectral'"),
        ({"null": "spectral", "n_resamples": 9}, "n_resamples must be left out with null 'spec"),
        ({"null": dhsic.Shifts(9), "n_resamples": 9}, "n_resamples must be left out where null is"),
        ({"n_resamples": 0}, "n_resamples must be an integer"),
    ],
)
def test_null__is_checked(data, options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        dhsic.dependence_matrix(*data, **options)


@pytest.mark.parametrize("null", ["auto", "spectral"])
def test_pvalues__keep_their_level_and_find_what_there_is(null):
    rejected = found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, y, noise = rng.standard_normal((3, 150))
        matrix = dhsic.dependence_matrix(x, y, x**2 + noise, rng=seed, threads=1, null=null)
        rejected += matrix.pvalues[0, 1] <= 0.05
        found += matrix.pvalues[0, 2] <= 0.05
    assert rejected <= 9  # of 60 at 5 %: more has a probability of 0.2 %
    assert found >= 55


def test_few_landmarks__are_near_all_of_them(data, found):
    few = dhsic.dependence_matrix(*data, n_landmarks=60, rng=3)
    assert few.landmarks.drawn == 60
    np.testing.assert_allclose(few.cka, found.cka, atol=0.03)
    assert not np.array_equal(few.cka, found.cka)


def test_answer__is_the_same_for_a_seed_and_on_any_blocks(data, client):
    whole = dhsic.dependence_matrix(*data, n_landmarks=20, rng=1)
    again = dhsic.dependence_matrix(*data, n_landmarks=20, rng=1)
    other = dhsic.dependence_matrix(*data, n_landmarks=20, rng=2)
    there = dhsic.dependence_matrix(*data, n_landmarks=20, rng=1, client=client)
    np.testing.assert_array_equal(whole.cka, again.cka)
    np.testing.assert_array_equal(whole.pvalues, again.pvalues)
    np.testing.assert_allclose(whole.cka, there.cka, rtol=1e-10)
    np.testing.assert_array_equal(whole.pvalues, there.pvalues)
    assert not np.array_equal(whole.cka, other.cka)


def test_options__are_used(data):
    heard = []
    found = dhsic.dependence_matrix(
        data[0], data[1], kernels=["laplacian", None], rng=0, precision="float32",
        progress=heard.append,
    )  # fmt: skip
    assert found.variables[0].kernel.startswith("laplacian:")
    assert found.variables[1].kernel.startswith("gaussian:")
    assert (found.precision, found.seed, found.names) == ("float32", 0, ("x1", "x2"))
    assert [type(event) for event in heard if isinstance(event, (RunStarted, PassFinished))] == [
        RunStarted,
        PassFinished,
        PassFinished,
    ]


def test_summary__says_what_was_found(found):
    lines = dict(found.summary())
    assert lines["variables"] == "4, 6 pairs"
    assert lines["strongest"].startswith("x and y: CKA 0.")
    assert lines["dependent"].startswith("1 pair at level 0.05")
    assert lines["null"].startswith("shifts: exact for exchangeable rows; all 120 shifts")
    assert str(found).splitlines()[0] == "variables  4, 6 pairs"
    assert "<th" in found._repr_html_()


def test_from_json__reads_results_of_earlier_versions(found):
    text = found.to_dict()
    del text["null"], text["null_reason"]
    old = dhsic.DependenceMatrix.from_json(json.dumps(text, default=np.ndarray.tolist))
    assert (old.null, old.null_reason) == ("spectral", "")
    assert dict(old.summary())["null"] == "spectral"


def test_checkpoint__goes_on_with_the_same_answer(data, tmp_path):
    options = {"rng": 0, "checkpoint": str(tmp_path / "kept")}
    first = dhsic.dependence_matrix(*data, **options)
    np.testing.assert_array_equal(dhsic.dependence_matrix(*data, **options).cka, first.cka)
    with pytest.raises(InvalidArgumentError, match="n_landmarks"):
        dhsic.dependence_matrix(*data, n_landmarks=30, **options)


def test_memory__is_refused_where_it_does_not_suffice(rng):
    variables = rng.standard_normal((500, 6, 30)).transpose(1, 0, 2)
    with pytest.raises(MemoryBudgetError, match="fewer landmarks, fewer variables"):
        dhsic.dependence_matrix(*variables, n_landmarks=400, memory="160MiB", rng=0, threads=1)


def test_memory__of_replicates_of_all_pairs_is_planned(rng):
    variables = rng.standard_normal((6, 60))
    with pytest.raises(MemoryBudgetError, match=r"the plan needs .* the replicates"):
        dhsic.dependence_matrix(
            *variables, null="shifts", n_resamples=4_000_000, memory="512MiB", threads=1
        )


def test_bad_data__is_refused_by_name(data):
    with pytest.raises(DataError, match="'flat' is constant"):
        dhsic.dependence_matrix(data[0], np.ones(N), names=["x", "flat"])
    with pytest.raises(InvalidArgumentError, match="n_landmarks"):
        dhsic.dependence_matrix(*data, n_landmarks=0)
    with pytest.raises(InvalidArgumentError, match="at least two variables"):
        dhsic.dependence_matrix(data[0])


def test_adjusted__is_holm_over_the_pairs(found):
    above = np.triu_indices(4, 1)
    pvalues = found.pvalues[above]
    order = np.argsort(pvalues)
    running, expected = 0.0, np.empty(6)
    for rank, k in enumerate(order):
        running = max(running, (6 - rank) * pvalues[k])
        expected[k] = min(running, 1.0)
    np.testing.assert_allclose(found.adjusted[above], expected)
    np.testing.assert_array_equal(found.adjusted, found.adjusted.T)


def test_result__is_frozen_and_the_same_after_a_trip_through_json(found):
    again = dhsic.DependenceMatrix.from_json(found.to_json(indent=1))
    assert again == found
    assert (again.names, again.landmarks, again.passes) == (
        found.names,
        found.landmarks,
        found.passes,
    )
    np.testing.assert_array_equal(again.hsic, found.hsic)
    changed = replace(found, pvalues=found.pvalues * (1.0 - 1e-15))
    assert changed != found
    with pytest.raises(ValueError, match="read-only"):
        again.cka[0, 1] = 0.0


def test_kernel__that_is_one_number_is_refused_by_name(rng):
    x, signs = rng.standard_normal(60), np.where(np.arange(60) % 2, 1.0, -1.0)
    square = Polynomial(degree=2, coef0=0.0, gamma=1.0, origin=(0.0,))
    with pytest.raises(InvalidArgumentError, match=r"must vary .* and does not for 'signs'"):
        dhsic.dependence_matrix(x, signs, kernels=["gaussian", square], names=["x", "signs"])


@pytest.mark.parametrize("text", ["", "{}", '{"result": "ColumnRanking"}', "[1]"])
def test_from_json__refuses_what_is_something_else(text):
    with pytest.raises(InvalidArgumentError, match="must be the JSON of a DependenceMatrix"):
        dhsic.DependenceMatrix.from_json(text)


def test_plot__crosses_pairs_above_the_level(found):
    axes = found.plot(alpha=1e-300)
    assert sum("×" in text.get_text() for text in axes.texts) == 12
    with pytest.raises(InvalidArgumentError, match="alpha must be"):
        found.plot(alpha=2.0)
    assert found.plot(axes) is axes
    plt.close("all")
