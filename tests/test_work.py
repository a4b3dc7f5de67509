"""Work is counted by kind: what plans count is what passes do, and choices go by one machine."""

from dataclasses import replace

import numpy as np
import pytest
import zarr

import dhsic
from dhsic._work import NOTHING, REFERENCE, Rates, Work, pair_seconds
from dhsic.engine import rates
from dhsic.engine.reduction import GroupBlock, RowBlock
from dhsic.estimators.base import factor_work, fitting_work
from dhsic.estimators.feature.basis import unseen_sides
from dhsic.estimators.feature.layout import KernelSide, Layout
from dhsic.estimators.feature.likely import likely_counts
from dhsic.estimators.feature.sizes import size_work
from dhsic.estimators.feature.tests import sample_step
from dhsic.estimators.gram.permutations import PermutedGramPass
from dhsic.estimators.gram.sides import GramSides
from dhsic.estimators.landmark import terms
from dhsic.estimators.landmark.orbits import MeansPass, TupleOrbitPass
from dhsic.estimators.landmark.terms import SignedPass, SpectrumPass
from dhsic.estimators.landmark.tuples import Tuples
from dhsic.estimators.resample import Orbit, TwoSided
from dhsic.features import FourierFeatures, KernelFeatures
from dhsic.kernels import (
    Columns,
    Combinations,
    Distance,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    OnColumns,
    Ranked,
)
from dhsic.kernels.shared import SharedTiles, tile_work
from dhsic.linalg import pivoted_cholesky
from tests.engine.toys import threads

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((640, 3)), RNG.standard_normal((640, 1))
SINGLE = Combinations.single([Gaussian(gamma=0.2), Gaussian(gamma=0.5)])
SLOW = Rates("slow", {kind: 50.0 * seconds for kind, seconds in REFERENCE.seconds.items()})
QUICK = Rates("quick", {kind: seconds / 50.0 for kind, seconds in REFERENCE.seconds.items()})


def test_work__adds_and_scales_by_kind():
    work = 2.0 * Work.of(products=3.0, gathers=1.0) + Work.of(products=4.0) * 0.5
    assert dict(work.counts) == {"products": 8.0, "gathers": 2.0}
    assert (work["products"], work["sorts"]) == (8.0, 0.0)
    assert sum([work, work], NOTHING) == 2.0 * work
    assert NOTHING.seconds() == 0.0


def test_work__keeps_the_precisions_apart():
    work = Work.of(np.complex64, entries=1.0, factors=2.0) + Work.of(np.complex128, entries=4.0)
    assert dict(work.counts) == {"entries of float32": 1.0, "factors": 2.0, "entries": 4.0}


def test_seconds__are_counts_times_rates():
    machine = Rates("a machine", {"products": 2.0, "calls": 10.0})
    assert Work.of(products=3.0, calls=0.5).seconds(machine) == 11.0
    assert Work.of(calls=1.0).seconds() == REFERENCE.seconds["calls"]
    assert pair_seconds(100) == Work.of(exponentials=5050).seconds()


@pytest.fixture
def made(monkeypatch):
    """How many entries of tiles were computed."""
    made = []

    def counting(tile):
        def counted(self, rows, columns, out, work):
            made.append(out.size)
            tile(self, rows, columns, out, work)

        return counted

    for kernel in (Gaussian, Laplacian):
        monkeypatch.setattr(kernel, "tile", counting(kernel.tile))

    # Means over columns take those of pairs too, one a column, in place of those of rows.
    monkeypatch.setattr(Columns, "of_laplacians", False)
    return made


def tuples_of(p):
    pairs = (TwoSided((0,), 1),)
    return Tuples(
        SINGLE.kernels,
        SINGLE.variables,
        (X[:p], Y[:p]),
        pairs,
        (np.arange(p),),
        (np.zeros(p),) * 2,
        np.dtype(np.float64),
    )


def landmark_passes():
    t, zeros = tuples_of(40), np.zeros(40)
    yield MeansPass(t)
    yield SignedPass(t, zeros, 20, 0)
    yield SpectrumPass(t, zeros, "gamma null")
    yield TupleOrbitPass(t, Orbit.of(640, 64, 0), (0,))


@pytest.mark.parametrize("number", range(4), ids=["means", "signs", "spectrum", "shifts"])
def test_landmark_passes__count_the_exponentials_that_they_compute(number, made, monkeypatch):
    monkeypatch.setattr(terms, "LANDMARK_TILE_ROWS", 100)  # of a tile
    reduction = list(landmark_passes())[number]
    work = reduction.footprint(640).work
    if isinstance(reduction, TupleOrbitPass):
        reduction.chunk(GroupBlock(0, reduction.groups, (X, Y)))
    else:
        reduction.chunk(RowBlock(0, (X, Y)))
    assert sum(made) == 640 * work["exponentials"] == 640 * 40 * 2


def test_gram_pass__counts_pairs_once_but_for_those_within_pieces(made):
    orbit = Orbit.of(640, 64, 0)
    samples = (X[:50], Y[:50])
    sides = GramSides.of(session(X, Y), SINGLE, samples, replace(orbit, cosets=1, shifted=False))
    reduction = PermutedGramPass(sides)
    made.clear()  # of the pilots
    block = GroupBlock(0, sides.orbit.groups, (X, Y))
    reduction.chunk(block, block)
    planned = reduction.footprint(640).work["exponentials"] * 640 * 641 / 2
    assert planned == 640 * 641
    pilots = 2 * 640 * 50
    assert planned <= sum(made) - pilots <= 1.3 * planned


def session(*data):
    from dhsic.engine.session import Session
    from dhsic.io.open import open_variables

    return Session(open_variables(data), threads(1), 0)


def test_features__count_the_entries_that_they_compute(made):
    features = KernelFeatures(kernel := Gaussian(gamma=0.2), kernel.columns(X[:40], np.float64))
    features(X)
    assert sum(made) == 640 * features.work["exponentials"]
    waves = FourierFeatures(RNG.standard_normal((30, 3)), np.zeros(3))
    assert waves(X).size == 640 * waves.work["cosines"]


FEW = dhsic.NystromHSIC(40)


@pytest.mark.parametrize("kernels", [list(SINGLE.kernels), dhsic.Grid.auto()], ids=["one", "grid"])
@pytest.mark.parametrize(
    ("estimator", "uncounted"),
    [
        (FEW, 0.0),
        (replace(FEW, n_features=8), 0.0),
        (replace(FEW, unbiased_estimate=True), 0.0),
        (replace(FEW, n_features=8, unbiased_estimate=True), 0.0),
        ("nystrom-m", 0.17),  # the means of kernels in a few rows, and the reference's landmarks
    ],
    ids=["features", "principal", "blocks", "both", "tuples"],
)
def test_plan__counts_the_exponentials_of_a_whole_test(estimator, uncounted, kernels, made):
    x, y = (np.random.default_rng(m).standard_normal((1280, 3)) for m in (0, 1))
    asked = {"estimator": estimator, "kernels": kernels, "threads": 1}
    planned = dhsic.plan(x, y, **asked).work["exponentials"]
    made.clear()
    dhsic.independence_test(x, y, rng=0, **asked)
    grid = isinstance(kernels, dhsic.Grid)
    # the plan has the mean of all combinations for the one whose estimate is reported: a block of
    # all pairs of 512 rows, with up to three exponentials for either variable
    chosen = 512**2 * 3 * 2 if grid and getattr(estimator, "unbiased_estimate", False) else 0
    pruned = 0.05 if grid else 0.0
    assert (1 - uncounted) * sum(made) <= planned + chosen
    assert planned - chosen <= (1 + pruned) * sum(made)


def test_squared_tiles__are_entries_and_no_exponentials():
    wide, narrow = Gaussian(gamma=0.1), Gaussian(gamma=0.2)
    one, both, apart = (
        SharedTiles(kernels, (0,) * len(kernels)).work(np.float64, dict.fromkeys(roots, 3))
        for kernels, roots in (
            ((wide,), (0,)),
            ((wide, narrow), (0,)),
            ((wide, Gaussian(gamma=0.37)), (0, 1)),
        )
    )
    assert both == one + Work.of(entries=1.0)
    assert apart == 2.0 * one


def test_likely_counts__are_those_of_normals_in_smooth_kernels_of_one_column():
    data = session(np.zeros((3000, 2)), np.zeros(3000))
    kernels = [Gaussian(), Laplacian(), Matern(), OnColumns(Gaussian(), (1,)), Laplacian()]
    variables, chosen = (0, 0, 0, 0, 1), ((0, 4), (1, 4), (2, 4), (3, 4))
    some = Combinations(tuple(kernels), variables, chosen, (1.0,) * len(kernels))
    values = RNG.standard_normal((256, 1))
    for factor in (1.0, 0.25):
        scaled = replace(some, factors=(factor,) * len(kernels))
        smooth = pivoted_cholesky(Gaussian().fit(values).widened(factor)(values), 1e-8).rank
        *others, rough = likely_counts(data, scaled, 256)
        assert others[:3] == [256, 256, 256]
        assert others[3] == pytest.approx(smooth, abs=2)
        assert rough == 256
    line = Combinations.single([Gaussian(gamma=2.0), Distance()])
    assert likely_counts(session(X[:, 0], X[:, 1]), line, 256) == [24, 256]
    assert likely_counts(session(X[:, 0], X[:, 1]), line, 20) == [20, 20]


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """Plans that take all kinds of work."""
    x, y = np.zeros((9000, 3)), np.zeros(9000)
    path = tmp_path_factory.mktemp("stored") / "x.zarr"
    zarr.create_array(path, data=x, chunks=(1000, 3), fill_value=np.nan)
    asked = [
        {},
        {"precision": "float32"},
        {"estimator": "rff-hsic"},
        {"estimator": "rff-hsic", "precision": "float32"},
        {"estimator": "nystrom-hsic", "kernels": "laplacian"},
        {"estimator": "nystrom-m", "null": "spectral"},
        {"estimator": "v-hsic", "null": "permutation"},
        {"estimator": "v-hsic", "kernels": "gaussian", "precision": "float32"},
    ]
    data = [(x, y)] * len(asked) + [(y, y), (path, y)]
    asked += [{"estimator": "dcov", "null": "permutation"}, {}]
    return [dhsic.plan(*d, threads=1, **o) for d, o in zip(data, asked, strict=True)]


@pytest.mark.parametrize("kind", REFERENCE.seconds)
def test_seconds__depend_on_the_rate_of_every_kind(kind, plans):
    slower = Rates("slower", {**REFERENCE.seconds, kind: 3.0 * REFERENCE.seconds[kind]})
    usual = [replace(plan, rates=REFERENCE) for plan in plans]
    more = [
        replace(plan, rates=slower).processor_seconds - plan.processor_seconds for plan in usual
    ]
    assert max(more) > 0.0
    due = [2.0 * REFERENCE.seconds[kind] * plan.work[kind] for plan in usual]
    assert more == pytest.approx(due)


def test_tiles__of_distances_cost_more_than_products_of_many_columns():
    data = [np.zeros((20_000, d)) for d in (90, 1)]
    asked = {"estimator": "nystrom-m", "null": "spectral", "threads": 1}
    gaussian, laplacian = (
        dhsic.plan(*data, kernels=[k, "gaussian"], **asked).work
        for k in (Gaussian(gamma=0.1), Laplacian(gamma=0.1))
    )
    assert gaussian["exponentials"] == laplacian["exponentials"]
    assert laplacian.seconds() > 1.2 * gaussian.seconds()


def test_likely_ranks__make_less_work_and_no_fewer_bytes():
    data = [np.zeros((20_000, 1))] * 2
    asked = {"estimator": "nystrom-m", "threads": 1}
    smooth, rough = (
        dhsic.plan(*data, kernels=kernels, **asked) for kernels in ("gaussian", "laplacian")
    )
    assert smooth.work["factors"] < 0.5 * rough.work["factors"]
    assert smooth.peak_bytes == pytest.approx(rough.peak_bytes, rel=0.02)


CHOICES = [
    ({}, 2500),
    ({}, 9000),
    ({"time": 0.2}, 9000),
    ({"kernels": "gaussian"}, 5000),
    ({"estimator": "dcov"}, 3000),
    ({"estimator": "v-hsic", "null": "permutation"}, 600),
]


@pytest.mark.parametrize(("options", "n"), CHOICES)
def test_choices__do_not_depend_on_the_machine(options, n, monkeypatch):
    x = np.random.default_rng(1).standard_normal((n, 1))
    y = 0.1 * x + np.random.default_rng(2).standard_normal((n, 1))
    asked = {"rng": 0, "threads": 1, **options}
    monkeypatch.delenv("DHSIC_RATES")
    monkeypatch.setattr("dhsic.engine.runtime.baseline_bytes", lambda: 2**28)
    found = []
    for machine in (SLOW, QUICK):
        monkeypatch.setattr(rates, "rates_of", lambda runtime, machine=machine: machine)
        planned = dhsic.plan(x, y, **{k: v for k, v in asked.items() if k != "rng"})
        result = dhsic.independence_test(x, y, **asked)
        steps = [step.name for step in planned.steps]
        bounds = [step.bounds for step in planned.passes]
        chosen = result.estimator, result.estimator_reason, result.null, result.pvalue
        found.append((planned.processor_seconds, (steps, bounds, chosen, result.statistic)))
    (slow, first), (quick, second) = found
    assert first == second
    assert slow == pytest.approx(2500.0 * quick)


def test_test__measures_no_machine(monkeypatch):
    monkeypatch.delenv("DHSIC_RATES")

    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr(rates, "rates_of", refuse)
    assert dhsic.independence_test(X[:200], Y[:200], rng=0, threads=1).n == 200
    planned = dhsic.plan(X, Y, threads=1)
    assert planned.fits
    with pytest.raises(AssertionError):
        str(planned)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_over_columns__take_an_exponential_a_column(dtype):
    x = np.random.default_rng(0).standard_normal((30, 90))
    kernel, one = Columns(Gaussian()).fit(x), Gaussian().fit(x[:, :1])
    whole = tile_work(kernel, dtype, kernel.width(90))
    assert whole == 90 * (tile_work(one, dtype, 1) + Work.of(dtype, entries=1))
    # Those of Laplacian kernels are of rows, and not of pairs of them.
    whole = tile_work(Columns(Laplacian()).fit(x), dtype, 90)
    assert whole == Work.of(dtype, entries=6.5 * 90)
    assert whole.seconds() > 2 * tile_work(Laplacian().fit(x), dtype, 90).seconds()


def test_factors__take_half_again_as_long_and_thrice_where_rows_are_few():
    assert factor_work(10**6, 10**6)["factors"] == pytest.approx(1.5 * 10**18 / 3, rel=1e-3)
    assert factor_work(300, 300)["factors"] == pytest.approx(3.0 * 300**3 / 3)
    assert factor_work(10**6, 10)["factors"] == pytest.approx(1.5 * 10**13, rel=1e-3)


def test_work__refuses_a_kind_that_has_no_rate():
    with pytest.raises(TypeError, match=r"kinds of work are products, .*; got guesses"):
        Work.of(guesses=3.0)


def test_plan__transforms_replicates_back_where_they_are_shifts():
    def transforms(null):
        plan = dhsic.plan(X, Y, estimator="nystrom-hsic", kernels="gaussian", null=null)
        (solve,) = [step for step in plan.steps if step.name == "solve"]
        return solve.work["transforms"]

    assert transforms("shifts") > 0
    assert transforms("multiplier") == transforms("permutation") == 0


def test_plan__makes_no_more_features_of_a_sample_than_there_are_rows():
    def exponentials(n):
        plan = dhsic.plan(X[:n], Y[:n], estimator=dhsic.NystromHSIC(20), kernels="laplacian")
        (step,) = [step for step in plan.steps if step.name == "features of the sample"]
        return step.work["exponentials"]

    assert exponentials(640) == 4 * exponentials(160) == 640 * 40


def step_of(plan, name):
    (step,) = [step for step in plan.steps if step.name == name]
    return step.work


@pytest.mark.parametrize("estimator", ["v-hsic", dhsic.NystromHSIC(40), dhsic.NystromMHSIC(40)])
def test_plan__decodes_stored_chunks_for_the_sample_too(estimator, tmp_path):
    """Rows drawn for the bandwidths lie in all chunks, of which each is read whole."""
    path, few = tmp_path / "x.zarr", tmp_path / "few.zarr"
    zarr.create_array(path, data=np.zeros((5000, 3)), chunks=(500, 3), fill_value=np.nan)
    zarr.create_array(few, data=np.zeros((5000, 1)), chunks=(2, 1), fill_value=np.nan)
    asked = {"estimator": estimator, "kernels": "gaussian", "threads": 1}
    first = dhsic.plan(path, np.zeros(5000), **asked).steps[0]
    assert first.work["decoded"] == 5000 * 3 * 8
    # Of small chunks not all hold one of 1,000 rows.
    assert dhsic.plan(few, np.zeros(5000), **asked).steps[0].work["decoded"] == 2000 * 8
    assert dhsic.plan(np.zeros((5000, 3)), np.zeros(5000), **asked).work["decoded"] == 0


def test_median_of_one_column__takes_few_of_its_distances():
    one, two = (fitting_work(session(X[:, :d], X[:, :d]))["entries"] for d in (1, 2))
    assert one < two / 4


def test_fitting__takes_a_median_for_every_family_of_kernels():
    data = session(X, Y)

    def fitting(*kernels, factors=None):
        count = len(kernels)
        variables, chosen = (0,) * count + (1,), tuple((k, count) for k in range(count))
        factors = (*(factors or (1.0,) * count), 1.0)
        some = Combinations((*kernels, Linear()), variables, chosen, factors)
        fitted = some.guessed((3, 1))
        assert fitting_work(data, fitted) == fitting_work(data, some)
        assert fitting_work(data, some)["calls"] == 150 * (1 + len({k.spec() for k in kernels}))
        return fitting_work(data, some)["entries"]

    one = fitting(Gaussian())
    assert fitting(Linear()) == 0.0 < one
    assert fitting(Gaussian(), Gaussian(), factors=(1.0, 0.5)) == one
    assert fitting(Gaussian(), Laplacian()) == 2 * one
    ranked = fitting(Ranked(Gaussian()))
    assert fitting(Ranked(Gaussian()), Ranked(Linear())) == ranked + (ranked - one)
    assert 0.0 < fitting(Columns(Laplacian())) < one


def test_plan_of_all_pairs__fits_the_kernels_that_are_tried():
    data = [np.zeros(900)] * 2
    one, usual = (
        dhsic.plan(*data, kernels=kernels, threads=1).steps[0] for kernels in ("gaussian", None)
    )
    assert one.name == usual.name == "fit kernels"
    assert usual.work["entries"] > 3 * one.work["entries"]


def test_estimate_at_landmarks__takes_those_that_are_kept():
    data = [np.zeros(20_000)] * 2
    plan = dhsic.plan(*data, estimator="nystrom-m", kernels="gaussian", threads=1)
    assert step_of(plan, "estimate").seconds() < 0.1 * step_of(plan, "prune landmarks").seconds()
    # Where every landmark is kept, each variable has a factor of its own beside that of both.
    data = [np.zeros((20_000, 9))] * 3
    plan = dhsic.plan(*data, estimator="nystrom-m", kernels="gaussian", threads=1, null="gamma")
    prune, estimate = (step_of(plan, name)["factors"] for name in ("prune landmarks", "estimate"))
    assert estimate == pytest.approx(3 * prune)


def test_whitening_of_cross_covariances__moves_all_their_numbers_for_either_side():
    first, second = (np.broadcast_to(np.float64(0), (r, r)) for r in (30, 20))
    maps = [KernelFeatures(Gaussian(gamma=0.2), X[:r, :1], m) for m, r in enumerate((30, 20))]
    sides = unseen_sides(maps, whitened=True)
    layout = Layout.of({k: KernelSide.plain(k, side) for k, side in sides.items()}, [(0, 1)])
    neither, one, both = (
        size_work(layout, {(0, 1): factors}, shifted=True)
        for factors in ((None, None), (first, None), (first, second))
    )
    assert (one["factors"], both["factors"]) == (30 * 600, 50 * 600)
    assert both["entries"] - one["entries"] == one["entries"] - neither["entries"] == 10 * 600


def test_sample__has_directions_of_the_kernels_that_are_tried():
    maps = [KernelFeatures(Gaussian(gamma=0.2), X[:r, :1], r) for r in (40, 30, 20)]
    none, some, every = (
        sample_step(10**4, maps, principal=few).work for few in ((), maps[:2], maps)
    )
    assert none["eigenvalues"] == 0 < some["eigenvalues"] < every["eigenvalues"]
    assert every["products"] - some["products"] == 1000 * 20**2
    assert some["exponentials"] == every["exponentials"]


def test_optimised_locations__take_about_the_exponentials_that_are_planned(made):
    x, y = (np.random.default_rng(m).standard_normal((1500, 3)) for m in (0, 1))
    asked = {"estimator": "nfsic", "kernels": "gaussian", "threads": 1}
    planned = step_of(dhsic.plan(x, y, **asked), "optimise locations")["exponentials"]
    made.clear()
    dhsic.independence_test(x, y, rng=0, **asked)
    # The steps of an optimiser depend on the data.
    assert 0.5 * planned < sum(made) < 2.0 * planned
