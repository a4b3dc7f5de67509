"""All pairs at once are what every pair is by itself."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dhsic
from dhsic.engine.events import PassFinished, RunStarted
from dhsic.engine.reduction import RowBlock
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.features import KernelFeatures
from dhsic.kernels import Gaussian, parse
from dhsic.pairwise.moments import AllMomentsPass
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


def test_cka__is_the_cosine_of_centred_gram_matrices(found, data):
    centre = np.eye(N) - 1.0 / N
    k = [centre @ gram @ centre for gram in grams(found, data)]
    expected = [[(a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b) for b in k] for a in k]
    np.testing.assert_allclose(found.cka, expected, rtol=2e-6, atol=1e-9)
    np.testing.assert_array_equal(found.cka.diagonal(), 1.0)
    np.testing.assert_array_equal(found.cka, found.cka.T)


@pytest.mark.parametrize(("i", "j"), [(0, 1), (0, 2), (1, 3)])
def test_pvalue__is_that_of_the_spectral_test_of_the_pair(found, data, i, j):
    kernels = [parse(found.variables[k].kernel) for k in (i, j)]
    estimator = dhsic.NystromHSIC(n_landmarks=N)
    alone = dhsic.independence_test(
        data[i], data[j], kernels=kernels, estimator=estimator, null="spectral", rng=0
    )
    assert found.pvalues[i, j] == pytest.approx(alone.pvalue, rel=1e-4)
    assert found.pvalues[j, i] == found.pvalues[i, j]
    assert found.hsic[i, j] == pytest.approx(alone.estimate, rel=1e-6)


def test_pvalues__keep_their_level_and_find_what_there_is():
    rejected = found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, y, noise = rng.standard_normal((3, 150))
        matrix = dhsic.dependence_matrix(x, y, x**2 + noise, rng=seed, threads=1)
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
    np.testing.assert_allclose(whole.cka, there.cka, rtol=1e-10)
    assert not np.array_equal(whole.cka, other.cka)


def test_blocks__add_up_to_the_whole(data, rng):
    columns = [np.reshape(x, (N, -1)) for x in data[:3]]
    maps = tuple(KernelFeatures.at(x[:9], Gaussian(0.5), np.float64) for x in columns)
    centres = tuple(rng.standard_normal(9) for _ in maps)
    moments = AllMomentsPass(maps, centres)
    features = np.hstack([one(x) - c for one, x, c in zip(maps, columns, centres, strict=True)])
    beside = np.column_stack([features, np.ones(N)])
    parts = [
        moments.chunk(RowBlock(start, tuple(x[start : start + 50] for x in columns)))
        for start in (0, 50, 100)
    ]
    total = moments.combine(moments.combine(parts[0], parts[1]), parts[2])
    np.testing.assert_allclose(total.products, beside.T @ beside, rtol=1e-12)
    assert moments.n_features == 27
    assert moments.footprint(50).state == total.products.nbytes


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
    ]


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


@pytest.mark.parametrize("text", ["", "{}", '{"result": "FeatureRanking"}', "[1]"])
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
