"""What must hold for every estimator with every null that stands with it: answers, level, power."""

from itertools import count, islice, product

import numpy as np
import pytest
from scipy.stats import binom

import dhsic
from dhsic.errors import DhsicError, InvalidArgumentError
from tests.estimators.levels import Check
from tests.estimators.orbit import bandwidth_rows

# Few rows, of which the guard of approximate nulls warns.
pytestmark = pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")

STANDS = {
    "nystrom-m": "shifts permutation chain gamma spectral",
    "nystrom-hsic": "shifts permutation chain gamma spectral martingale",
    "rff-hsic": "shifts permutation gamma spectral martingale",
    "nfsic": "shifts permutation chi-square",
    "block-hsic": "normal",
    "coco": "shifts permutation",
    "cka": "shifts permutation gamma spectral",
    "nocco": "shifts permutation gamma",
    "sub-corr": "shifts permutation gamma spectral",
    "v-hsic": "shifts permutation chain gamma spectral martingale",
    "u-hsic": "shifts permutation chain spectral",
    "u-cka": "shifts permutation spectral",
    "dcov": "shifts permutation gamma spectral",
    "dcor": "shifts permutation gamma spectral",
    "sub-hsic": "shifts permutation gamma spectral",
}
NULLS = {
    "shifts": dhsic.Shifts(19),
    "permutation": dhsic.Permutation(19),
    "chain": dhsic.Chain(19),
    "gamma": dhsic.Gamma(),
    "spectral": dhsic.Spectral(),
    "normal": dhsic.Normal(),
    "chi-square": dhsic.ChiSquare(),
    "martingale": dhsic.Martingale(),
}
OWN_KERNELS = ("sub-corr", "dcov", "dcor")
QUICK = {"nfsic": dhsic.NFSIC(placement="random"), "cka": dhsic.CKA()}
PAIRS = [(name, null) for name, nulls in STANDS.items() for null in nulls.split()]
EXACT = [pair for pair in PAIRS if pair[1] in ("shifts", "permutation", "chain")]
TWO = [pair for pair in PAIRS if pair[1] != "chain"]
every_estimator = pytest.mark.parametrize("name", STANDS)
every_pair = pytest.mark.parametrize(("name", "null"), TWO)


def run(data, name, null, **options):
    kernels = None if name in OWN_KERNELS else "gaussian"
    given = {"kernels": kernels, "rng": 4, "threads": 1, **options}
    estimator = QUICK.get(name, name)
    return dhsic.independence_test(*data, estimator=estimator, null=NULLS[null], **given)


@pytest.mark.parametrize("null", NULLS)
@every_estimator
def test_pair__finds_that_a_variable_is_itself_or_is_refused(name, null):
    x = np.random.default_rng(0).standard_normal((200, 2))
    data = [x, x, x] if null == "chain" else [x, x]
    if null in STANDS[name].split():
        found = run(data, name, null)
        assert (found.estimator, found.null) == (name, null)
        assert found.pvalue <= 0.05
        again = run(data, name, null, threads=3)
        assert (again.statistic, again.pvalue) == (found.statistic, found.pvalue)
        np.testing.assert_array_equal(again.null_distribution, found.null_distribution)
    else:
        with pytest.raises(InvalidArgumentError, match=r"is not available for .*; choose auto"):
            run(data, name, null)


@every_pair
def test_units__change_no_p_value(name, null):
    x, y = np.random.default_rng(0).standard_normal((2, 150, 2))
    y = y + x[:, :1]
    expected = run([x, y], name, null)
    changed = run([1e-3 * x + 7.0, 1e4 * y], name, null)
    assert changed.pvalue == pytest.approx(expected.pvalue, rel=1e-4)


NASTY = {
    "ties": lambda rng: [np.round(rng.standard_normal((90, 2))), rng.integers(0, 2, 90)],
    "a single one": lambda rng: [np.eye(1, 90, 5)[0], rng.standard_normal((90, 2))],
    "a single one and a column": lambda rng: [np.eye(1, 90, 5)[0], rng.standard_normal(90)],
    "an outlier, a constant column": lambda rng: [
        np.where(np.eye(1, 90, 5)[0] > 0, 1e3, rng.standard_normal(90)),
        np.column_stack([np.ones(90), rng.standard_normal(90)]),
    ],
    "equal rows": lambda rng: [
        np.repeat(rng.standard_normal((30, 3)), 3, axis=0),
        rng.standard_normal(90),
    ],
    "heavy tails": lambda rng: [rng.standard_cauchy(90), rng.standard_cauchy((90, 2))],
}


@pytest.mark.parametrize("case", NASTY)
@every_pair
def test_nasty_data__are_no_evidence(name, null, case):
    result = run(NASTY[case](np.random.default_rng(7)), name, null)
    assert np.isfinite([result.statistic, result.estimate]).all()
    assert 0.01 < result.pvalue <= 1.0


@pytest.mark.parametrize("case", ["ties", "a single one and a column", "heavy tails"])
@pytest.mark.parametrize("name", ["nystrom-m", "nystrom-hsic", "rff-hsic", "v-hsic", "u-hsic"])
def test_nasty_data__are_no_evidence_for_a_grid(name, case):
    data, pvalues = NASTY[case](np.random.default_rng(7)), []
    for seed in (4, 5, 6):  # given the one row that differs, some landmarks are evidence
        result = run(data, name, "permutation", kernels=dhsic.Grid(), rng=seed)
        assert all(np.isfinite(one.standardised) for one in result.grid.combinations)
        assert np.isfinite([result.statistic, *result.null_distribution]).all()
        pvalues.append(result.pvalue)
    assert 0.01 < np.median(pvalues) <= 1.0


@every_pair
def test_rounding__is_no_evidence(name, null):
    x, y = np.random.default_rng(0).standard_normal((2, 200))
    if name in OWN_KERNELS:
        assert run([x + 1e9, y + 1e9], name, null).pvalue > 0.01
    else:
        assert run([x, y], name, null, kernels="gaussian:1e-14").pvalue > 0.01


@every_estimator
def test_constant__is_refused_by_tests_and_has_estimate_0(name):
    null = STANDS[name].split()[0]
    with pytest.raises(DhsicError, match="'x1' is constant"):
        run([np.ones((50, 1)), np.arange(50.0)], name, null)
    y = np.random.default_rng(0).standard_normal((50, 2))
    for value, precision in ((0.0, "float64"), (3.7, "float32"), (-1e8, "float64")):
        for x in (np.full(50, value), np.full((50, 2), value)):
            for data in ((x, y), (y[:, 0], x), (x, x)):
                found = dhsic.hsic(*data, estimator=name, precision=precision, rng=0)
                assert abs(found.estimate) < 1e-12


FEWEST_ROWS = {"u-hsic": 4, "u-cka": 4, "block-hsic": 8, "nfsic": 3}  # of an estimate; else 2


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8])
@every_estimator
def test_estimate__needs_so_many_rows(name, n):
    data = np.random.default_rng(n).standard_normal((2, n))
    if n >= FEWEST_ROWS.get(name, 2):
        assert np.isfinite(dhsic.hsic(*data, estimator=name, rng=0).estimate)
    else:
        with pytest.raises(DhsicError, match=r"needs .*rows"):
            dhsic.hsic(*data, estimator=name, rng=0)


@pytest.mark.parametrize("values", [np.ones(4), np.array([2.0, 3.0]), np.ones(1)], ids=len)
@every_estimator
def test_rare_values__are_tested_where_no_row_of_the_sample_has_them(name, values):
    n, null = 1010, STANDS[name].split()[0]
    x, y = np.zeros(n), np.random.default_rng(3).standard_normal(n)
    x[np.setdiff1d(np.arange(n), bandwidth_rows(4, n))[: len(values)]] = values
    result = run([x, y], name, null)
    assert result.passes[0].name == "scan"
    assert np.isfinite([result.statistic, result.estimate]).all()
    assert 0.01 < result.pvalue <= 1.0


# Level and power. A level test fails by chance once in 2,000.


def ties(n, rng):
    """A binary variable with about 3 % ones, and counts that are mostly 0 and 1."""
    rare = (rng.random(n) < 0.03).astype(float)
    rare[rng.integers(n)] = 1.0
    return [rare, rng.poisson(0.5, n).astype(float)]


def rejections(draw, alpha, test):
    for seed in count():
        data = draw(np.random.default_rng([7, seed]))
        yield test(data, seed).pvalue <= alpha + 1e-9


def kept(check, draw, alpha, test):
    return check.passes(rejections(draw, alpha, test))


OF_PAIRS = Check.of(45, 0.1)


def test_levels_of_pairs__see_a_level_of_four_times_as_much():
    assert OF_PAIRS.failure(0.1)[1] < 0.001
    assert OF_PAIRS.failure(0.4)[1] > 0.75
    assert OF_PAIRS.failure(0.45)[1] > 0.95


@every_pair
def test_level__is_kept_by_every_pair(name, null):
    assert kept(
        OF_PAIRS,
        lambda rng: ties(60, rng),
        0.1,
        lambda data, seed: run(data, name, null, rng=seed),
    )


@every_pair
def test_power__is_there_in_every_pair(name, null):
    """More of 12 data sets are rejected than by chance in one of 10,000 tables."""

    def draw(rng):
        x, noise = rng.standard_normal((2, 200))
        return x, 0.6 * x + noise

    needed = int(binom.ppf(0.9999, 12, 0.05)) + 1
    runs = islice(rejections(draw, 0.05, lambda data, seed: run(data, name, null, rng=seed)), 12)
    assert sum(islice(filter(None, runs), needed)) == needed


# Data that approximate nulls reject in 45 to 67 % of cases.
ADVERSE = {
    "three of three columns": lambda r: [r.standard_normal((100, 3)) for _ in range(3)],
    "dummies": lambda r: [(r.random(400) < 0.03) * 1.0 for _ in range(2)],
    "Poisson": lambda r: [r.poisson(0.05, 300) for _ in range(2)],
    "zeros": lambda r: [np.where(r.random(300) < 0.95, 0, r.random(300)) for _ in range(2)],
    "few rows": lambda r: list(r.standard_normal((2, 12))),
    "many columns": lambda r: [r.standard_normal((60, 20)), r.standard_normal(60)],
}
DEFAULTS = {
    "auto": {},
    "nystrom-hsic of a grid": {
        "estimator": dhsic.NystromHSIC(40, n_features="auto"),
        "kernels": dhsic.Grid(),
        "n_resamples": 60,
    },
    "nystrom-m": {"estimator": "nystrom-m", "n_resamples": 99, "kernels": "gaussian"},
    "nfsic": {"estimator": dhsic.NFSIC(2, placement="random")},
}
LEVEL = Check.of(45, 0.05)
LONG_LEVEL = Check.of(300, 0.05, least=0.0)


def default(options):
    return lambda data, seed: dhsic.independence_test(*data, rng=seed, threads=1, **options)


def test_levels_of_defaults__see_those_of_approximations():
    assert LEVEL.failure(0.05)[1] < 0.001
    assert LEVEL.failure(0.45)[1] > 0.98
    assert LONG_LEVEL.failure(0.15)[1] > 0.95


@pytest.mark.parametrize(
    ("options", "case"),
    [
        *(("auto", case) for case in ADVERSE),
        ("nystrom-hsic of a grid", "dummies"),
        ("nystrom-hsic of a grid", "many columns"),
        ("nystrom-m", "Poisson"),
        ("nfsic", "zeros"),
    ],
)
def test_level__is_kept_by_defaults_on_adverse_data(options, case):
    assert kept(LEVEL, ADVERSE[case], 0.05, default(DEFAULTS[options]))


@pytest.mark.nightly
@pytest.mark.parametrize("case", ADVERSE)
@pytest.mark.parametrize("options", DEFAULTS)
def test_level__is_kept_over_300_data_sets(options, case):
    if options == "nystrom-hsic of a grid" and case.startswith(("three", "few rows")):
        pytest.skip("takes two variables, and no fewer rows than landmarks")
    assert kept(LONG_LEVEL, ADVERSE[case], 0.05, default(DEFAULTS[options]))


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "null"), EXACT)
def test_level__of_exact_nulls_is_attained_over_250_data_sets(name, null):
    """Neither more nor less than the level, on continuous data."""
    variables = 3 if null == "chain" else 2
    check = Check.of(250, 0.1, least=0.09 if null == "chain" else 0.1)
    assert kept(
        check,
        lambda rng: rng.standard_normal((variables, 60)),
        0.1,
        lambda data, seed: run(data, name, null, rng=seed),
    )


ALTERNATIVES = {
    "linear": lambda r: linear(r, 0.2),
    "square": lambda r: squared(r),
    "joint triple": lambda r: triple(r),
}


def linear(rng, strength):
    x, noise = rng.standard_normal((2, 300))
    return x, strength * x + noise


def squared(rng):
    x, noise = rng.standard_normal((2, 300))
    return x, x**2 + noise


def triple(rng, n=300):
    """Independent in pairs; the sign of the third follows the other two's."""
    x, y, z = rng.standard_normal((3, n))
    return x, y, np.sign(x * y) * np.abs(z)


@pytest.mark.parametrize(
    ("estimator", "case"),
    [
        *product(["auto", "nystrom-m", "v-hsic"], ALTERNATIVES),
        *(("rff-hsic", case) for case in ("linear", "square")),
    ],
)
def test_power__is_far_above_the_level(estimator, case):
    test = default({"estimator": estimator, "n_resamples": 99})
    needed = int(binom.ppf(0.9999, 20, 0.05)) + 1
    runs = islice(rejections(ALTERNATIVES[case], 0.05, test), 20)
    assert sum(islice(filter(None, runs), needed)) == needed


STORED = {"as drawn": slice(None), "sorted by x": 0, "sorted by y": 1}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize(
    "options",
    [
        {"estimator": "v-hsic", "null": dhsic.Shifts(200)},
        {"estimator": "dcov", "null": dhsic.Shifts(200)},
        {"estimator": "nystrom-hsic", "null": dhsic.Shifts(200)},
        {"estimator": "nystrom-m", "null": dhsic.Shifts(200)},
        {
            "estimator": dhsic.NFSIC(n_locations=3, training_rows=400),
            "null": dhsic.Permutation(199, "groups", 200),
        },
        {
            "estimator": "nystrom-m",
            "kernels": "gaussian",
            "null": dhsic.Permutation(199, "groups", 200),
        },
    ],
    ids=lambda options: str(options["estimator"]),
)
def test_power__does_not_depend_on_the_order_of_storage(options, stored):
    """Groups of consecutive rows would hide what sorted rows differ in."""
    x, noise = np.random.default_rng(0).standard_normal((2, 1600))
    data = [x, 0.4 * x + noise]
    rows = np.argsort(data[STORED[stored]]) if stored != "as drawn" else STORED[stored]
    found = dhsic.independence_test(*(v[rows] for v in data), rng=0, **options)
    assert found.pvalue <= 0.01


@pytest.mark.parametrize("estimator", ["auto", "nystrom-m", "nystrom-hsic", "u-hsic"])
def test_chain__finds_where_dependence_enters(estimator):
    options = {"estimator": estimator, "null": "chain", "rng": 0}
    x, y, z = np.random.default_rng(0).standard_normal((3, 300))
    late = dhsic.independence_test(x, y, y + z, **options)
    assert late.null == "chain"
    assert late.pvalue <= 0.01
    assert (late.stages[0].variable, late.stages[1].variable) == ("x2", "x3")
    assert late.stages[0].pvalue > 0.05 > late.stages[1].pvalue
    joint = dhsic.independence_test(*triple(np.random.default_rng(2), 1000), **options)
    assert joint.pvalue <= 0.01
    assert joint.stages[1].others == ("x1", "x2")


def test_chain__of_streamed_rows_tests_its_first_pair_as_a_test_of_two():
    # The second variable is on the right of the first stage, and on the left of the second.
    x, y, z = np.random.default_rng(0).standard_normal((3, 430))
    options = {"kernels": "gaussian", "estimator": "v-hsic", "rng": 0}
    chain = dhsic.independence_test(x, y, z, null="chain", **options)
    alone = dhsic.independence_test(x, y, **options)
    np.testing.assert_allclose(chain.stages[0].statistic, alone.statistic, rtol=1e-12)
    assert dhsic.independence_test(x, y, z, **options).pvalue > 0.05


def test_chain__takes_its_options():
    data = np.random.default_rng(0).standard_normal((3, 100))
    few, fisher = (
        dhsic.independence_test(*data, kernels="gaussian", null=null, rng=0)
        for null in (dhsic.Chain(100), dhsic.Chain(100, combined_by="fisher"))
    )
    stages = [stage.pvalue for stage in few.stages]
    assert few.pvalue == pytest.approx(1 - (1 - min(stages)) ** 2)
    assert fisher.score == pytest.approx(-2 * np.log(stages).sum())
    assert fisher.pvalue != few.pvalue
