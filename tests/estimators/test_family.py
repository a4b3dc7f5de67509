"""What must hold for every estimator with every null that stands with it."""

import dask.array as da
import numpy as np
import pytest
import zarr

import dhsic
from benchmarks.shared.cases import one_kernel
from dhsic._random import generator
from dhsic.errors import DhsicError
from dhsic.estimators import TABLE
from dhsic.estimators.identities import left_out_text
from dhsic.kernels import Gaussian

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

NULLS = (
    dhsic.Permutation(19, within="all"),
    dhsic.Permutation(19, within="groups", group_rows=64),
    dhsic.Multiplier(19),
    dhsic.Gamma(),
    dhsic.Spectral(),
    dhsic.Normal(),
    dhsic.ChiSquare(),
)
PAIRS = [
    pytest.param(entry.estimator(), null, id=f"{entry.estimator.name}-{null}".split("(")[0])
    for entry in TABLE
    for null in NULLS
    if type(null) in entry.nulls
]
GRID_ESTIMATORS = (
    dhsic.NystromMHSIC(),
    dhsic.NystromHSIC(),
    dhsic.RFFHSIC(30),
    dhsic.VHSIC(),
    dhsic.UHSIC(),
)
FEWEST_ROWS = {"u-hsic": 4, "block-hsic": 8, "nfsic": 3}  # of an estimate; else 2
every_pair = pytest.mark.parametrize(("estimator", "null"), PAIRS)
every_estimator = pytest.mark.parametrize(
    "entry", [pytest.param(entry, id=entry.estimator.name) for entry in TABLE]
)


def independent(n, dims=(3, 1), seed=0):
    rng = np.random.default_rng([n, seed])
    return [rng.standard_normal((n, d)) for d in dims]


def run(data, estimator, null, **options):
    options = {"kernels": one_kernel(estimator), "rng": 4, **options}
    return dhsic.independence_test(*data, estimator=estimator, null=null, **options)


def check_same(left, right, rel):
    assert left.statistic == pytest.approx(right.statistic, rel=rel, abs=rel)
    assert left.pvalue == pytest.approx(right.pvalue, rel=100 * rel)
    assert left.estimate == pytest.approx(right.estimate, rel=rel, abs=rel)
    np.testing.assert_allclose(
        left.null_distribution, right.null_distribution, rtol=100 * rel, atol=rel
    )


@pytest.mark.sampled(2)
@every_pair
def test_test__reads_dask_and_zarr_as_it_reads_numpy(estimator, null, tmp_path):
    data = independent(300)
    stored = [
        zarr.create_array(tmp_path / str(i), data=x, chunks=(70, 1)) for i, x in enumerate(data)
    ]
    lazy = [da.from_array(x, chunks=(110, 1)) for x in data]
    expected = run(data, estimator, null)
    for variables in (stored, lazy):
        check_same(run(variables, estimator, null), expected, 1e-9)


@pytest.mark.sampled(2)
@every_pair
def test_test__is_the_same_on_a_client(estimator, null, client):
    data = independent(400)
    check_same(run(data, estimator, null, client=client), run(data, estimator, null), 1e-12)


@every_pair
def test_test__gives_the_same_answer_again(estimator, null):
    data = independent(150)
    first, second = (run(data, estimator, null, threads=t) for t in (1, 3))
    assert (first.statistic, first.pvalue) == (second.statistic, second.pvalue)
    np.testing.assert_array_equal(first.null_distribution, second.null_distribution)


@every_pair
def test_test__does_not_change_with_units(estimator, null):
    x, y = independent(150)
    y = y + x[:, :1]
    expected = run([x, y], estimator, null)
    changed = run([1e-3 * x + 7.0, 1e4 * y], estimator, null)
    assert changed.pvalue == pytest.approx(expected.pvalue, rel=1e-4)


NASTY = {
    "ties": lambda rng: [np.round(rng.standard_normal((90, 2))), rng.integers(0, 2, (90, 1)) * 1.0],
    "a single one": lambda rng: [np.eye(1, 90, 5).T, rng.standard_normal((90, 2))],
    "a single one and a column": lambda rng: [np.eye(1, 90, 5).T, rng.standard_normal((90, 1))],
    "an outlier": lambda rng: [
        np.where(np.eye(1, 90, 5).T > 0, 1e3, rng.standard_normal((90, 1))),
        rng.standard_normal((90, 1)),
    ],
    "a constant column": lambda rng: [
        np.column_stack([np.ones(90), rng.standard_normal(90)]),
        rng.standard_normal((90, 1)),
    ],
    "duplicated rows": lambda rng: [
        np.repeat(rng.standard_normal((30, 3)), 3, axis=0),
        rng.standard_normal((90, 1)),
    ],
    "heavy tails": lambda rng: [rng.standard_cauchy((90, 1)), rng.standard_cauchy((90, 2))],
    "few rows": lambda rng: [rng.standard_normal((16, 1)), rng.standard_normal((16, 1))],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", NASTY)
@every_pair
def test_test__makes_no_evidence_of_nasty_data(estimator, null, case):
    data = NASTY[case](np.random.default_rng(7))
    result = run(data, estimator, null)
    assert np.isfinite(result.statistic)
    assert 0.01 < result.pvalue <= 1.0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", NASTY)
@pytest.mark.parametrize("null", [dhsic.Permutation(99), dhsic.Multiplier(99)])
@pytest.mark.parametrize("estimator", GRID_ESTIMATORS, ids=lambda estimator: estimator.name)
def test_grid__makes_no_evidence_of_nasty_data(estimator, null, case):
    data, pvalues = NASTY[case](np.random.default_rng(7)), []
    single = sum(x.shape[1] == 1 for x in data)
    combinations = 16 if estimator.name == "rff-hsic" else (10, 9, 15)[single]
    for seed in (4, 5, 6):  # given the one row that differs, some landmarks are evidence
        result = run(data, estimator, null, kernels=dhsic.Grid(), rng=seed)
        kept = len(result.grid.combinations)
        assert kept == combinations or left_out_text(combinations - kept) in result.null_reason
        assert all(np.isfinite(one.standardised) for one in result.grid.combinations)
        assert np.isfinite([result.statistic, *result.null_distribution]).all()
        pvalues.append(result.pvalue)
    assert 0.01 < np.median(pvalues) <= 1.0


def test_grid__stands_with_all_of_these():
    assert [type(one) for one in GRID_ESTIMATORS] == [e.estimator for e in TABLE if e.grids]


@every_pair
def test_test__makes_no_evidence_of_rounding(estimator, null):
    x, y = np.random.default_rng(0).standard_normal((2, 200, 1))
    try:
        estimator.kernel(Gaussian())
    except DhsicError:
        x, y = x + 1e9, y + 1e9  # has its own kernel
        assert run([x, y], estimator, null).pvalue > 0.01
    else:
        kernels = Gaussian(gamma=1e-14)
        assert run([x, y], estimator, null, kernels=kernels).pvalue > 0.01


@pytest.mark.parametrize("null", ["spectral", "multiplier", "permutation"])
def test_flat_features__are_no_evidence(null):
    rare = np.eye(1, 60, 7)[0]
    y = np.random.default_rng(0).standard_normal(60)
    result = dhsic.independence_test(
        rare, y, estimator="nystrom-hsic", kernels="polynomial", null=null, rng=1
    )
    assert result.pvalue > 0.01


def test_overflow__is_an_error_in_words():
    huge = np.exp(20 * np.random.default_rng(5).standard_normal((2, 60)))
    with pytest.raises(DhsicError, match="must be finite"):
        dhsic.independence_test(*huge, estimator="block-hsic", kernels="polynomial", rng=1)


@every_pair
def test_test__finds_that_a_variable_is_itself(estimator, null):
    x = np.random.default_rng(0).standard_normal((400, 2))
    assert run([x, x], estimator, null).pvalue <= 0.05


@every_estimator
def test_constant_variable__is_refused_by_tests(entry):
    data = [np.ones((50, 1)), np.arange(50.0)]
    with pytest.raises(DhsicError, match="'x1' is constant"):
        dhsic.independence_test(*data, estimator=entry.estimator())


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("value", "precision"),
    [(0.0, "float64"), (3.7, "float64"), (3.7, "float32"), (-1e8, "float64"), (-1e8, "float32")],
)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 50])
@every_estimator
def test_constant_variable__has_estimate_zero(entry, n, value, precision):
    if n < FEWEST_ROWS.get(entry.estimator.name, 2):
        with pytest.raises(DhsicError, match=f"needs .* rows.*, got .*{n - n // 2}|got {n}"):
            dhsic.hsic(np.full(n, value), np.arange(n), estimator=entry.estimator(), rng=0)
        return
    y = np.random.default_rng(n).standard_normal((n, 2))
    for x in (np.full(n, value), np.full((n, 2), value)):
        for data in ((x, y), (y[:, 0], x), (x, x)):
            found = dhsic.hsic(*data, estimator=entry.estimator(), precision=precision, rng=0)
            assert abs(found.estimate) < 1e-12


RARE = {  # and how many columns the variable has
    "a flag": (lambda rng: np.ones(4), [1]),
    "amounts": (lambda rng: rng.lognormal(size=4), [2]),
    "a single one": (lambda rng: np.ones(1), [1, 2]),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", RARE)
@every_pair
def test_rare_variable__is_tested_where_no_row_of_the_sample_has_it(estimator, null, case):
    rng, n = np.random.default_rng(3), 1010
    y = rng.standard_normal(n)
    drawn = generator(4, "bandwidth", 0).choice(n, size=1000, replace=False)
    draw, widths = RARE[case]
    values = draw(rng)
    rows = np.setdiff1d(np.arange(n), drawn)[: len(values)]
    for d in widths:
        x = np.zeros((n, d))
        x[rows, 0] = values
        result = run([x, y], estimator, null)
        assert result.passes[0].name == "scan"
        assert np.isfinite([result.statistic, result.estimate]).all()
        assert 0.01 < result.pvalue <= 1.0


@pytest.mark.parametrize(
    ("estimator", "null"),
    [
        pytest.param(entry.estimator(), null, id=f"{entry.estimator.name}-{null.name}")
        for entry in TABLE
        for null in NULLS
        if type(null) not in entry.nulls
    ],
)
def test_unsupported_pair__names_those_that_are(estimator, null):
    with pytest.raises(DhsicError, match=r"is not available for .*; choose auto"):
        run(independent(50), estimator, null)


@every_estimator
def test_plan__fits_what_runs(entry):
    data = independent(200)
    for null in NULLS:
        if type(null) not in entry.nulls:
            continue
        estimator = entry.estimator()
        kernels = one_kernel(estimator)
        planned = dhsic.plan(*data, kernels=kernels, estimator=estimator, null=null)
        result = run(data, estimator, null)
        assert [done.name for done in result.passes] == [done.name for done in planned.passes]
