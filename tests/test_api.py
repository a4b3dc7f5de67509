"""The public functions: options, errors, and answers that do not depend on where they are found."""

import json

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import dhsic
from dhsic.engine.session import Session
from dhsic.errors import DataError
from dhsic.estimators import Estimate
from dhsic.kernels import Combinations, Gaussian
from dhsic.results import FeatureSummary

RNG = np.random.default_rng(0)
X = RNG.standard_normal((9000, 3))
Y = 0.1 * X[:, 0] ** 2 + RNG.standard_normal(9000)
FEATURES = FeatureSummary("columns", (1, 2))
# without a share of the reference, scores are numbers that show every change, not ranks
GRID = dhsic.Grid(dhsic.Candidates("gaussian", (0.5, 1.0)), combine="all", reference_share=0)
OPTIONS = {
    "kernels": "gaussian",
    "estimator": dhsic.NystromMHSIC(n_landmarks=40),
    "null": dhsic.Multiplier(20),
    "rng": 1,
}
SINGLE = Combinations.single([Gaussian(), Gaussian()])
one_and_several = pytest.mark.parametrize("kernels", ["gaussian", GRID], ids=["one", "several"])


@pytest.fixture(scope="module")
def reference():
    return dhsic.independence_test(X, Y, **OPTIONS)


@pytest.fixture(scope="module")
def references(reference):
    several = dhsic.independence_test(X, Y, **{**OPTIONS, "kernels": GRID})
    return {"gaussian": reference, GRID: several}


@one_and_several
@settings(max_examples=15, deadline=None)
@given(
    rows=st.integers(1, 9000).map(lambda n: max(n, 37)),
    columns=st.integers(1, 3),
    other=st.integers(500, 9000),
    kind=st.sampled_from(["dask", "zarr", "memory"]),
)
def test_independence_test__any_chunks_give_the_same_answer(
    references, kernels, rows, columns, other, kind
):
    x = da.from_array(X, chunks=(rows, columns))
    if kind == "zarr":
        y = zarr.create_array({}, data=Y, chunks=(other,))
    elif kind == "dask":
        y = da.from_array(Y, chunks=other)
    else:
        y = Y
    result = dhsic.independence_test(x, y, **{**OPTIONS, "kernels": kernels})
    expected = references[kernels]
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert result.estimate == pytest.approx(expected.estimate, rel=1e-9)
    np.testing.assert_allclose(
        result.null_distribution, expected.null_distribution, rtol=1e-9, atol=1e-9
    )


@one_and_several
@pytest.mark.parametrize("within", ["all", "groups"])
def test_permutation__does_not_depend_on_chunks(within, kernels):
    null = dhsic.Permutation(10, within=within, group_rows=1000)
    options = {**OPTIONS, "kernels": kernels, "null": null}
    whole = dhsic.independence_test(X, Y, **options)
    chunked = dhsic.independence_test(
        da.from_array(X, chunks=(777, 3)), da.from_array(Y, chunks=2048), **options
    )
    np.testing.assert_allclose(
        chunked.null_distribution, whole.null_distribution, rtol=1e-9, atol=1e-9
    )


@one_and_several
def test_second_call__gives_the_same_answer(references, kernels):
    again = dhsic.independence_test(X, Y, **{**OPTIONS, "kernels": kernels})
    assert again.null_distribution.tobytes() == references[kernels].null_distribution.tobytes()


@one_and_several
def test_rng__changes_the_draws_and_is_recorded(references, kernels):
    options = {**OPTIONS, "kernels": kernels}
    other = dhsic.independence_test(X, Y, **{**options, "rng": 2})
    assert other.seed == 2
    assert other.estimate != references[kernels].estimate
    drawn = dhsic.independence_test(X, Y, **{**options, "rng": np.random.default_rng(3)})
    again = dhsic.independence_test(X, Y, **{**options, "rng": drawn.seed})
    assert (again.statistic, again.estimate) == (drawn.statistic, drawn.estimate)


@one_and_several
@pytest.mark.parametrize("null", ["multiplier", "permutation"])
def test_n_resamples__is_the_number_of_replicates(null, kernels):
    options = {"kernels": kernels, "null": null, "n_resamples": 17, "rng": 0}
    result = dhsic.independence_test(X[:300], Y[:300], **options)
    assert len(result.null_distribution) == 17
    assert result.pvalue >= 1 / 18


def test_n_resamples__more_begin_with_the_same():
    more = dhsic.independence_test(X, Y, **{**OPTIONS, "null": dhsic.Multiplier(30)})
    first = dhsic.independence_test(X, Y, **OPTIONS)
    np.testing.assert_allclose(more.null_distribution[:20], first.null_distribution, rtol=1e-10)


def test_kernels__one_a_variable_and_each_is_used(reference):
    gammas = [0.1, 0.9]
    result, swapped = (
        dhsic.independence_test(X, Y, **{**OPTIONS, "kernels": [Gaussian(gamma=g) for g in order]})
        for order in (gammas, gammas[::-1])
    )
    assert [v.kernel for v in result.variables] == ["gaussian:0.1", "gaussian:0.9"]
    assert len({reference.statistic, result.statistic, swapped.statistic}) == 3


def test_default_bandwidth__follows_its_own_variable(reference):
    widened = dhsic.independence_test(X, 1000.0 * Y, **OPTIONS)
    first, second = (float(v.kernel.split(":")[1]) for v in reference.variables)
    first_again, second_again = (float(v.kernel.split(":")[1]) for v in widened.variables)
    assert first_again == first
    assert second_again == pytest.approx(1e-6 * second, rel=1e-12)


@one_and_several
def test_precision__is_that_of_the_tiles(references, kernels):
    options = {**OPTIONS, "kernels": kernels}
    single = dhsic.independence_test(X, Y, precision="float32", **options)
    double = references[kernels]
    assert single.precision == "float32"
    assert single.null_distribution.tobytes() != double.null_distribution.tobytes()
    np.testing.assert_allclose(
        single.null_distribution, double.null_distribution, rtol=1e-3, atol=1e-3
    )


def test_names__are_in_the_result():
    options = {"names": ["x", "year"], "kernels": "gaussian", "rng": 0}
    result = dhsic.independence_test(X[:50], Y[:50], **options)
    assert [v.name for v in result.variables] == ["x", "year"]


def test_memory__refuses_what_cannot_fit():
    with pytest.raises(dhsic.errors.MemoryBudgetError, match=r"fewer landmarks.*allow more memory"):
        dhsic.independence_test(X, Y, memory="1MiB")


@one_and_several
def test_progress__receives_events(kernels):
    events = []
    dhsic.independence_test(X, Y, progress=events.append, **{**OPTIONS, "kernels": kernels})
    names = [type(event).__name__ for event in events]
    assert names.count("PassStarted") == names.count("PassFinished") == 2
    assert sum(e.amount for e in events if type(e).__name__ == "BlockFinished") == 2 * 9000


def test_plan__runs_nothing_and_says_what_would():
    class Untouchable(np.ndarray):
        def __getitem__(self, key):
            pytest.fail("the plan must not read the data")

    options = {"kernels": "gaussian", "estimator": "nystrom-m", "null": "multiplier"}
    plan = dhsic.plan(X.view(Untouchable), Y, **options, threads=1)
    assert [step.name for step in plan.passes] == ["kernel sums", "multiplier null"]
    assert "9,000 rows of x1, x2" in str(plan)
    assert plan.passes[1].bytes_to_driver == 8 * (759 * 251 + 250)


def test_hsic__is_the_estimate_of_the_test(reference):
    estimator = dhsic.NystromMHSIC(n_landmarks=40, pairing="independent")
    estimate = dhsic.hsic(X, Y, estimator=estimator, rng=1)
    assert estimate.estimate == pytest.approx(reference.estimate, rel=1e-9)
    assert json.loads(estimate.to_json())["estimator"] == "nystrom-m"


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        ((X[:, :1],), {}, "at least two variables, got 1"),
        ((X, Y[:-1]), {}, "same rows.*'x1' 9000, 'x2' 8999"),
        ((X, Y), {"estimator": "nystrom"}, "estimator must be one of.*did you mean 'nystrom-m'"),
        (
            (X, Y),
            {"estimator": 3},
            "estimator must be a name or one of NystromMHSIC, .*, got 3",
        ),
        ((X, Y), {"estimator": "autos"}, "one of 'auto', 'nystrom-m'.*did you mean 'auto'"),
        ((X, Y), {"null": "permutations"}, "choose auto, shifts.*did you mean 'permutation'"),
        (
            (X, Y),
            {"null": "normal", "estimator": "v-hsic"},
            "'normal' is not available for v-hsic; choose auto, .*; it is for block",
        ),
        (
            (X, Y),
            {"null": dhsic.Normal()},
            "'normal' is not available for nystrom-m; choose auto, .*; it is for block",
        ),
        *(
            ((X, Y), {"null": null, "n_resamples": 9}, f"left out with null '{null}', which draws")
            for null in ("gamma", "spectral")
        ),
        (
            (X, Y),
            {"null": dhsic.Spectral("simulation"), "n_resamples": 9},
            "n_resamples must be left out where null is a value",
        ),
        ((X, Y), {"kernels": ["gaussian"] * 3}, "one for each of 2 variables, got 3"),
        ((X, Y), {"kernels": "gausian"}, "gausian.*gaussian"),
        ((X, Y), {"kernels": [1, 2]}, "names or Kernel values, got 1"),
        ((X, Y), {"kernels": [None, "gausian"]}, "gausian.*gaussian"),
        ((X, Y), {"kernels": 3}, "a name, a Kernel, a sequence of them, or a Grid, got 3"),
        ((X, Y), {"null": dhsic.Multiplier}, "got the class: write Multiplier"),
        (
            (X, Y),
            {"null": np.zeros(3)},
            "null must be a name, or a value .* got an ndarray of shape \\(3,\\)",
        ),
        (
            (X, Y),
            {"null": dhsic.Multiplier(), "n_resamples": 9},
            "where null is a value, got 9 beside Multiplier.*: set it in the value",
        ),
        ((X, Y), {"progress": 3}, "progress must be True or False"),
        ((X, Y), {"client": "tcp://127.0.0.1:1"}, "running, synchronous distributed.Client"),
        ((X, np.full(9000, 2**60)), {}, "'x2' has integers beyond 2\\*\\*53"),
        ((X, Y), {"precision": "float16"}, "precision must be one of.*got 'float16'"),
        ((X, Y), {"n_resamples": 0}, "n_resamples must be an integer >= 1, got 0"),
        ((X, Y), {"n_resamples": 1}, "n_resamples must be an integer >= 2, got 1"),
        ((X, Y), {"threads": 0}, "threads must be an integer >= 1, got 0"),
        ((X, Y), {"memory": "lots"}, "memory must be a positive number of bytes"),
        ((X, Y), {"rng": -1}, "rng must be an integer >= 0"),
        ((X, Y), {"names": ["a", "a"]}, "2 different words"),
        ((X[:3, 0], Y[:3]), {}, "at least 4 rows, got 3: add rows$"),
        ((np.zeros((3, 7)), Y[:3]), {}, "got 3: add rows; rows are observations: pass variables"),
        (
            (X, Y),
            {"estimator": dhsic.NystromMHSIC(n_landmarks=9001)},
            "9001 landmarks for 9000 rows: take at most 9000",
        ),
        ((X, np.zeros(9000)), {}, "'x2' is constant: all 9000 rows are the same"),
    ],
)
def test_bad_input__is_an_error_that_says_so(arguments, options, match):
    with pytest.raises(dhsic.errors.DhsicError, match=match):
        dhsic.independence_test(*arguments, **options)


def rare(rows, values=1.0, n=9000):
    """A variable that is 0 but in a few rows, of which the seeds below draw none."""
    x = np.zeros(n)
    x[rows] = values
    return x


@pytest.mark.parametrize("kernels", ["gaussian", "matern32", "laplacian", None])
def test_rare_events__have_a_bandwidth_of_their_own(kernels):
    """The mean of the distances that are not 0, for most are."""
    result = dhsic.independence_test(X, rare([0, 1], [3.0, 5.0]), kernels=kernels, rng=0)
    assert result.passes[0].name == "scan"
    assert 0 < result.pvalue <= 1
    if kernels is None:
        assert np.isfinite([c.standardised for c in result.grid.combinations]).all()
    else:
        length = float(result.variables[1].kernel.split(":")[1])
        length = {"gaussian": length**-0.5, "matern32": length, "laplacian": 1 / length}[kernels]
        assert length == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("kernel", ["gaussian:1.0", "delta"])
def test_rare_events__are_tested_with_a_kernel_as_it_is(kernel):
    result = dhsic.independence_test(X, rare([0, 1]), kernels=["gaussian", kernel], rng=0)
    assert result.variables[1].kernel == kernel
    assert 0 < result.pvalue <= 1


def test_rare_events__that_matter_are_found():
    y = Y + 30.0 * rare(np.arange(0, 9000, 1500))
    x = rare(np.arange(0, 9000, 1500))
    for estimator in (dhsic.NystromMHSIC(50), dhsic.NystromHSIC(20), dhsic.RFFHSIC(50)):
        result = dhsic.independence_test(
            x, y, kernels="gaussian", estimator=estimator, null=dhsic.Permutation(99), rng=0
        )
        assert result.pvalue <= 0.05


def test_rare_events__give_the_same_answer_whatever_the_chunks_and_workers(client, tmp_path):
    x = rare(np.arange(3, 9000, 1000), np.arange(1.0, 10.0))
    whole = {"write_empty_chunks": True}
    zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(700,), config=whole)
    options = {"kernels": "gaussian", "estimator": dhsic.NystromMHSIC(20), "rng": 0}
    here = dhsic.independence_test(x, Y, threads=1, **options)
    assert here.passes[0].name == "scan"
    for variable, where in (
        (x, {"threads": 3}),
        (str(tmp_path / "x.zarr"), {"threads": 2}),
        (da.from_array(x, chunks=1234), {"client": client}),
        (str(tmp_path / "x.zarr"), {"client": client}),
    ):
        there = dhsic.independence_test(variable, Y, **where, **options)
        assert [v.kernel for v in there.variables] == [v.kernel for v in here.variables]
        assert there.statistic == pytest.approx(here.statistic, rel=1e-9)


def test_rare_events__do_not_know_of_the_other_variable():
    """The kernel of a variable is the same beside its rows in any order of the other."""
    x = rare(np.arange(3, 9000, 1000), np.arange(1.0, 10.0))
    options = {"kernels": "gaussian", "estimator": dhsic.NystromMHSIC(20), "rng": 0}
    kernels = {
        dhsic.hsic(x, other, **options).variables[0].kernel for other in (Y, Y[::-1], rare([5]), X)
    }
    assert len(kernels) == 1


def test_rare_events__go_through_everything_that_fits_kernels():
    x, z = X[:, 0], X[:, 1]
    y = rare([0, 1, 5000])
    options = {"rng": 0, "threads": 1}
    matrix = dhsic.dependence_matrix(x, y, z, **options)
    assert np.isfinite(matrix.pvalues).all()
    values = [
        dhsic.interaction_test(x, y, z, n_resamples=9, **options).pvalue,
        dhsic.two_sample_test(y[:4000], y[4000:], kernels="gaussian", **options).pvalue,
        dhsic.witness_functions(x, y, **options).coco,
        dhsic.mean_embedding(y, **options).kernel.gamma,
        *dhsic.sensitivity_map(x, y, **options).features.values(),
    ]
    assert np.isfinite(np.hstack(values)).all()
    assert values[3] == 1.0


def test_scan__is_not_made_where_samples_vary(monkeypatch):
    monkeypatch.setattr(Session, "_scan", lambda *_: pytest.fail("all rows were looked at"))
    dhsic.independence_test(X, Y, **OPTIONS)


def test_hsic__of_one_row_is_refused_in_words():
    match = "an estimate of dependence needs at least 2 rows, got 1: add rows"
    with pytest.raises(dhsic.errors.DataError, match=match):
        dhsic.hsic([1.0], [2.0], rng=0)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("estimator", ["nystrom-m", "v-hsic", "rff-hsic", "auto"])
def test_hsic__of_three_variables_is_zero_where_two_are_constant(estimator, precision):
    data = np.full(9000, 0.1), Y, np.full((9000, 2), -3.0)
    found = dhsic.hsic(*data, estimator=estimator, rng=0, precision=precision)
    assert abs(found.estimate) < {"float64": 1e-12, "float32": 1e-9}[precision]
    again = dhsic.DependenceEstimate.from_json(found.to_json())
    assert again == found


def test_hsic__of_a_constant_takes_any_kernel():
    for kernel in ("matern32", "laplacian", "imq", "delta", "columns(gaussian)", "gaussian+delta"):
        found = dhsic.hsic(np.full(50, 0.1), Y[:50], kernels=kernel, estimator="v-hsic", rng=0)
        assert abs(found.estimate) < 1e-12


def test_within__is_said_in_the_result():
    groups = "shuffled in groups of 100 rows"
    for within, words in (("all", "all rows shuffled"), ("groups", groups)):
        null = dhsic.Permutation(5, within=within, group_rows=100)
        for kernels in ("gaussian", GRID):
            result = dhsic.independence_test(X[:300], Y[:300], kernels=kernels, null=null, rng=0)
            assert result.null_reason == f"as asked; {words}"


def test_client__without_workers_is_refused(monkeypatch):
    monkeypatch.setattr("dhsic.engine.runtime._START_SECONDS", 0.2)

    class Empty:
        status = "running"

        def nthreads(self):
            return {}

    with pytest.raises(dhsic.errors.InvalidArgumentError, match="client must have workers"):
        dhsic.independence_test(X, Y, client=Empty())
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="threads must be left out"):
        dhsic.independence_test(X, Y, client=Empty(), threads=2)


REPLICATES = [dhsic.Multiplier(20), dhsic.Permutation(5, within="groups")]
FITTED = [dhsic.Spectral(), dhsic.Spectral("simulation", n_resamples=50), dhsic.Gamma()]


@pytest.mark.parametrize(
    ("kernels", "null"),
    [
        *(("gaussian", null) for null in (*REPLICATES, *FITTED)),
        *((GRID, null) for null in REPLICATES),
    ],
)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_same_blocks__give_the_same_bits_on_threads_and_processes(
    client, tmp_path, kernels, null, precision
):
    paths = tmp_path / "x.zarr", tmp_path / "y.zarr"
    for path, array in zip(paths, (X, Y[:, None]), strict=True):
        zarr.create_array(path, data=array, chunks=(1000, array.shape[1]))
    options = {**OPTIONS, "kernels": kernels, "null": null, "precision": precision}
    runs = [
        dhsic.independence_test(*map(str, paths), **where, **options)
        for where in ({"threads": 1}, {"threads": 3}, {"client": client})
    ]
    assert len({result.statistic for result in runs}) == 1
    assert len({result.pvalue for result in runs}) == 1
    assert len({result.null_distribution.tobytes() for result in runs}) == 1


@one_and_several
def test_dask_arrays__are_computed_on_the_current_client(client, kernels):
    x, y = da.from_array(X, chunks=(1000, 3)), da.from_array(Y, chunks=3000)
    options = {**OPTIONS, "kernels": kernels}
    here = dhsic.independence_test(x, y, **options)
    with client.as_current():
        held = client.persist(x)
        there = dhsic.independence_test(held, y, **options)
    np.testing.assert_allclose(
        there.null_distribution, here.null_distribution, rtol=1e-9, atol=1e-9
    )


def test_auto_null__never_refuses_itself_for_memory():
    x = np.zeros(900_000)
    options = {"kernels": "gaussian", "estimator": dhsic.NystromMHSIC(n_landmarks=4), "threads": 1}
    assert "shifts" in str(dhsic.plan(x, x, **options).check())


@pytest.mark.parametrize("null", ["gamma", "spectral"])
def test_fitted_null__has_no_monte_carlo_error_and_draws_to_look_at(null):
    result = dhsic.independence_test(X, Y, **{**OPTIONS, "null": null})
    assert result.pvalue_error is None
    assert result.null == null
    assert len(result.null_distribution) == 1000
    assert (result.null_distribution >= result.statistic).mean() == pytest.approx(
        result.pvalue, abs=0.05
    )
    again = dhsic.IndependenceTestResult.from_json(result.to_json())
    assert again == result


def test_simulated_spectrum__has_a_monte_carlo_error():
    null = dhsic.Spectral("simulation", n_resamples=400)
    result = dhsic.independence_test(X, Y, **{**OPTIONS, "null": null})
    assert len(result.null_distribution) == 400
    assert result.pvalue_error == pytest.approx(np.sqrt(result.pvalue * (1 - result.pvalue) / 400))


@pytest.mark.parametrize("kernels", [None, ["gaussian", None]])
def test_kernels__are_the_gaussian_where_not_given_and_the_null_takes_one(kernels):
    options = {**OPTIONS, "null": "gamma"}
    given = dhsic.independence_test(X, Y, **options)
    left_out = dhsic.independence_test(X, Y, **{**options, "kernels": kernels})
    assert left_out.grid is None
    assert (left_out.statistic, left_out.pvalue) == (given.statistic, given.pvalue)


def test_too_many_variables__names_the_estimators_that_take_more():
    match = (
        r"'coco' takes at most 2 variables, got 3: take nystrom-m or rff-hsic or nfsic or v-hsic"
    )
    with pytest.raises(dhsic.errors.InvalidArgumentError, match=match):
        dhsic.independence_test(X[:50], Y[:50], Y[:50] ** 2, estimator="coco")


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
def test_kernel__is_the_estimator_s_to_choose(monkeypatch):
    monkeypatch.setattr(
        dhsic.NystromMHSIC, "kernel", lambda self, given: given or Gaussian(gamma=3)
    )
    options = {"kernels": [None, "laplacian"], "estimator": "nystrom-m", "null": "gamma", "rng": 0}
    result = dhsic.independence_test(X[:50], Y[:50], **options)
    first, second = (v.kernel for v in result.variables)
    assert first == "gaussian:3.0"
    assert second.startswith("laplacian")


def test_quantity__is_the_estimate_s(monkeypatch):
    measured = Estimate(0.5, (Gaussian(gamma=1.0),) * 2, quantity="COCO", features=FEATURES)
    monkeypatch.setattr(dhsic.NystromMHSIC, "estimate", lambda *_: measured)
    result = dhsic.hsic(X, Y, estimator="nystrom-m")
    assert (result.quantity, result.features) == ("COCO", FEATURES)


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
def test_n_resamples__is_refused_where_auto_finds_a_null_without(monkeypatch):
    monkeypatch.setattr(dhsic.NystromMHSIC, "choose_null", lambda *_: (dhsic.Gamma(), "why"))
    data = X[:50], Y[:50]
    options = {"kernels": "gaussian", "estimator": "nystrom-m", "rng": 0}
    assert dhsic.independence_test(*data, **options).null_reason == "why"
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="left out with null 'gamma'"):
        dhsic.independence_test(*data, **options, n_resamples=9)
    for kernels in (GRID, None):
        asked = {**options, "kernels": kernels, "n_resamples": 9}
        several = dhsic.independence_test(*data, **asked)
        assert (several.null, len(several.null_distribution)) == ("multiplier", 9)
        assert several.null_reason.startswith("several kernels need replicates that they share")


def test_witness_functions__have_the_covariance_that_they_say():
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((2, 400))
    y = np.column_stack([x**2 + 0.5 * noise, rng.standard_normal(400)])
    options = {"estimator": dhsic.COCO(n_landmarks=300), "rng": 1, "kernels": "laplacian"}
    found = dhsic.witness_functions(x, y, **options)
    f, g = found.first(x[:, None]), found.second(y)
    assert np.cov(f, g, bias=True)[0, 1] == pytest.approx(found.coco, rel=1e-6)
    assert found.coco == pytest.approx(dhsic.hsic(x, y, **options).estimate, rel=1e-12)
    assert found.first.kernel.spec().startswith("laplacian")
    with pytest.raises(dhsic.errors.InvalidArgumentError, match="need estimator 'coco'"):
        dhsic.witness_functions(x, y, estimator="v-hsic")


def test_balanced_numbers__of_two_values_are_tested_beside_others():
    rng = np.random.default_rng(0)
    first, second = np.tile([0.0, 1.0], 30), np.repeat([0.0, 1.0], 30)  # of which all spreads are 0
    beside_labels = pd.DataFrame({"a": first, "b": pd.Categorical(rng.integers(0, 3, 60))})
    for x in (np.column_stack([first, 1.0 - first]), np.column_stack([first, second])):
        assert dhsic.independence_test(x, first + rng.random(60), rng=0).pvalue < 0.01
    assert dhsic.independence_test(beside_labels, first + rng.random(60), rng=0).pvalue < 0.01
    with pytest.raises(DataError, match="rescale the variable"):
        dhsic.independence_test(1e-200 * first, second, kernels="linear", rng=0)
