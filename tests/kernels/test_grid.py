"""Grids of kernels: candidates, combinations, bandwidths, and squares of tiles."""

import math
from itertools import combinations, product

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

X = np.random.default_rng(0).standard_normal((40, 2)) * [3.0, 3.0]


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(),
        Laplacian(),
        InverseMultiquadric(),
        *(Matern(nu=nu) for nu in (0.5, 1.5, 2.5)),
        Polynomial(),
        Columns(Gaussian()),
        Gaussian() + Laplacian(),
        Gaussian() * Matern(),
    ],
    ids=lambda kernel: kernel.spec(),
)
def test_widened__stretches_the_data(kernel):
    fitted = kernel.fit(X)
    assert kernel.has_length
    # as if the rows were half as far from the origin, which is their median
    origin = np.median(X, axis=0)
    np.testing.assert_allclose(fitted.widened(2.0)(X), fitted((X + origin) / 2), rtol=1e-10)


@pytest.mark.parametrize("kernel", [Linear(), Delta(), Distance(), Polynomial(coef0=0.0)])
def test_widened__leaves_kernels_without_length_as_they_are(kernel):
    fitted = kernel.fit(X)
    assert not kernel.has_length
    assert fitted.widened(2.0) == fitted


@pytest.mark.parametrize("family", [Gaussian, Laplacian])
def test_squarings__of_a_wider_kernel_give_the_narrower(family):
    wide = family().fit(X)
    narrow = wide.widened(0.25)
    count = narrow.squarings(wide)
    assert count == {Gaussian: 4, Laplacian: 2}[family]
    np.testing.assert_allclose(wide(X) ** (2**count), narrow(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (Gaussian(gamma=1.0), Gaussian(gamma=1.0)),
        (Gaussian(gamma=1.0), Gaussian(gamma=2.0)),
        (Gaussian(gamma=3.0), Gaussian(gamma=1.0)),
        (Gaussian(gamma=2.0), Laplacian(gamma=1.0)),
        (Gaussian(gamma=2.0, origin=(0.0,)), Gaussian(gamma=1.0, origin=(1.0,))),
        (Matern(length=0.5), Matern(length=1.0)),
        (Delta(), Delta()),
    ],
)
def test_squarings__lead_nowhere_else(narrow, wide):
    assert narrow.squarings(wide) == 0


def test_candidates__may_have_factors_for_each_family():
    candidates = Candidates(("gaussian", "laplacian"), ((1, 2), (3,)))
    assert candidates.scaled == [(Gaussian(), 1.0), (Gaussian(), 2.0), (Laplacian(), 3.0)]


def test_candidates__are_families_times_factors():
    candidates = Candidates(["gaussian", Laplacian(gamma=2.0), Delta()], factors=[0.5, 1])
    assert candidates.scaled == [
        (Gaussian(), 0.5),
        (Gaussian(), 1.0),
        (Laplacian(gamma=2.0), 0.5),
        (Laplacian(gamma=2.0), 1.0),
        (Delta(), 1.0),
    ]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kernels": ()}, "candidates must be different kernels"),
        ({"kernels": [3]}, "candidates must be different kernels"),
        ({"kernels": 5}, "one or a sequence of them; got 5"),
        ({"kernels": {"gaussian"}}, "one or a sequence of them"),
        ({"kernels": ("delta", "delta")}, "different kernels"),
        ({"factors": 2.0}, "factors of the bandwidth"),
        ({"factors": (1, 1e-200)}, "from 1e-6 to 1e6"),
        ({"factors": (10**400,)}, "from 1e-6 to 1e6"),
        ({"factors": (True, 2)}, "factors of the bandwidth"),
        ({"kernels": "gausian"}, "did you mean 'gaussian'"),
        ({"factors": ()}, "factors of the bandwidth"),
        ({"factors": (1, 0)}, "factors of the bandwidth"),
        ({"factors": (1, math.inf)}, "factors of the bandwidth"),
        ({"factors": (1, 1)}, "factors of the bandwidth"),
        ({"factors": ("wide",)}, "factors of the bandwidth"),
        ({"factors": ((1,), (2,), (3,))}, "for all families or in a list for each"),
        ({"factors": ((1,), ())}, "factors of the bandwidth"),
    ],
)
def test_candidates__are_checked(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        Candidates(**options)


def factors_of(found, m):
    """Factors of every combination, one a variable."""
    for c in range(len(found)):
        assert found.of(found.variables, c) == list(range(m))
    return [tuple(found.of(found.factors, c)) for c in range(len(found))]


def test_combine__all_takes_every_combination():
    one, other = Candidates("gaussian", (1, 2, 3)), Candidates("laplacian", factors=(4, 5))
    found = Grid((one, other), combine="all").combinations(2)
    assert factors_of(found, 2) == list(product((1, 2, 3), (4, 5)))
    assert found.kernels == (Gaussian(),) * 3 + (Laplacian(),) * 2
    assert found.spread("ab") == list("aaabb")
    assert found.kernels_of(0) == (Gaussian(), Laplacian())


def test_combine__matched_takes_the_same_number_of_each():
    grid = Grid((Candidates("gaussian", (1, 2)), Candidates("delta")), combine="matched")
    assert factors_of(grid.combinations(2), 2) == [(1, 1), (2, 1)]
    three = Grid(Candidates("gaussian", (1, 2)), combine="matched").combinations(3)
    assert factors_of(three, 3) == [(1, 1, 1), (2, 2, 2)]


def test_combine__list_is_taken_as_it_is():
    grid = Grid(Candidates("gaussian", (1, 2, 3)), combine=[[2, 0], [1, 1], [2, 0]])
    assert factors_of(grid.combinations(2), 2) == [(3, 1), (2, 2)]


def test_combine__auto_takes_the_reference_and_all_of_the_others():
    grid = Grid(Candidates("gaussian", (0.5, 1, 4)))
    rows = factors_of(grid.combinations(2), 2)
    assert rows == [(1, 1), *product((0.5, 4), repeat=2)]
    assert grid.combinations(2).reference() == 0
    mixed = Grid((Candidates("gaussian", (0.5, 1, 4)), Candidates("delta")))
    assert factors_of(mixed.combinations(2), 2) == [(1, 1), (0.5, 1), (4, 1)]


@pytest.mark.parametrize(("g", "m"), [(2, 3), (3, 3), (4, 3), (4, 5), (3, 4), (5, 6), (7, 8)])
def test_combine__auto_shows_every_pair_of_variables_all_pairs_of_others(g, m):
    factors = (1.0, *(2.0 * k for k in range(1, g + 1)))
    grid = Grid(Candidates("gaussian", factors), most=g**2 + 1)
    first, *rows = factors_of(grid.combinations(m), m)
    assert set(first) == {1.0}
    assert len(rows) == len(set(rows))
    for one, other in combinations(range(m), 2):
        assert len({(row[one], row[other]) for row in rows}) == g**2


@pytest.mark.parametrize(("g", "m"), [(4, 2), (4, 4), (4, 10), (2, 12), (6, 5), (30, 3)])
def test_combine__auto_stays_bounded(g, m):
    factors = tuple(range(1, g + 1))
    grid = Grid(Candidates("gaussian", factors))
    rows = factors_of(grid.combinations(m), m)
    assert len(rows) <= 17
    assert all(len({row[v] for row in rows}) >= min(g, 5) for v in range(m))


def test_most__bounds_auto_and_leaves_the_rest_alone():
    candidates = Candidates("gaussian", (1, 2, 3, 4, 5))
    assert len(Grid(candidates, most=5).combinations(2)) == 5
    assert len(Grid(candidates, combine="all", most=5).combinations(2)) == 25


def test_reference__is_the_combination_nearest_to_the_median_heuristic():
    grid = Grid(Candidates(("laplacian", "gaussian"), ((4, 1.5), (0.9, 3))), combine="all")
    found = grid.combinations(2)
    assert found.of(found.factors, found.reference()) == [0.9, 0.9]
    assert [found.factors[k] for k in found.typical()] == [0.9, 0.9]


def test_reference__has_a_length_where_a_variable_has_kernels_with_one():
    found = Grid(Candidates(("delta", "gaussian"), (0.5, 1)), combine="all").combinations(2)
    assert found.kernels_of(found.reference()) == (Gaussian(), Gaussian())
    assert Grid(Candidates(("delta", "linear"))).combinations(2).reference() == 0


def test_candidates__take_arrays():
    assert Candidates("gaussian", np.array([0.5, 2.0])).scaled[1] == (Gaussian(), 2.0)
    rows = Grid(combine=np.array([[0, 1], [1, 0]])).combinations(2).chosen
    assert rows == ((0, 9), (1, 8))


def test_auto__tries_the_median_heuristic_and_sixteen_others():
    found = Grid.auto().combinations(3)
    assert (len(found), found.kernels_of(0)) == (17, (Ranked(Gaussian(), "scores"),) * 3)
    assert len(set(found.chosen)) == 17


def products(grid, kinds=("number",)):
    """For every combination of two such variables the product of the factors."""
    found = grid.by_type([kinds, kinds]).combinations(2)
    return [math.prod(found.factors[k] for k in one) for one in found.chosen]


def test_auto__leaves_out_what_is_narrow_in_both_variables():
    assert len(products(Grid(combine="all"))) == 81
    assert min(products(Grid(combine="all"))) == 1 / 1024
    assert len(products(Grid())) == 15
    assert min(products(Grid())) == 1 / 32
    assert len(products(Grid(), ("number", "number"))) == 8
    assert len(Grid().by_type([["number"]] * 3).combinations(3)) == 17
    for given in (Candidates("gaussian", (1.0, 0.1)), Candidates(factors=(1.0, 0.1))):
        assert sorted(products(Grid(given))) == [0.1**2, 1.0]
    invariant = Grid().by_type([("number",)] * 2, invariant=True).combinations(2)
    assert (
        min(math.prod(invariant.of(invariant.factors, c)) for c in range(len(invariant))) == 1 / 16
    )


DISTANCE = "distance:1.0"


def pairs(*kinds):
    """Specs of the kernels of every pair that is tried without options, and that of reference."""
    found = Grid().by_type(kinds).combinations(2)
    specs = [tuple(kernel.spec() for kernel in found.kernels_of(c)) for c in range(len(found))]
    return specs, specs[found.reference()]


def test_auto__compares_trends_of_a_number_with_all_lengths():
    many, trend, scores = ("number", "number"), "ranks(anderson-darling)", "scores(gaussian)"
    specs, reference = pairs(("number",), ("number",))
    assert reference == (scores, scores)
    assert {a for a, b in specs if b == trend} == {trend, scores, "gaussian", "ranks(gaussian)"}
    assert {b for a, b in specs if a == trend} == {a for a, b in specs if b == trend}
    specs, reference = pairs(many, ("number",))
    assert reference == (scores, trend)
    lengths = {scores, "gaussian", "columns(laplacian)", "spread(linear)"}
    assert {a for a, b in specs if b == DISTANCE} == lengths
    assert [a for a, b in specs if b == "scores(linear)"] == [scores]
    assert [a for a, b in specs if b == scores] == ["gaussian"]
    turned, reference = pairs(("number",), many)
    assert (turned, reference) == ([(b, a) for a, b in specs], (trend, scores))
    specs, reference = pairs(many, many)
    assert reference == (scores, scores)
    assert not any(trend in pair for pair in specs)
    assert set(specs) == {(b, a) for a, b in specs}


def test_auto__has_trend_and_distances_in_the_lead_of_two_numbers():
    found = Grid().by_type([("number",)] * 2).combinations(2)
    trend = "ranks(anderson-darling)"

    def leading(combinations):
        return [
            tuple(kernel.spec() for kernel in combinations.kernels_of(c))
            for c in combinations.leading
        ]

    assert leading(found) == [(trend, trend), (DISTANCE, DISTANCE)]
    assert leading(found.part([0, 2, 5])) == [(DISTANCE, DISTANCE)]
    assert leading(found.part([0, 5])) == []
    assert leading(Grid(most=2).by_type([("number",)] * 2).combinations(2)) == [(trend, trend)]
    for kinds in ([("number",), ("number",) * 2], [("number",)] * 3, [("category",), ("number",)]):
        assert Grid().by_type(kinds).combinations(len(kinds)).leading == ()
    assert Grid(combine="all").by_type([("number",)] * 2).combinations(2).leading == ()


def test_auto__is_bounded_by_most():
    assert len(Grid(most=4).by_type([("number",)] * 2).combinations(2)) == 4


def test_auto__knows_no_pairs_of_kernels_that_are_the_same():
    found = Grid().by_type([("category",), ("number",)]).combinations(2)
    assert {found.kernels_of(c)[0] for c in range(len(found))} == {Delta()}
    assert len(found) == 5  # kernels of the number that are not for pairs of numbers alone


def scales(kinds, m):
    """The scales of the ranked kernels of every combination that is tried without options."""
    found = Grid().by_type([kinds] * m).combinations(m)
    every = [found.kernels_of(c) for c in range(len(found))]
    assert {k for one in found.chosen for k in one} == set(range(len(found.kernels)))
    return [tuple(getattr(kernel, "scale", None) for kernel in kernels) for kernels in every]


def test_auto__tries_the_spread_of_a_number_with_that_of_the_other_alone():
    assert [one for one in scales(("number",), 2) if "spread" in one] == [("spread", "spread")]
    assert not any("spread" in one for one in scales(("number",), 3))
    mixed = Grid().by_type([("number",), ("number", "number")]).combinations(2)
    spreads = [k for k, kernel in enumerate(mixed.kernels) if "spread" in kernel.spec()]
    assert [mixed.variables[k] for k in spreads] == [1]


def test_auto__tries_distances_and_lines_of_two_variables_alone():
    for kinds in (("number",), ("number", "number")):
        found = Grid().by_type([kinds] * 3).combinations(3)
        assert not {DISTANCE, "scores(linear)"} & {kernel.spec() for kernel in found.kernels}
        assert 4.0 not in found.factors


@pytest.mark.parametrize(
    ("grid", "match"),
    [
        (Grid((Candidates(),)), "Candidates for each of 2 variables, or one; got 1"),
        (Grid((Candidates("delta"), *[Candidates()] * 1), combine=[(1, 0)]), "below 1, 8; got"),
        (Grid((Candidates("gaussian", (1, 2)), Candidates()), combine="matched"), "equally many"),
        (Grid(combine=[(0,)]), "one number of a candidate for each variable"),
        (Grid(combine=[(0, 8)]), r"below 8, 8; got \(0, 8\)"),
        (Grid(combine=[(0, -1)]), "from 0 up to"),
        (Grid(combine=[(0, 0.5)]), "from 0 up to"),
        (Grid(combine=[]), "one number of a candidate"),
        (Grid(combine=[1, 2]), "one number of a candidate"),
        (Grid(combine=5), "one number of a candidate"),
        (Grid(combine=[(True, 0)]), "one number of a candidate"),
    ],
)
def test_combinations__are_checked(grid, match):
    with pytest.raises(InvalidArgumentError, match=match):
        grid.combinations(2)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"candidates": ()}, "needs Candidates"),
        ({"candidates": None}, "needs Candidates"),
        ({"candidates": Gaussian()}, "needs Candidates"),
        ({"candidates": ("gaussian",)}, "needs Candidates"),
        ({"combine": "both"}, "combine must be"),
        ({"aggregate": "mean"}, "aggregate must be"),
        ({"most": 0}, "most must be"),
        ({"reference_share": 1.0}, "reference_share must be"),
        ({"reference_share": -0.1}, "reference_share must be"),
    ],
)
def test_grid__is_checked(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        Grid(**options)


def test_single__is_one_combination():
    single = Combinations.single([Gaussian(), Delta()])
    assert (len(single), single.kernels_of(0)) == (1, (Gaussian(), Delta()))
