"""Grids of kernels: candidates, combinations, bandwidths, and what they leave out."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest

from dhsic.errors import InvalidArgumentError
from dhsic.kernels import (
    Candidates,
    Columns,
    Combinations,
    Delta,
    Distance,
    Gaussian,
    Grid,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Ranked,
)
from dhsic.kernels.grid import SharedTiles

X = 3.0 * np.random.default_rng(0).standard_normal((40, 2))
LENGTHS = [
    *(Gaussian(), Laplacian(), InverseMultiquadric(), Polynomial(), Columns(Gaussian())),
    *(*(Matern(nu=nu) for nu in (0.5, 1.5, 2.5)), Gaussian() + Laplacian(), Gaussian() * Matern()),
]


@pytest.mark.parametrize("kernel", LENGTHS, ids=str)
def test_widened__stretches_the_data(kernel):
    """As if the rows were half as far from the origin, which is their median."""
    fitted, origin = kernel.fit(X), np.median(X, axis=0)
    np.testing.assert_allclose(fitted.widened(2.0)(X), fitted((X + origin) / 2), rtol=1e-10)
    for other in (Linear(), Delta(), Distance(), Polynomial(coef0=0.0)):
        assert other.fit(X).widened(2.0) == other.fit(X)


def test_powers__of_a_wider_kernel_give_the_narrower_and_lead_nowhere_else():
    for wide, expected in [(Gaussian(), 4), (Laplacian(), 2), (Ranked(Gaussian(), "scores"), 4)]:
        wide = wide.fit(X)
        narrow = wide.widened(0.25)
        assert SharedTiles((narrow, wide), (0, 0)).powers == ((0, 1, expected),)
        np.testing.assert_allclose(wide(X) ** 2**expected, narrow(X), rtol=1e-12)
        assert SharedTiles((narrow, wide), (0, 1)).powers == ()
    for narrow, wide in [
        *((Gaussian(gamma=gamma), Gaussian(gamma=1.0)) for gamma in (1.0, 3.0)),
        (Gaussian(gamma=2.0), Laplacian(gamma=1.0)),
        (Gaussian(gamma=2.0, origin=(0.0,)), Gaussian(gamma=1.0, origin=(1.0,))),
        (Matern(length=0.5), Matern(length=1.0)),
    ]:
        assert SharedTiles((narrow, wide), (0, 0)).powers == ()


def test_candidates__are_families_times_factors():
    candidates = Candidates(["gaussian", Laplacian(gamma=2.0), Delta()], factors=[0.5, 1])
    assert candidates.scaled == (
        *((kernel, factor) for kernel in (Gaussian(), Laplacian(gamma=2.0)) for factor in (0.5, 1)),
        (Delta(), 1.0),
    )
    candidates = Candidates(("gaussian", "laplacian"), ((1, 2), np.array([3.0])))
    assert candidates.scaled == ((Gaussian(), 1.0), (Gaussian(), 2.0), (Laplacian(), 3.0))


FACTORS = [2.0, (1, 1e-200), (True, 2), (), (1, 0), (1, math.inf), (1, 1), ("wide",), ((1,), ())]


@pytest.mark.parametrize(
    ("build", "options", "match"),
    [
        *(
            (Candidates, {"factors": bad}, "factors of the band|from 1e-6 to 1e6")
            for bad in FACTORS
        ),
        (Candidates, {"factors": ((1,), (2,), (3,))}, "for all families or in a list for each"),
        (Candidates, {"kernels": ()}, "candidates must be different kernels"),
        (Candidates, {"kernels": 5}, "one or a sequence of them; got 5"),
        (Candidates, {"kernels": ("delta", "delta")}, "different kernels"),
        (Candidates, {"kernels": "gausian"}, "did you mean 'gaussian'"),
        (Grid, {"candidates": ()}, "needs Candidates"),
        (Grid, {"candidates": Gaussian()}, "needs Candidates"),
        (Grid, {"combine": "both"}, "combine must be"),
        (Grid, {"aggregate": "mean"}, "aggregate must be"),
        (Grid, {"most": 0}, "most must be"),
        (Grid, {"reference_share": 1.0}, "reference_share must be"),
        (Grid, {"reference_share": -0.1}, "reference_share must be"),
        (
            Grid,
            {"candidates": (Candidates(),)},
            "Candidates for each of 2 variables, or one; got 1",
        ),
        (Grid, {"combine": [(0,)]}, "one number of a candidate for each variable"),
        (Grid, {"combine": [(0, 9)]}, r"below 9, 9; got \(0, 9\)|below 8, 8; got \(0, 9\)"),
        (Grid, {"combine": [(0, -1)]}, "from 0 up to"),
        (Grid, {"combine": [(True, 0)]}, "one number of a candidate"),
        (Grid, {"combine": []}, "one number of a candidate"),
    ],
)
def test_grid__refuses(build, options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        build(**options).combinations(2)


def factors_of(found, m):
    """Factors of every combination, one a variable."""
    for c in range(len(found)):
        assert found.of(found.variables, c) == list(range(m))
    return [tuple(found.of(found.factors, c)) for c in range(len(found))]


def gaussians(*factors):
    return Candidates("gaussian", factors)


def test_combine__takes_all_the_same_numbers_or_a_list():
    found = Grid((gaussians(1, 2, 3), Candidates("laplacian", (4, 5))), "all").combinations(2)
    assert factors_of(found, 2) == list(product((1, 2, 3), (4, 5)))
    assert found.kernels == (Gaussian(),) * 3 + (Laplacian(),) * 2
    assert found.kernels_of(0) == (Gaussian(), Laplacian())
    grid = Grid((gaussians(1, 2), Candidates("delta")), combine="matched")
    assert factors_of(grid.combinations(2), 2) == [(1, 1), (2, 1)]
    three = Grid(gaussians(1, 2), combine="matched").combinations(3)
    assert factors_of(three, 3) == [(1, 1, 1), (2, 2, 2)]
    listed = Grid(gaussians(1, 2, 3), combine=[[2, 0], [1, 1], [2, 0]]).combinations(2)
    assert factors_of(listed, 2) == [(3, 1), (2, 2)]
    single = Combinations.single([Gaussian(), Delta()])
    assert (len(single), single.kernels_of(0)) == (1, (Gaussian(), Delta()))
    with pytest.raises(InvalidArgumentError, match="equally many"):
        Grid((gaussians(1, 2), Candidates()), combine="matched").combinations(2)


def test_combine__auto_takes_the_reference_and_all_of_the_others():
    found = Grid(gaussians(0.5, 1, 4)).combinations(2)
    assert factors_of(found, 2) == [(1, 1), *product((0.5, 4), repeat=2)]
    assert found.reference() == 0
    mixed = Grid((gaussians(0.5, 1, 4), Candidates("delta"))).combinations(2)
    assert factors_of(mixed, 2) == [(1, 1), (0.5, 1), (4, 1)]
    assert len(Grid(gaussians(1, 2, 3, 4, 5), most=5).combinations(2)) == 5
    assert len(Grid(gaussians(1, 2, 3, 4, 5), combine="all", most=5).combinations(2)) == 25


@pytest.mark.parametrize(("g", "m"), [(4, 3), (4, 5), (5, 6), (7, 8)])
def test_combine__auto_takes_every_candidate_of_many_variables_equally_often(g, m):
    grid = Grid(gaussians(1.0, *(2.0 * k for k in range(1, g + 1))), most=2 * g + 1)
    first, *rows = factors_of(grid.combinations(m), m)
    assert set(first) == {1.0}
    assert len(rows) <= 2 * g
    for v in range(m):
        counts = Counter(row[v] for row in rows)
        assert len(counts) == g
        assert max(counts.values()) <= 2


def test_reference__is_the_combination_nearest_to_the_median_heuristic():
    candidates = Candidates(("laplacian", "gaussian"), ((4, 1.5), (0.9, 3)))
    found = Grid(candidates, combine="all").combinations(2)
    assert found.of(found.factors, found.reference()) == [0.9, 0.9]
    found = Grid(Candidates(("delta", "gaussian"), (0.5, 1)), combine="all").combinations(2)
    assert found.kernels_of(found.reference()) == (Gaussian(), Gaussian())
    assert Grid(Candidates(("delta", "linear"))).combinations(2).reference() == 0


MANY, TREND, SCORES, DISTANCE = (
    ("number", "number"),
    "ranks(anderson-darling)",
    "scores(gaussian)",
    "distance:1.0",
)


def pairs(*kinds):
    """Specs of the kernels of every pair that is tried without options, and that of reference."""
    found = Grid().by_type(kinds).combinations(2)
    specs = [tuple(kernel.spec() for kernel in found.kernels_of(c)) for c in range(len(found))]
    return specs, specs[found.reference()]


def test_auto__compares_trends_of_a_number_with_all_lengths():
    specs, reference = pairs(("number",), ("number",))
    assert (len(specs), reference) == (15, (SCORES, SCORES))
    assert {a for a, b in specs if b == TREND} == {TREND, SCORES, "gaussian", "ranks(gaussian)"}
    assert {b for a, b in specs if a == TREND} == {a for a, b in specs if b == TREND}
    spread = "spread(anderson-darling)"
    assert [pair for pair in specs if "spread" in pair[0] + pair[1]] == [(spread, spread)]
    specs, reference = pairs(MANY, ("number",))
    assert reference == (SCORES, TREND)
    lengths = {SCORES, "gaussian", "columns(laplacian)", "spread(linear)"}
    assert {a for a, b in specs if b == DISTANCE} == lengths
    turned, reference = pairs(("number",), MANY)
    assert (turned, reference) == ([(b, a) for a, b in specs], (TREND, SCORES))
    specs, reference = pairs(MANY, MANY)
    assert (len(specs), reference) == (8, (SCORES, SCORES))
    assert not any(TREND in pair for pair in specs)
    assert set(specs) == {(b, a) for a, b in specs}


def test_auto__has_trend_and_distances_in_the_lead_of_two_numbers():
    def leading(found):
        return [tuple(kernel.spec() for kernel in found.kernels_of(c)) for c in found.leading]

    found = Grid().by_type([("number",)] * 2).combinations(2)
    assert leading(found) == [(TREND, TREND), (DISTANCE, DISTANCE)]
    assert leading(found.part([0, 2, 5])) == [(DISTANCE, DISTANCE)]
    few = Grid(most=2).by_type([("number",)] * 2).combinations(2)
    assert (len(few), leading(few)) == (2, [(TREND, TREND)])
    for kinds in ([("number",), MANY], [("number",)] * 3, [("category",), ("number",)]):
        assert Grid().by_type(kinds).combinations(len(kinds)).leading == ()


def test_auto__leaves_out_what_is_narrow_in_both_variables():
    def products(grid):
        found = grid.by_type([("number",)] * 2).combinations(2)
        return [math.prod(found.factors[k] for k in one) for one in found.chosen]

    assert (len(products(Grid(combine="all"))), min(products(Grid(combine="all")))) == (
        81,
        1 / 1024,
    )
    assert min(products(Grid())) == 1 / 32
    assert sorted(products(Grid(gaussians(1.0, 0.1)))) == [0.1**2, 1.0]


@pytest.mark.parametrize("kinds", [("number",), MANY])
def test_auto__of_three_variables_tries_some_beside_the_median_heuristic(kinds):
    found = Grid().by_type([kinds] * 3).combinations(3)
    specs = {kernel.spec() for kernel in found.kernels}
    assert 15 <= len(found) == len(set(found.chosen)) <= 17
    assert not {DISTANCE, "scores(linear)"} & specs
    assert kinds == MANY or not any("spread" in spec for spec in specs)
    assert 4.0 not in found.factors


def test_auto__of_a_category_takes_delta():
    found = Grid().by_type([("category",), ("number",)]).combinations(2)
    assert {found.kernels_of(c)[0] for c in range(len(found))} == {Delta()}
    assert len(found) == 5  # kernels of the number that are not for pairs of numbers alone
