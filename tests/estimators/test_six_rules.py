"""The six rules of exact nulls, each of which a simpler null broke: the adversaries' data.

Ties are counted whatever rounding does; grids drop kernels that say nothing; rows that stay are
drawn at random; every purpose and variable has draws of its own; there are a thousand replicates at
every n; and what has to be exchangeable is warned of.
"""

import math

import numpy as np
import pytest

import dhsic
from dhsic import Permutation, Shifts
from dhsic.errors import DataError, DependentRowsWarning
from dhsic.statistics.orbit import tie_tolerance
from tests.estimators.cases import gaussian
from tests.estimators.orbit import FEWEST, Moves, landmark_rows, left_over

PRECISIONS = pytest.mark.parametrize("precision", ["float64", "float32"])
NULLS = {
    "shifts": lambda n: Shifts(2 * n),
    "shifts in groups": lambda n: Shifts(n // 3),
    "permutations": lambda n: Permutation(99, within="all"),
    "permutations in groups": lambda n: Permutation(99, "groups", n // 4),
}
OF_MANY_ROWS = {
    "shifts": Shifts(1000),
    "shifts in groups": Shifts(300),
    "permutations": Permutation(49, within="all"),
    "permutations in groups": Permutation(49, "groups", 250),
}
EVERY_NULL = pytest.mark.parametrize("null", NULLS)


# Ties.


@PRECISIONS
@EVERY_NULL
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("n", [12, 45])
def test_ties__of_distances_are_those_of_whole_numbers(n, unbiased, null, precision):
    """Distances of integers have integer sums, which Python compares exactly."""
    chosen, estimator = NULLS[null](n), dhsic.DCov(unbiased=unbiased)
    for seed in range(3):
        x, y = np.random.default_rng([n, seed]).integers(0, 3, (2, n))
        x[:2] = y[:2] = 0, 1
        # Of two columns, since single ones are sorted.
        wide = np.column_stack([x, np.zeros(n)])
        a, b = (np.abs(z[:, None] - z) for z in (x, y))
        for data, least in (((wide, y), FEWEST), ((x, y), FEWEST)):
            found = dhsic.independence_test(
                *data, estimator=estimator, null=chosen, rng=3, precision=precision
            )
            values = []
            for order in (rows[1] for rows in Moves(n, chosen, 3, least=least)):
                moved = b[np.ix_(order, order)]
                joint, mixed = int((a * moved).sum()), int(a.sum(axis=1) @ moved.sum(axis=1))
                values.append((n - 2 if unbiased else n) * joint - 2 * mixed)
            assert found.pvalue == pytest.approx(np.mean(np.array(values) >= values[0]))


DUMMIES = {
    "nystrom-hsic": (dhsic.NystromHSIC(12), "gaussian:1"),
    "nystrom-hsic, principal": (dhsic.NystromHSIC(12, n_features="auto"), "gaussian:1"),
    "cka": (dhsic.CKA(12), "gaussian:1"),
    "nocco": (dhsic.NOCCO(12), "gaussian:1"),
    "coco": (dhsic.COCO(12), "gaussian:1"),
    "rff-hsic": (dhsic.RFFHSIC(8), "gaussian:1"),
    "rff-hsic, complex": (dhsic.RFFHSIC(8, form="complex"), "gaussian:1"),
    "sub-corr": (dhsic.SubCorr(), None),
    "nystrom-m": (dhsic.NystromMHSIC(12), "gaussian:1"),
    "nfsic": (dhsic.NFSIC(1, placement="random"), "delta"),
    "v-hsic": (dhsic.VHSIC(), "gaussian:1"),
    "sub-hsic": (dhsic.SubHSIC(), "delta"),
}


@PRECISIONS
@EVERY_NULL
@pytest.mark.parametrize(("n", "share"), [(60, 0.15), (300, 0.02), (1000, 0.3)])
@pytest.mark.parametrize("case", DUMMIES)
def test_ties__of_two_dummies_are_those_of_whole_numbers(case, n, share, null, precision):
    """All statistics grow with |n #(both are 1) - #(x is 1) #(y is 1)|."""
    estimator, kernels = DUMMIES[case]
    chosen = NULLS[null](n) if n < 1000 else OF_MANY_ROWS[null]
    x, y = (np.random.default_rng([1, n]).random((2, n)) < share) * 1
    found = dhsic.independence_test(
        x, y, kernels=kernels, estimator=estimator, null=chosen, rng=5, precision=precision
    )
    least = FEWEST if case in ("v-hsic", "sub-hsic") else 1
    both = np.array([x @ y[rows[1]] for rows in Moves(n, chosen, 5, least=least)])
    sizes = np.abs(n * both - x.sum() * y.sum())
    assert found.pvalue == pytest.approx(np.mean(sizes >= sizes[0]), rel=1e-12)


@PRECISIONS
@pytest.mark.parametrize("estimator", [dhsic.VHSIC(), dhsic.NystromMHSIC(200)], ids=str)
def test_ties__of_three_dummies_are_those_of_whole_numbers(estimator, precision):
    """With delta kernels T is a sum of squares over the eight cells, all of them landmarks."""
    n, null = 40, Shifts(80)
    least = FEWEST if isinstance(estimator, dhsic.VHSIC) else 1
    for seed in range(3):
        data = (np.random.default_rng(seed).random((3, n)) < 0.4) * 1
        given = {"kernels": "delta", "estimator": estimator, "null": null, "rng": seed}
        if isinstance(estimator, dhsic.NystromMHSIC):
            given["estimator"] = dhsic.NystromMHSIC(n)
        found = dhsic.independence_test(*data, precision=precision, **given)
        counts = [[int(n - x.sum()), int(x.sum())] for x in data]
        values = []
        for rows in Moves(n, null, seed, 3, least):
            a, b, c = (x[r] for x, r in zip(data, rows, strict=True))
            cells = np.bincount(4 * a + 2 * b + c, minlength=8).tolist()
            apart = [counts[0][k // 4] * counts[1][k // 2 % 2] * counts[2][k % 2] for k in range(8)]
            values.append(sum((n**2 * j - p) ** 2 for j, p in zip(cells, apart, strict=True)))
        assert found.pvalue == pytest.approx(np.mean([value >= values[0] for value in values]))


MANY_COLUMNS = {
    "v-hsic": dhsic.VHSIC(),
    "nystrom-hsic": dhsic.NystromHSIC(20),
    "nocco": dhsic.NOCCO(20),
    "coco": dhsic.COCO(20),
    "nystrom-m": dhsic.NystromMHSIC(20),
    "nfsic": dhsic.NFSIC(3, placement="random"),
}


@PRECISIONS
@pytest.mark.parametrize("factor", [0.25, 1.0, 8.0])
@pytest.mark.parametrize("case", MANY_COLUMNS)
def test_ties__of_equal_rows_of_many_columns_are_counted(case, factor, precision):
    """Tiles may give equal rows unequal kernels."""
    null = Shifts(120)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        kinds = rng.standard_normal((3, 90)) + 3.0
        x, y = rng.integers(0, 3, 60), rng.integers(0, 2, 60)
        kernels = [f"gaussian:{1 / 180 / factor**2}", "delta"]
        found, exact = (
            dhsic.independence_test(
                kinds[x], y, kernels=kernels, estimator=MANY_COLUMNS[case], null=null, rng=3,
                precision=tiles,
            )
            for tiles in (precision, "float64")
        )  # fmt: skip
        moves = Moves(60, null, 3, least=FEWEST if case == "v-hsic" else 1)
        tables = [np.bincount(3 * y[rows[1]] + x, minlength=6) for rows in moves]
        same = np.array([np.array_equal(table, tables[0]) for table in tables])
        values = np.append(exact.statistic, exact.null_distribution)
        larger = values > values[0] * (1 + 1e-6)
        assert np.mean(same | larger) <= found.pvalue <= np.mean(values >= 0.99 * values[0])


@PRECISIONS
@EVERY_NULL
@pytest.mark.parametrize("case", [*MANY_COLUMNS, "u-hsic", "dcov"])
def test_ties__are_all_where_every_cell_has_its_share(case, null, precision):
    """Nothing is smaller than a statistic of 0, of which rounding alone is left."""
    estimator = MANY_COLUMNS.get(case, case)
    rng = np.random.default_rng(0)
    order, kinds = rng.permutation(64), rng.standard_normal((4, 90)) + 3.0
    x, y = np.repeat(np.arange(4), 16)[order], np.tile([0.0, 1.0], 32)[order]
    kernels = None if case == "dcov" else ["gaussian:0.005", "gaussian:0.5"]
    found = dhsic.independence_test(
        kinds[x], y, kernels=kernels, estimator=estimator, null=NULLS[null](64), rng=3,
        precision=precision,
    )  # fmt: skip
    assert found.pvalue == 1.0


def test_ties__of_a_statistic_that_is_rounding_reach_down_to_0():
    """The square of a root may be less than the number, and a replicate may be 0."""
    statistics = 1e-14 * np.random.default_rng(0).random(100)
    assert (statistics - tie_tolerance(statistics, 1.0) == 0.0).all()
    assert (tie_tolerance(statistics, 0.0) <= 1e-15 * statistics).all()


def test_ties__are_all_where_nothing_varies():
    x, y = np.tile([1.0, -1.0], 50), np.repeat([1.0, -1.0], 50)
    options = {"kernels": "polynomial:2:0:1", "estimator": "v-hsic", "rng": 0}
    assert dhsic.independence_test(x, y, **options).pvalue == 1.0
    x, y = np.random.default_rng(0).standard_normal((2, 60))
    for estimator in ("v-hsic", "nystrom-hsic", "nystrom-m", "nfsic"):
        options = {"kernels": "gaussian:1e-40", "estimator": estimator, "null": Shifts(60)}
        assert dhsic.independence_test(x, y, rng=0, **options).pvalue == 1.0


def sums_of_norms(data, z):
    """|f| |h| of values at a landmark, or of matrices, about their means."""
    f, h = (gaussian(x, p, 0.5) for x, p in zip(data, z, strict=True))
    return np.linalg.norm(f - f.mean()) * np.linalg.norm(h - h.mean())


REACH = {
    "pointwise": (dhsic.NystromMHSIC(1), 2000, 1, 1),
    "pointwise, in strata": (dhsic.NystromMHSIC(1), 36_000, 1, 9),
    "outer": (dhsic.NystromHSIC(1), 2000, 1, 1),
    "outer, in strata": (dhsic.NystromHSIC(1), 36_000, 1, 9),
    "gram": (dhsic.VHSIC(), 500, FEWEST, 1),
}


@pytest.mark.parametrize("contraction", REACH)
def test_ties__reach_as_far_as_rounding_may_and_no_farther(contraction):
    """With S the root of T, those of S_k >= S_0 - 2 d count, and |dT| <= d of Gram matrices.

    d is 4 (eps log2 b + 3e-7) times the norms of what is transformed, of float32 and one landmark.
    Errors of groups are independent: |d| is the norm of those of each. So many replicates lie so
    near to the statistic that their number tells how far ties reach.
    """
    estimator, n, least, count_of_groups = REACH[contraction]
    rng = np.random.default_rng(0)
    data, null = rng.standard_normal((2, n, 1)), Shifts(100_000)
    options = {"kernels": "gaussian:0.5", "null": null, "rng": 5, "precision": "float32"}
    rows = {} if count_of_groups == 1 else {"strata": np.arange(n) % count_of_groups}
    found = dhsic.independence_test(*data, estimator=estimator, **options, **rows)
    size, groups, _, _ = Moves(n, null, 5, 2, least, data, **rows).shape
    assert (size, groups) == (n // count_of_groups, count_of_groups)
    unit = np.finfo(np.float32).eps * math.log2(size + 1) + 3e-7
    values = np.append(found.statistic, found.null_distribution)
    if isinstance(estimator, dhsic.VHSIC):
        error = 4 * unit * sums_of_norms(data, data) / n
        gaps = values[0] - values
    else:
        drawn = landmark_rows(5, n, 1, 2)
        z = [x[r] for x, r in zip(data, drawn, strict=True)]
        norms = sums_of_norms(data, z)
        if isinstance(estimator, dhsic.NystromHSIC):
            unit += 3e-7 * extra_of_raw(data, z)
        # Each stratum has about the same share of the squares.
        error = 2 * 4 * unit * norms / np.sqrt(n * groups)
        gaps = np.sqrt(values[0]) - np.sqrt(values)
    count = found.pvalue * len(values)
    assert np.sum(gaps <= 0.8 * error) <= count <= np.sum(gaps <= 1.25 * error)
    assert np.sum(gaps <= 0.5 * error) + 10 < count < np.sum(gaps <= 2.0 * error) - 10


def extra_of_raw(data, z):
    """Values of features as they are, beside those about their means."""
    f, h = (gaussian(x, p, 0.5) for x, p in zip(data, z, strict=True))
    raw = [np.linalg.norm(v) / np.linalg.norm(v - v.mean()) for v in (f, h)]
    return sum(raw) - 1.0


# A grid.


@pytest.mark.parametrize("estimator", ["v-hsic", "u-hsic", "nystrom-hsic", "nystrom-m"])
def test_grid__of_kernels_that_say_nothing_has_p_1(estimator):
    x, y = np.random.default_rng(0).standard_normal((2, 40))
    wide = dhsic.Candidates(("gaussian:1e-18", "gaussian:1e-20"), factors=(1.0,))
    options = {"kernels": dhsic.Grid(wide, combine="all"), "estimator": estimator}
    assert dhsic.independence_test(x, y, rng=0, **options).pvalue == 1.0


@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-hsic"])
def test_grid__of_some_that_say_nothing_has_the_p_value_of_the_others(estimator):
    x, y = np.random.default_rng(1).standard_normal((2, 60))
    one = dhsic.Candidates("gaussian:0.5", (1.0,))
    more = dhsic.Candidates(("gaussian:0.5", "gaussian:1e-30"), (1.0,))
    grids = [dhsic.Grid(some, combine="matched", aggregate="max") for some in (one, more)]
    alone, both = (
        dhsic.independence_test(x, y, kernels=grid, estimator=estimator, rng=0) for grid in grids
    )
    assert both.pvalue == pytest.approx(alone.pvalue)


def test_grid__whose_products_overflow_is_refused():
    huge = np.exp(20 * np.random.default_rng(5).standard_normal((2, 60)))
    kernels = dhsic.Candidates(("polynomial:3", "polynomial:9"), (1.0,))
    with pytest.raises(DataError):
        dhsic.independence_test(*huge, kernels=dhsic.Grid(kernels), estimator="v-hsic", rng=1)


# Groups.


def test_groups__that_remain_are_not_the_tail():
    """Rows that are left over never move: at the end of a sample they would hide what differs."""
    left = np.array([left_over(1_019, 110, seed) for seed in range(200)])
    assert left.shape == (200, 29)
    assert np.mean((left >= 990).sum(axis=1)) < 3.0
    counts = np.histogram(left, bins=10, range=(0, 1019))[0]
    assert counts.min() > 0.75 * counts.mean()


@pytest.mark.parametrize(
    ("n", "asked", "shape"),
    [
        (10, 1_000, (10, 1, 0, 100)),
        (999, 1_000, (999, 1, 0, 2)),
        (2_500, 1_000, (1_250, 2, 0, 1)),
        (50, 20, (25, 2, 0, 1)),
        (100_000, 9_000, (4_116, 24, 1_216, 3)),
    ],
)
def test_groups__are_as_many_rows_as_shifts_that_are_asked_for_or_a_few_more(n, asked, shape):
    found = Moves(n, Shifts(asked), 0)
    size, groups, left, cosets = found.shape
    assert size * groups + left == n
    assert asked <= len(found) == size * cosets <= 1.5 * asked + size
    assert size <= 1.5 * 4096
    assert left <= max(n / 200, 12)
    if n < 100_000:
        assert found.shape == shape


# Draws.


def test_draws__are_of_a_variable_and_of_a_purpose():
    moves = Moves(200, Shifts(600), 0, 3)
    one, two = (moves.order(250, variable) for variable in (1, 2))
    assert not np.array_equal(one, two)
    assert not np.array_equal(one, moves.order(450, 1))
    for order in (one, two):
        np.testing.assert_array_equal(np.sort(order), np.arange(200))
    np.testing.assert_array_equal(moves.order(0, 1), np.arange(200))
    first, second = landmark_rows(0, 300, 20, 2)
    assert set(first.tolist()) != set(second.tolist())


SETS = {
    "all rows": (50, Shifts(200), {}),
    "groups": (47, Shifts(10), {}),
    "strata": (48, Shifts(60), {"strata": np.arange(48) % 3}),
    "a series": (48, Shifts(60), {"order": dhsic.TimeOrder(lag=2)}),
    "units": (48, Shifts(60), {"groups": np.arange(48) // 2}),
}


@pytest.mark.parametrize("null", [Shifts(180), Permutation(9), Permutation(9, "groups", 20)])
def test_draws__are_others_with_another_seed(null):
    data = np.random.default_rng(0).standard_normal((2, 60, 1))
    asked = {"estimator": "v-hsic", "kernels": "gaussian:0.5", "null": null}
    drawn = [dhsic.independence_test(*data, rng=seed, **asked) for seed in (0, 1)]
    assert drawn[0].statistic == pytest.approx(drawn[1].statistic)
    first, second = (one.null_distribution[-9:] for one in drawn)
    assert not np.isclose(first, second).any()


MANY = {"groups": np.repeat(np.arange(20), 10), "strata": np.arange(200) % 3}
DRAWN = [
    (Shifts(50), None, "all 50 shifts within 4 groups of rows"),
    (Permutation(9, group_rows=50), None, "all rows shuffled"),
    (Permutation(9, "groups", 50), None, "shuffled in groups of 50 rows"),
    (Shifts(50), "groups", "all 20 shifts of 3 orders of whole groups of equally many rows"),
    (Permutation(9), "groups", "whole groups of equally many rows shuffled"),
    (Shifts(33), "strata", "all 33 shifts of rows within strata; 2 of 200 rows stay"),
]


@pytest.mark.parametrize("estimator", ["nystrom-m", "nystrom-hsic"])
@pytest.mark.parametrize(("null", "rows", "told"), DRAWN)
def test_draws__are_told_by_their_numbers(estimator, null, rows, told):
    data = np.random.default_rng(0).standard_normal((2, 200, 1))
    asked = {} if rows is None else {rows: MANY[rows]}
    found = dhsic.independence_test(*data, estimator=estimator, null=null, rng=0, **asked)
    assert found.null_reason.endswith(f"; {told}")


@pytest.mark.parametrize("variable", [1, 2])
@pytest.mark.parametrize("case", SETS)
def test_draws__begin_with_the_data_and_let_every_row_meet_every_row_of_its_group(case, variable):
    """Under all shifts of an order, that of the data or a random one of its own, once each."""
    n, null, rows = SETS[case]
    data = np.random.default_rng(0).standard_normal((2, n))
    moves = Moves(n, null, 0, 3, data=data, **rows)
    size, _, left, cosets = moves.shape
    orders = np.array([moves.order(number, variable) for number in range(len(moves))])
    assert orders.shape == (size * cosets, n)
    assert (cosets > 1) is (case in ("all rows", "strata", "units"))
    np.testing.assert_array_equal(orders[0], np.arange(n))
    own = [set(column) for column in orders[:size].T]
    assert sorted(map(len, own)) == [1] * left + [size] * (n - left)
    for coset in range(cosets):
        some = orders[coset * size : (coset + 1) * size]
        assert [set(column) for column in some.T] == own
        assert (some[0] == np.arange(n)).all() == (coset == 0)
    assert len({order.tobytes() for order in orders[::size]}) == cosets


@pytest.mark.parametrize("null", [Permutation(40, "all"), Permutation(40, "groups", 10)], ids=str)
def test_draws__of_permutations_begin_with_the_data_and_are_all_others(null):
    moves = Moves(60, null, 0, 3)
    for variable in (1, 2):
        orders = {moves.order(number, variable).tobytes() for number in range(len(moves))}
        assert len(orders) == len(moves) == 41
        np.testing.assert_array_equal(moves.order(0, variable), np.arange(60))
    assert not np.array_equal(moves.order(1, 1), moves.order(1, 2))


def test_draws__of_bandwidths_are_of_every_variable_by_itself():
    """One draw for both would let the kernels know which rows meet."""
    x = np.random.default_rng(0).lognormal(size=4000)
    found = dhsic.hsic(x, x, kernels="gaussian", estimator="nystrom-hsic", rng=0)
    first, second = (variable.kernel for variable in found.variables)
    assert first != second


def test_draws__of_rare_values_are_of_every_variable_by_itself():
    """Of 40 rows that differ both samples have none, and 16 of them complete either one."""
    x, rng = np.zeros(60_000), np.random.default_rng(3)
    x[rng.choice(60_000, 40, replace=False)] = rng.lognormal(size=40)
    found = dhsic.hsic(x, x, kernels="gaussian", estimator=dhsic.NystromHSIC(8), rng=0)
    assert found.passes[0].name == "scan"
    first, second = (variable.kernel for variable in found.variables)
    assert first != second


@pytest.mark.parametrize("null", [Shifts(300), Permutation(20)])
def test_draws__of_few_are_the_first_of_many(null):
    """So that whoever asks for more has what a shorter run has."""
    x, y = np.random.default_rng(0).standard_normal((2, 100))
    more = type(null)(3 * null.n_resamples)
    few, many = (
        dhsic.independence_test(x, y, kernels="gaussian", estimator="nystrom-hsic", null=n, rng=0)
        for n in (null, more)
    )
    count = len(few.null_distribution)
    np.testing.assert_allclose(few.null_distribution, many.null_distribution[:count], rtol=1e-9)


# Resolution.


@pytest.mark.parametrize("n", [4, 10, 300, 999, 1_000, 1_500, 2_000, 20_000])
def test_resolution__is_a_thousandth_at_every_n(n):
    for estimator in ("auto", "nystrom-hsic"):
        x = np.arange(float(n))
        found = dhsic.independence_test(x, x, rng=0, kernels="gaussian", estimator=estimator)
        assert 1_000 <= len(found.null_distribution) + 1 <= 2_100
        assert found.pvalue <= (0.5 if n == 4 else 0.002)


@pytest.mark.parametrize("variables", [3, 4])
def test_resolution__of_a_chain_is_that_of_every_stage(variables):
    """As many more replicates as there are stages, whose p-values are combined."""
    data = np.random.default_rng(0).standard_normal((variables, 60))
    found = dhsic.independence_test(*data, null=dhsic.Chain(100), kernels="gaussian", rng=0)
    assert len(found.null_distribution) + 1 >= 100 * (variables - 1)


# Scope.


def walk(seed):
    return np.cumsum(np.random.default_rng(seed).standard_normal(400))


def test_scope__is_warned_of_where_neither_variable_is_exchangeable():
    with pytest.warns(DependentRowsWarning):
        dhsic.independence_test(walk(0), walk(1), rng=0, kernels="gaussian")
    noise = np.random.default_rng(2).standard_normal(400)
    for data in ((walk(0), noise), (noise, walk(0))):
        dhsic.independence_test(*data, rng=0, kernels="gaussian")  # warnings are errors
