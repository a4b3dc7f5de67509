"""Statistics, replicates, p-values and estimates against their definitions, row by row.

Every replicate of an exact null is the statistic of the data with rows that are permuted in plain
sight, whatever the engine made of it: transforms, tiles, groups, random orders or sorted columns.
"""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import dhsic
from dhsic import Chain, Permutation, Shifts
from tests import oracles
from tests.dependent_rows import within
from tests.estimators.cases import (
    CASES,
    FEW,
    SEED,
    WAVES,
    Case,
    all_pairs,
    draw,
    features,
    gaussian,
    landmarks_of,
    permuted,
    tuples,
    u_hsic,
)
from tests.estimators.orbit import FEWEST, Moves

# Rows and a null, with the rows of a group, the groups, the rows that stay and the random orders.
# Tests of all pairs of rows take as many shifts as there are rows.
NULLS = {
    "shifts of all rows": (48, Shifts(40), (48, 1, 0, 1), None),
    "shifts of random orders of a prime number of rows": (61, Shifts(130), (61, 1, 0, 3), None),
    "shifts in groups": (47, Shifts(10), (15, 3, 2, 1), (47, 1, 0, 1)),
    "permutations of all rows": (47, Permutation(5, within="all"), (47, 1, 0, 6), None),
    "permutations in groups": (47, Permutation(5, "groups", 10), (9, 5, 2, 6), None),
}


def whole(result):
    return np.append(result.statistic, result.null_distribution)


def counted(values):
    """The share of values that are no smaller than the first, but for rounding."""
    return np.mean(values >= values[0] - 1e-9 * np.abs(values).max())


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize("case", CASES)
def test_replicates__are_the_statistics_of_permuted_rows(case, null, precision):
    asked, (n, chosen, shape, of_pairs) = CASES[case], NULLS[null]
    data = draw(n, asked.variables)
    found = asked.test(data, chosen, precision=precision)
    moves = Moves(n, chosen, SEED, asked.variables, asked.least)
    assert moves.shape == (of_pairs if of_pairs and asked.least > 1 else shape)
    values = np.array(list(map(asked.statistic(data), moves)))
    exact = precision == "float64"
    rtol = 1e-8 if exact else asked.single
    np.testing.assert_allclose(whole(found), values, rtol=rtol, atol=rtol * np.abs(values).max())
    assert found.statistic == pytest.approx(values[0], rel=rtol)
    if exact:
        assert found.pvalue == pytest.approx(counted(values))
    estimate = values[0] / n if asked.estimate is None else asked.estimate(data)
    assert found.estimate == pytest.approx(estimate, rel=10 * rtol)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_estimate__without_a_test_is_the_same(case, precision):
    """But that principal features are for tests: estimates take all of them."""
    asked = CASES[case.removesuffix(", principal")]
    data = draw(80, asked.variables)
    options = {"kernels": asked.kernels, "rng": SEED, "precision": precision}
    found = dhsic.hsic(*data, estimator=asked.estimator, **options)
    if asked.estimate is None:
        expected = asked.statistic(data)([np.arange(80)] * asked.variables) / 80
    else:
        expected = asked.estimate(data)
    assert found.estimate == pytest.approx(
        expected, rel=1e-8 if precision == "float64" else 10 * asked.single
    )


# Many rows, in several tiles, blocks and bands, with groups that leave rows over: some replicates.


def large_pairs(unbiased, data):
    """By centred matrices, which are quicker than the definition."""
    centre = oracles.u_centred if unbiased else oracles.centred_gram
    a, b = (centre(gaussian(x, x, 0.5)) for x in data)
    n = len(a)
    return lambda rows: np.vdot(a, permuted(b, rows[1])) / (n - 3 if unbiased else n)


LARGE = {
    "v-hsic": (1063, Shifts(512), Case(dhsic.VHSIC(), lambda d: large_pairs(False, d))),
    "u-hsic": (1501, Shifts(600), Case(dhsic.UHSIC(), lambda d: large_pairs(True, d))),
    "v-hsic, permutations": (
        1203,
        Permutation(9, "groups", 300),
        Case(dhsic.VHSIC(), lambda d: large_pairs(False, d)),
    ),
    "v-hsic, permutations of all": (
        603,
        Permutation(70, "all"),
        Case(dhsic.VHSIC(), lambda d: large_pairs(False, d)),
    ),
    "nystrom-hsic": (60_007, Shifts(200), CASES["nystrom-hsic"]),
    "nystrom-hsic, random orders": (5_003, Shifts(9_000), CASES["nystrom-hsic"]),
    "rff-hsic": (20_003, Permutation(9, "groups", 700), CASES["rff-hsic"]),
    "nystrom-m": (30_007, Shifts(200), CASES["nystrom-m"]),
    "nystrom-m of 3": (9_001, Shifts(300), CASES["nystrom-m of 3"]),
    "nystrom-m, random orders": (5_003, Shifts(9_000), CASES["nystrom-m"]),
    "nfsic": (9_001, Permutation(9, "groups", 700), CASES["nfsic"]),
}


@pytest.mark.parametrize("name", LARGE)
def test_replicates__of_many_rows_are_those_of_permuted_rows(name):
    n, null, case = LARGE[name]
    data = draw(n, case.variables)
    if isinstance(case.estimator, dhsic.VHSIC | dhsic.UHSIC):
        case = case._replace(kernels="gaussian:0.5")
    found, moves = case.test(data, null, threads=1), Moves(n, null, SEED, case.variables)
    assert len(found.null_distribution) + 1 == len(moves)
    size, _, _, cosets = moves.shape
    numbers = sorted({0, 1, size // 2, size - 1, len(moves) // 3, len(moves) - 1} | {cosets - 1})
    numbers = [number for number in numbers if number < len(moves)]
    statistic, values = case.statistic(data), whole(found)
    expected = [statistic(moves.rows(number)) for number in numbers]
    np.testing.assert_allclose(values[numbers], expected, rtol=1e-7, atol=1e-9 * max(values))
    estimate = expected[0] / n if case.estimate is None else case.estimate(data)
    assert found.estimate == pytest.approx(estimate, rel=1e-6)


@pytest.mark.parametrize("null", [Permutation(9, "all"), Permutation(9, "groups", 1500)])
def test_replicates__of_long_groups_in_single_precision_are_those_in_double(null):
    """Sums of products are cut, so that short sums keep their digits."""
    data, case = draw(3_001, 2), CASES["nystrom-m"]
    single, double = (case.test(data, null, precision=p) for p in ("float32", "float64"))
    np.testing.assert_allclose(whole(single), whole(double), rtol=case.single)


# Rows that keep to strata, groups or the order of a series.

N = 96
STRATA = np.random.default_rng(0).integers(4, size=N)
GROUPS = np.random.default_rng(1).permutation(np.repeat(np.arange(24), 4))
WAYS = {
    "strata": {"strata": STRATA},
    "groups": {"groups": GROUPS},
    "unequal groups": {"groups": np.repeat(np.arange(32), [1, 2, 4, 5] * 8)},
    "groups in strata": {"groups": GROUPS, "strata": GROUPS % 3},
    "time": {"order": dhsic.TimeOrder(lag=4)},
    "panel": {"order": dhsic.TimeOrder(lag=1), "groups": np.arange(N) % 2},
}
PERMUTED = [way for way, asked in WAYS.items() if "order" not in asked]


def laplacian(x, z):
    return np.exp(-0.7 * np.abs(x[:, None, 0] - z[:, 0]))


def held_features(data):
    """At landmarks, with a kernel whose Gram matrices are well conditioned on one column."""
    held = []
    for x, z in zip(data, landmarks_of(data), strict=True):
        held.append(np.linalg.solve(np.linalg.cholesky(laplacian(z, z)), laplacian(z, x)).T)
    return held


KEPT = {
    "v-hsic": Case(dhsic.VHSIC(), lambda d: all_pairs(oracles.v_hsic, d, laplacian), least=FEWEST),
    "u-hsic": Case(dhsic.UHSIC(), lambda d: all_pairs(u_hsic, d, laplacian), least=FEWEST),
    "nystrom-hsic": features(dhsic.NystromHSIC(**FEW), held_features),
    "nystrom-m": Case(dhsic.NystromMHSIC(**FEW), lambda d: tuples("independent", d, laplacian)),
}


@pytest.mark.parametrize(
    ("way", "null"),
    [
        *((way, Shifts(200)) for way in WAYS),
        *((way, Permutation(50, within="all")) for way in PERMUTED),
        *((way, Permutation(50, within="groups", group_rows=40)) for way in PERMUTED),
    ],
    ids=str,
)
@pytest.mark.parametrize("case", KEPT)
def test_replicates__keep_to_strata_groups_and_series(case, way, null):
    asked, rows = KEPT[case]._replace(kernels="laplacian:0.7"), WAYS[way]
    x, y = np.random.default_rng(0).standard_normal((2, N, 1))
    data = [x, 0.5 * x + y]
    found = asked.test(data, null, **rows)
    moves = Moves(N, null, SEED, 2, asked.least, data, **rows)
    seen = [within(v, rows["strata"]) if "strata" in rows else v for v in data]
    values = np.array(list(map(asked.statistic(seen), moves)))
    np.testing.assert_allclose(whole(found), values, rtol=1e-8, atol=1e-9 * max(values))
    assert found.pvalue == pytest.approx(counted(values))
    orders = {moves.order(number).tobytes() for number in range(len(moves))}
    assert len(orders) > 20
    for order in map(moves.order, range(len(moves))):
        if "strata" in rows:
            np.testing.assert_array_equal(rows["strata"][order], rows["strata"])
        if "groups" in rows and "order" not in rows:
            owners = np.unique(np.stack([rows["groups"], rows["groups"][order]]), axis=1)
            assert owners.shape[1] == len(np.unique(rows["groups"]))


# Several statistics that share their replicates: the largest of what is standardised is told.


def distances_from_others(values):
    """Of every row from the mean of the others, in their standard deviations."""
    n = len(values)
    others = (values.sum(axis=0) - values) / (n - 1)
    squares = ((values**2).sum(axis=0) - values**2) / (n - 1)
    return (values - others) / np.sqrt(squares - others**2)


def chained_pairs(data):
    grams = [gaussian(x, x) for x in data]

    def statistic(left, right, order):
        product = np.prod([grams[k] for k in left], axis=0)
        return len(data[0]) * oracles.v_hsic([product, permuted(grams[right], order)])

    return statistic


@pytest.mark.parametrize("variables", [3, 4])
def test_chain__has_the_stages_of_its_definition(variables):
    """Of each variable and those before it, all together and one by one."""
    asked, n = CASES[f"v-hsic of {variables}"], 45
    data, null = draw(n, variables), Shifts(40 * (variables - 1))
    found = asked.test(data, Chain(40))
    moves, statistic = Moves(n, null, SEED, variables, asked.least), chained_pairs(data)
    assert len(moves) >= (variables - 1) * 40
    columns, pvalues = [], []
    for right, stage in enumerate(found.stages, start=1):
        lefts = [tuple(range(right)), *((k,) for k in range(right) if right > 1)]
        orders = [moves.order(number, right) for number in range(len(moves))]
        values = np.array([[statistic(left, right, o) for left in lefts] for o in orders])
        scores = distances_from_others(values)
        columns.append(scores)
        strongest = [tuple(f"x{k + 1}" for k in left) for left in lefts].index(stage.others)
        assert stage.statistic == pytest.approx(values[0, strongest], rel=1e-8)
        pvalues.append(stage.pvalue)
    assert pvalues[0] == pytest.approx(counted(columns[0][:, 0]))
    largest = np.hstack(columns).max(axis=1)
    np.testing.assert_allclose(whole(found), largest, rtol=1e-6, atol=1e-7)
    assert found.pvalue == pytest.approx(1 - (1 - min(pvalues)) ** (variables - 1))
    joint = asked.statistic(data)([np.arange(n)] * variables) / n
    expected = joint if asked.estimate is None else asked.estimate(data)
    assert found.estimate == pytest.approx(expected, rel=1e-7)


GRIDS = {
    "v-hsic": (dhsic.VHSIC(), 2),
    "v-hsic of 3": (dhsic.VHSIC(), 3),
    "u-hsic": (dhsic.UHSIC(), 2),
    "nystrom-hsic": (dhsic.NystromHSIC(**FEW), 2),
    "rff-hsic": (dhsic.RFFHSIC(WAVES), 2),
    "rff-hsic, complex": (dhsic.RFFHSIC(WAVES, form="complex"), 2),
    "nystrom-m": (dhsic.NystromMHSIC(**FEW), 2),
    "nystrom-m of 3": (dhsic.NystromMHSIC(**FEW), 3),
}
FAMILIES = dhsic.Candidates(("laplacian", "gaussian"), (0.5, 1.0))
LISTED = {
    2: (((0, 3), (2, 0), (1, 1), (1, 3), (2, 1), (2, 3)), "all"),
    3: (((0, 1, 2), (3, 0, 1), (0, 0, 1)), "matched"),
}


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("null", [Shifts(100), Permutation(19, "groups", 25)], ids=str)
@pytest.mark.parametrize("case", GRIDS)
def test_grid__is_every_combination_by_itself(case, null, precision):
    """In one run, from the same draws."""
    estimator, variables = GRIDS[case]
    data = draw(60, variables)
    options = {"estimator": estimator, "null": null, "rng": SEED, "precision": precision}
    for combine in LISTED[variables]:
        grid = dhsic.Grid(FAMILIES, combine=combine)
        found = dhsic.independence_test(*data, kernels=grid, **options)
        alone = [
            dhsic.independence_test(*data, kernels=list(one.kernels), **options)
            for one in found.grid.combinations
        ]
        assert len({one.kernels for one in found.grid.combinations}) >= 3
        rtol = 1e-7 if precision == "float64" else 1e-3
        for one, test in zip(found.grid.combinations, alone, strict=True):
            assert one.statistic == pytest.approx(test.statistic, rel=rtol)
            if precision == "float64":
                assert one.pvalue == test.pvalue
        assert found.estimate == pytest.approx(alone[found.grid.reference].estimate, rel=0.02)
        largest = distances_from_others(np.array([whole(test) for test in alone]).T).max(axis=1)
        np.testing.assert_allclose(whole(found), largest, rtol=10 * rtol, atol=10 * rtol)


@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-hsic", "nystrom-m"])
def test_ranking__gives_every_feature_its_own_test(estimator):
    """So many kernels that they are taken in bunches."""
    rng = np.random.default_rng(0)
    features_, target = rng.standard_normal((64, 40)), rng.standard_normal(64)
    target += features_[:, 3]
    options = {"estimator": estimator, "rng": 0, "n_resamples": 200}
    ranking = dhsic.rank_features(
        features_, target, feature_kernels="gaussian:0.4", target_kernel="gaussian:0.4", **options
    )
    assert len(ranking.features) == 40
    for j in (0, 3, 17, 39):
        alone = dhsic.independence_test(
            features_[:, [j]], target, kernels="gaussian:0.4", **options
        )
        assert ranking.features[j].pvalue == pytest.approx(alone.pvalue)


def test_ranking__at_landmarks_has_the_cka_of_all_pairs():
    """Which takes every feature with itself, too; ten groups leave three rows over."""
    rng = np.random.default_rng(0)
    columns, noise = rng.standard_normal((203, 4)), rng.standard_normal(203)
    options = {"feature_kernels": "gaussian:0.4", "target_kernel": "gaussian:0.4", "rng": 0}
    found = {
        name: [
            one.cka
            for one in dhsic.rank_features(
                columns, columns[:, 0] + noise, estimator=estimator, n_resamples=20, **options
            ).features
        ]
        for name, estimator in {
            "pairs": "v-hsic",
            "tuples": dhsic.NystromMHSIC(100),
            "features": dhsic.NystromHSIC(100),
        }.items()
    }
    assert found["pairs"][0] > 0.1
    for name in ("tuples", "features"):
        assert found[name] == pytest.approx(found["pairs"], rel=0.1, abs=0.02)


MATCHED, EVERY = (dhsic.Grid(FAMILIES, combine=combine) for combine in ("matched", "all"))
LITTLE = {
    "features": (dhsic.NystromHSIC(60), 2, Shifts(1200), "gaussian:0.4", 16),
    "waves": (dhsic.RFFHSIC(24), 2, Shifts(1200), "gaussian:0.4", 16),
    "features of a grid": (dhsic.NystromHSIC(20), 2, Permutation(300), MATCHED, 8),
    "tuples of a grid": (dhsic.NystromMHSIC(60), 3, Permutation(1500), MATCHED, 16),
    "pairs of a grid, permutations": (dhsic.VHSIC(), 2, Permutation(99), EVERY, 8),
    "pairs of a grid, shifts": (dhsic.VHSIC(), 2, Shifts(512), EVERY, 9),
}


@pytest.mark.usefixtures("no_libraries")
@pytest.mark.parametrize("name", LITTLE)
def test_little_memory__takes_more_steps_and_gives_the_same(name):
    """Statistics, random orders or features are cut into parts."""
    estimator, variables, null, kernels, mebibytes = LITTLE[name]
    data = draw(300, variables)
    options = {"estimator": estimator, "null": null, "kernels": kernels, "threads": 1}
    large, small = {}, {"memory": f"{mebibytes}MiB"}
    steps = [len(dhsic.plan(*data, **options, **memory).steps) for memory in (large, small)]
    assert steps[0] < steps[1]
    expected, found = (
        dhsic.independence_test(*data, **options, **memory, rng=SEED) for memory in (large, small)
    )
    np.testing.assert_allclose(whole(found), whole(expected), rtol=1e-7, atol=1e-9)
    assert (found.pvalue, found.null_reason) == (expected.pvalue, expected.null_reason)
    assert found.estimate == pytest.approx(expected.estimate, rel=1e-9)


@pytest.mark.usefixtures("no_libraries")
def test_little_memory__takes_smaller_groups_where_sizes_do_not_add_up():
    data, case = draw(1100, 2), CASES["coco"]
    options = {"estimator": dhsic.COCO(40, tolerance=0.0), "kernels": case.kernels, "rng": SEED}
    found = dhsic.independence_test(*data, null=Shifts(1000), **options, memory="12MiB", threads=1)
    assert "all 1,100 shifts" not in found.null_reason
    count = len(found.null_distribution) + 1
    assert count >= 1000
    assert found.pvalue == pytest.approx(1 / count)


# Single columns take a faster way to distances.


@pytest.mark.parametrize("kind", [dhsic.DCov, dhsic.DCor])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("n", [4, 9, 33, 130])
@pytest.mark.parametrize("columns", ["continuous", "ties", "heavy tails"])
def test_single_columns__are_sorted_into_the_same_distances(columns, n, unbiased, kind):
    rng = np.random.default_rng(n)
    x, y = {
        "continuous": lambda: rng.standard_normal((2, n)),
        "ties": lambda: np.concatenate([[[0, 1], [1, 0]], rng.integers(4, size=(2, n - 2))], 1),
        "heavy tails": lambda: 1e6 + rng.standard_cauchy((2, n)),
    }[columns]()
    y = y + x
    null = Permutation(9, within="all")
    options = {"estimator": kind(unbiased=unbiased), "null": null, "rng": SEED}
    found = dhsic.independence_test(x, y, **options)
    a, b = (cdist(v[:, None], v[:, None]) for v in np.array([x, y], float))
    centre = oracles.u_centred if unbiased else oracles.centred_gram
    a, b = centre(a), centre(b)
    scale = 1.0 / (n - 3 if unbiased else n)
    if kind is dhsic.DCor:
        scale = n / np.sqrt(np.sum(a * a) * np.sum(b * b))
    values = [scale * np.sum(a * permuted(b, rows[1])) for rows in Moves(n, null, SEED)]
    np.testing.assert_allclose(whole(found), values, rtol=1e-8, atol=1e-9 * max(np.abs(values)))


def test_statistic__of_indicators_at_one_location_is_pearson_s():
    rng = np.random.default_rng(0)
    x, y = rng.integers(2, size=(2, 200)).astype(float)
    y = np.where(rng.random(200) < 0.2, x, y)
    made = dhsic.NFSIC(n_locations=1, placement="random", regularisation=1e-12)
    options = {"kernels": "delta", "estimator": made, "null": "chi-square", "rng": 5}
    found = dhsic.independence_test(x, y, **options)
    assert found.statistic == pytest.approx(200 * np.corrcoef(x, y)[0, 1] ** 2, rel=1e-9)
