"""Ranking: every column as the single test has it, and CKA from its definition."""

import tracemalloc
from typing import get_args

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic._arguments import open_session
from dhsic._random import generator, random_signs
from dhsic.engine.plan import PassPlan
from dhsic.engine.session import Session
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError
from dhsic.estimators import VHSIC, NystromHSIC, NystromMHSIC
from dhsic.kernels import Combinations, Delta, Gaussian, Laplacian, OnColumns
from dhsic.nulls import Control
from dhsic.ranking.rank import open_columns
from tests import oracles
from tests.estimators.features import holds_one_state
from tests.estimators.levels import Check
from tests.ranking import oracles as ranking_oracles

NULLS = [
    dhsic.Multiplier(30),
    dhsic.Permutation(30, "all"),
    dhsic.Permutation(30, "groups", 64),
]


def make(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    return x, x[:, 0] ** 2 + 0.5 * rng.standard_normal(n)


def outcome(x, y, null, estimator, d=None, **options):
    """The statistics and replicates behind a ranking."""
    memory = options.get("memory", "2GiB")
    session = open_columns(x, y, 3, options.get("precision", "float64"), None, 2, memory)
    kernels = [OnColumns(Gaussian(), (j,)) for j in range(d or x.shape[1])]
    return estimator.test_features(session, Combinations.against(kernels, Gaussian()), null)


ESTIMATORS = [NystromMHSIC(), NystromMHSIC(40, "joint"), NystromHSIC(), dhsic.VHSIC()]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("null", NULLS, ids=repr)
def test_rank__is_the_single_test_of_every_column(estimator, null):
    x, y = make()
    found = outcome(x, y, null, estimator)
    ranking = dhsic.rank_features(x, y, null=null, estimator=estimator, rng=3)
    for c, feature in enumerate(ranking.features):
        single = dhsic.independence_test(
            x[:, c], y, kernels="gaussian", null=null, estimator=estimator, rng=3
        )
        assert feature.statistic == pytest.approx(single.statistic, rel=1e-9)
        assert feature.hsic == pytest.approx(single.estimate, rel=1e-7)
        assert feature.pvalue == single.pvalue
        assert feature.kernel == single.variables[0].kernel
        np.testing.assert_allclose(found.replicates[:, c], single.null_distribution, rtol=1e-9)
        if single.landmarks is not None:
            kept = single.landmarks.kept
            assert ranking.landmarks.kept[c] == (kept[0] if isinstance(kept, tuple) else kept)
    assert ranking.target_kernel == single.variables[1].kernel


def landmarks_of(x, y, p, seed):
    """What is drawn for either variable, by the keys of the draws."""
    rows = [generator(seed, "landmarks", m).choice(len(y), p, replace=False) for m in range(2)]
    return x[rows[0]], y[rows[1], None]


@pytest.mark.parametrize("resampling", ["multiplier", "permutation"])
def test_rank__is_the_naive_definition(resampling):
    x, y = make(60, 3)
    p, b, seed = 9, 12, 3
    null = dhsic.Multiplier(b) if resampling == "multiplier" else dhsic.Permutation(b, "all")
    kernels = [OnColumns(Gaussian(gamma=0.3 + c), (c,)) for c in range(3)]
    session = open_columns(x, y, seed, "float64", None, 1, "2GiB")
    combinations = Combinations.against(kernels, Gaussian(gamma=0.2))
    found = NystromMHSIC(p, tolerance=0.0).test_features(session, combinations, null)
    zx, zy = landmarks_of(x, y, p, seed)
    l_gram = oracles.gaussian_gram(zy, zy, 0.2)
    l_cross = oracles.gaussian_gram(zy, y[:, None], 0.2)
    signs = random_signs(seed, 0, 60, b)
    orders = oracles.orders_of_permutations(60, dhsic.Permutation(b, "all"), seed, [1])
    for c in range(3):
        k_gram = oracles.gaussian_gram(zx[:, [c]], zx[:, [c]], 0.3 + c)
        k_cross = oracles.gaussian_gram(zx[:, [c]], x[:, [c]], 0.3 + c)
        joint, crosses = k_gram * l_gram, [k_cross, l_cross]
        statistic = oracles.nystrom_statistic(joint, crosses)
        assert found.statistics[c] == pytest.approx(statistic, rel=1e-6)
        expected = (
            oracles.multiplier_replicates(joint, crosses, signs)
            if resampling == "multiplier"
            else oracles.permutation_replicates(joint, crosses, orders)
        )
        np.testing.assert_allclose(found.replicates[:, c], expected, rtol=1e-5)


def test_cka__is_the_naive_definition():
    x, y = make(50, 2)
    p, seed = 6, 1
    session = open_columns(x, y, seed, "float64", None, 1, "2GiB")
    kernels = [OnColumns(Gaussian(gamma=0.5), (c,)) for c in range(2)]
    combinations = Combinations.against(kernels, Gaussian(gamma=0.2))
    estimator = NystromMHSIC(p, "independent", tolerance=0.0)
    found = estimator.estimate_features(session, combinations)
    zx, zy = landmarks_of(x, y, p, seed)
    l_gram = oracles.gaussian_gram(zy, zy, 0.2)
    l_cross = oracles.gaussian_gram(zy, y[:, None], 0.2)
    for c in range(2):
        k_gram = oracles.gaussian_gram(zx[:, [c]], zx[:, [c]], 0.5)
        k_cross = oracles.gaussian_gram(zx[:, [c]], x[:, [c]], 0.5)
        hsic = oracles.nystrom_m_hsic([k_gram, l_gram], [k_cross, l_cross])
        own = ranking_oracles.own_nystrom_hsic(k_gram, k_cross)
        target = ranking_oracles.own_nystrom_hsic(l_gram, l_cross)
        assert found.hsic[c] == pytest.approx(hsic, rel=1e-5)
        assert found.own[c] == pytest.approx(own, rel=1e-5)
        assert found.target[c] == pytest.approx(target, rel=1e-5)
        assert found.cka()[c] == pytest.approx(hsic / np.sqrt(own * target), rel=1e-5)


def test_cka__of_v_hsic_is_that_of_centred_gram_matrices_less_that_of_replicates():
    x, y = make(80)
    ranking = dhsic.rank_features(
        x, y, estimator="v-hsic", feature_kernels=Gaussian(gamma=0.5),
        target_kernel=Gaussian(gamma=0.2), rng=0, n_resamples=9,
    )  # fmt: skip
    other = oracles.gaussian_gram(y[:, None], y[:, None], 0.2)
    for c, feature in enumerate(ranking.features):
        gram = oracles.gaussian_gram(x[:, [c]], x[:, [c]], 0.5)
        single = dhsic.independence_test(
            x[:, c], y, kernels=[Gaussian(gamma=0.5), Gaussian(gamma=0.2)], estimator="v-hsic",
            rng=0, n_resamples=9,
        )  # fmt: skip
        chance = single.null_distribution.mean() / 80
        norms = feature.hsic / ranking_oracles.cka(gram, other)
        expected = (feature.hsic - chance) / (norms - chance)
        assert feature.cka == pytest.approx(expected, rel=1e-8)


def test_cka__of_landmarks_comes_near_that_of_all_rows():
    x, y = make(500)
    options = {"rng": 0, "n_resamples": 9}
    exact = dhsic.rank_features(x, y, estimator="v-hsic", **options)
    for feature, whole in zip(
        dhsic.rank_features(x, y, **options).features, exact.features, strict=True
    ):
        assert feature.cka == pytest.approx(whole.cka, abs=0.02)


def test_cka__of_a_copy_is_1_and_takes_no_notice_of_units():
    x, y = make(300, 2)
    x[:, 1] = 1000 * y
    for estimator in ("v-hsic", "nystrom-m"):
        ranking = dhsic.rank_features(x, y, estimator=estimator, by="cka", rng=0, n_resamples=9)
        assert ranking.ranked()[0].name == "x[1]"
        assert ranking.features[1].cka == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("estimator", ["v-hsic", "nystrom-hsic", "nystrom-m"])
def test_cka__of_many_categories_is_not_that_of_chance(estimator):
    """150 categories of 300 rows: CKA not corrected is .05, above that of a weak dependence."""
    found, last = [], 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y, noise, weak = rng.standard_normal((3, 300))
        table = pd.DataFrame(
            {
                "weak": y + 3.0 * weak,
                "noise": noise,
                "tail": [f"N{number}" for number in rng.integers(0, 150, 300)],
                "few": [f"N{number}" for number in rng.integers(0, 3, 300)],
                "y": y,
            }
        )
        ranking = dhsic.rank_features(
            list(table)[:-1], "y", data=table, estimator=estimator, by="cka", rng=seed, threads=1
        )
        last += ranking.ranked()[0].name == "weak"
        found.append([feature.cka for feature in ranking.features])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / 3.0
    assert last >= 9
    assert mean[0] > 0.02
    assert (np.abs(mean) < 3.0 * error + 5e-4)[1:].all()


def test_estimates__are_those_of_hsic():
    x, y = make()
    session = open_session((x, y), None, 0, "float64", None, None, "2GiB", None)
    kernels = [OnColumns(Gaussian(), (j,)) for j in range(4)]
    for estimator in (NystromMHSIC(), dhsic.VHSIC()):
        found = estimator.estimate_features(session, Combinations.against(kernels, Gaussian()))
        singles = [dhsic.hsic(x[:, j], y, estimator=estimator, rng=0).estimate for j in range(4)]
        np.testing.assert_allclose(found.hsic, singles, rtol=1e-7)


def test_rank__finds_the_relevant_and_keeps_the_rest():
    x, y = make(400, 20)
    ranking = dhsic.rank_features(x, y, rng=0, n_resamples=399, estimator="nystrom-m")
    for control in ("bh", "holm", "bonferroni", "max-t"):
        assert ranking.rejected(0.06, control) == ("x[0]",)
    few = dhsic.rank_features(x, y, rng=0, n_resamples=39, estimator="nystrom-m")
    assert few.rejected(0.06, "holm") == ()  # 39 resamples cannot
    assert few.rejected(0.06, "max-t") == ("x[0]",)


@pytest.mark.parametrize("null", ["multiplier", "permutation"])
def test_rank__keeps_the_family_wise_level(null):
    """12 dependent columns that y is independent of: 100 families at 10 %."""
    rng = np.random.default_rng(77)

    def rejects(seed):
        x = rng.standard_normal((80, 1)) + 0.7 * rng.standard_normal((80, 12))
        y = rng.standard_normal(80)
        ranking = dhsic.rank_features(
            x, y, null=null, n_resamples=39, rng=seed, estimator=NystromMHSIC(12), threads=1
        )
        return len(ranking.rejected(0.1, "max-t")) > 0

    assert Check.of(100, 0.1, error=0.001).passes(map(rejects, range(100)))


def test_rank__keeps_the_false_discovery_rate():
    """3 of 12 columns matter: the mean share of false discoveries of 40 rankings at 20 %."""
    rng, shares = np.random.default_rng(6), []
    for seed in range(40):
        x = rng.standard_normal((120, 12))
        y = x[:, 0] + np.abs(x[:, 1]) + np.sin(3 * x[:, 2]) + 0.3 * rng.standard_normal(120)
        ranking = dhsic.rank_features(
            x,
            y,
            null="permutation",
            n_resamples=99,
            rng=seed,
            estimator=NystromMHSIC(20),
            threads=1,
        )
        found = ranking.rejected(0.2, "bh")
        shares.append(
            sum(name not in ("x[0]", "x[1]", "x[2]") for name in found) / max(1, len(found))
        )
        assert "x[0]" in found
    # A share is at most 1, so that the mean of 40 lies within 3 of their errors.
    assert np.mean(shares) <= 0.2 + 3 * np.std(shares) / np.sqrt(40)


@pytest.mark.parametrize("null", NULLS, ids=repr)
def test_rank__takes_features_in_parts_where_memory_is_short(null, no_libraries, monkeypatch):
    x, y = make(300, 7)
    whole = outcome(x, y, null, NystromMHSIC(30))
    session = open_columns(x, y, 3, "float64", None, 2, "2GiB")
    kernels = [OnColumns(Gaussian(), (j,)) for j in range(7)]
    combinations = Combinations.against(kernels, Gaussian())
    three = NystromMHSIC(30).plan(session, combinations.part(range(3)), null)
    memory = three.passes[-1].worker_bytes + 150_000
    short = open_columns(x, y, 3, "float64", None, 2, memory)
    plan = NystromMHSIC(30).plan(short, combinations, null)
    fewest = 2 if isinstance(null, dhsic.Multiplier) else 1  # of the means, and of replicates
    assert fewest < len(plan.passes) <= 8
    holds_one_state(monkeypatch)
    parted = outcome(x, y, null, NystromMHSIC(30), memory=memory)
    assert len(NystromMHSIC(30).plan(session, combinations, null).passes) == fewest
    np.testing.assert_allclose(parted.replicates, whole.replicates, rtol=1e-10)
    np.testing.assert_allclose(parted.estimates.cka(), whole.estimates.cka(), rtol=1e-10)


def test_rank__by_pairs_takes_features_in_parts_where_memory_is_short():
    x, y = make(700, 6)
    null = dhsic.Permutation(20, "all")
    session = open_columns(x, y, 3, "float64", None, 2, "2GiB")
    kernels = [OnColumns(Gaussian(), (j,)) for j in range(6)]
    combinations = Combinations.against(kernels, Gaussian())
    one = dhsic.VHSIC().plan(session, combinations.part([0, 1]), null)
    memory = one.peak_driver_bytes + 2**16
    short = open_columns(x, y, 3, "float64", None, 2, memory)
    plan = dhsic.VHSIC().plan(short, combinations, null)
    assert len(plan.steps) > len(one.steps)
    assert plan.check().peak_driver_bytes <= memory
    parted = outcome(x, y, null, dhsic.VHSIC(), memory=memory)
    whole = outcome(x, y, null, dhsic.VHSIC())
    np.testing.assert_allclose(parted.replicates, whole.replicates, rtol=1e-12)


def test_plan__holds_what_a_ranking_takes_of_its_replicates():
    x, y = make(40, 30)
    asked = {"n_resamples": 20_000, "threads": 1}
    plan = dhsic.plan_ranking(x, y, **asked)
    dhsic.rank_features(x, y, n_resamples=9, rng=0)  # imports are in the baseline
    tracemalloc.start()
    dhsic.rank_features(x, y, rng=0, **asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 5 * plan.kept_bytes < peak <= plan.peak_driver_bytes - plan.baseline_bytes


def test_rank__is_the_same_from_any_source(tmp_path):
    x, y = make()
    stored = zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(70, 2))
    given = [
        stored,
        da.from_array(x, chunks=(90, 4)),
        pd.DataFrame(x, columns=list("abcd")),
        np.asfortranarray(x),
    ]
    expected = dhsic.rank_features(x, y, rng=0)
    for data in given:
        found = dhsic.rank_features(data, y, rng=0)
        np.testing.assert_allclose(
            [f.statistic for f in found.features],
            [f.statistic for f in expected.features],
            rtol=1e-9,
        )
    assert [f.name for f in dhsic.rank_features(given[2], y, rng=0).features] == list("abcd")


def test_rank__float32_comes_near():
    x, y = make(500)
    single = dhsic.rank_features(x, y, rng=0, precision="float32", null="multiplier")
    double = dhsic.rank_features(x, y, rng=0, null="multiplier")
    assert single.precision == "float32"
    for a, b in zip(single.features, double.features, strict=True):
        assert a.hsic == pytest.approx(b.hsic, rel=0.02, abs=3e-5)


def test_groups__are_tested_as_the_variables_that_they_are():
    x, y = make()
    groups = {"pair": [0, 2], "one": np.array([3]), "three": range(1, 4)}
    options = {"estimator": "nystrom-m", "null": NULLS[0], "rng": 0}
    ranking = dhsic.rank_features(x, y, groups=groups, **options)
    assert [f.columns for f in ranking.features] == [(0, 2), (3,), (1, 2, 3)]
    for feature in ranking.features:
        single = dhsic.independence_test(x[:, feature.columns], y, kernels="gaussian", **options)
        assert feature.statistic == pytest.approx(single.statistic, rel=1e-9)
        assert feature.pvalue == single.pvalue


def test_groups__may_be_a_list_and_name_columns():
    x, y = make()
    named = dhsic.rank_features(
        x, y, names=list("abcd"), groups=[["a", "c"], ["d"]], rng=0, n_resamples=9
    )
    assert [(f.name, f.columns) for f in named.features] == [("group 1", (0, 2)), ("group 2", (3,))]


def test_plan__takes_groups_by_the_names_given():
    x, y = make()
    options = {"n_resamples": 9, "estimator": NystromMHSIC(30)}
    named = dhsic.plan_ranking(x, y, names=list("abcd"), groups=[["a", "c"], ["d"]], **options)
    assert named.steps == dhsic.plan_ranking(x, y, groups=[[0, 2], [3]], **options).steps
    with pytest.raises(InvalidArgumentError, match="names must be 4"):
        dhsic.plan_ranking(x, y, names=["a"], **options)


def test_kernels__are_one_a_feature():
    x, y = make(200, 3)
    x[:, 2] = np.round(x[:, 2])
    kernels = ["gaussian:0.5", Laplacian(), Delta()]
    options = {"estimator": "nystrom-m", "null": NULLS[0], "rng": 0}
    ranking = dhsic.rank_features(
        x, y, feature_kernels=kernels, target_kernel="laplacian", **options
    )
    for c, feature in enumerate(ranking.features):
        single = dhsic.independence_test(x[:, c], y, kernels=[kernels[c], "laplacian"], **options)
        assert feature.kernel == single.variables[0].kernel
        assert feature.statistic == pytest.approx(single.statistic, rel=1e-9)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("kernel", ["delta", "matern52", "gaussian + linear"])
def test_kernels__with_scratch_and_few_landmarks_a_feature(kernel, precision):
    """Codes keep few landmarks, so that the target's tile is made in many strips."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 4, (300, 3)).astype(float), rng.standard_normal((300, 2))
    y[:, 0] += x[:, 1]
    options = {"estimator": "nystrom-m", "null": NULLS[0], "rng": 0, "precision": precision}
    ranking = dhsic.rank_features(x, y, feature_kernels=kernel, target_kernel="matern32", **options)
    for c, feature in enumerate(ranking.features):
        single = dhsic.independence_test(x[:, c], y, kernels=[kernel, "matern32"], **options)
        near = 1e-9 if precision == "float64" else 1e-3
        assert feature.statistic == pytest.approx(single.statistic, rel=near)
    assert ranking.ranked()[0].name == "x[1]"


def test_by__ranks_by_what_was_asked():
    x, y = make()
    for by in ("hsic", "cka"):
        ranking = dhsic.rank_features(x, y, by=by, rng=0, n_resamples=9)
        values = [getattr(f, by) for f in ranking.ranked()]
        assert values == sorted(values, reverse=True)
    ranking = dhsic.rank_features(x, y, rng=0, n_resamples=9)
    keys = [(f.pvalue, -f.standardised) for f in ranking.ranked()]
    assert keys == sorted(keys)
    assert ranking.ranked("cka")[0].name == "x[0]"


def test_options__change_what_they_say():
    x, y = make()
    options = {"estimator": "nystrom-m"}
    base = dhsic.rank_features(x, y, rng=0, **options)
    assert base.n_resamples == 1199  # four orders of 300 rows, shifted, but for the data
    assert dhsic.rank_features(x, y, rng=0, n_resamples=20, **options).n_resamples == 19
    other = dhsic.rank_features(x, y, rng=1, **options)
    assert other.features[1].statistic != base.features[1].statistic
    assert base.null == "shifts"
    assert dhsic.rank_features(x, y, rng=0, null="multiplier").null == "multiplier"
    auto, default = (dhsic.rank_features(x, y, rng=0, **one) for one in ({"estimator": "auto"}, {}))
    assert auto.features == default.features
    assert auto.estimator == default.estimator == "v-hsic"
    assert "quick" in auto.estimator_reason
    named = dhsic.rank_features(x, y, rng=0, n_resamples=9, names=list("abcd"))
    assert named.ranked()[0].name == "a"


def test_rank__auto_is_exact_in_one_pass():
    x = np.random.default_rng(0).standard_normal((1500, 60))
    found = dhsic.rank_features(x, x[:, 0], rng=0, estimator=NystromMHSIC(60))
    assert found.null == "shifts"
    assert found.null_reason.startswith("exact for exchangeable rows; all 1,500 shifts")
    assert len(found.passes) == 1


def test_plan__says_passes_and_memory_and_runs_nothing(monkeypatch):
    monkeypatch.setattr("dhsic.engine.session.run_pass", lambda *_, **__: pytest.fail("it ran"))
    data = np.zeros((50_000, 300)), np.zeros(50_000)
    options = {"estimator": NystromMHSIC(300), "null": "multiplier", "threads": 2}
    plans = [dhsic.plan_ranking(*data, **options, memory=memory) for memory in ("1GiB", "4GiB")]
    assert len(plans[0].passes) > len(plans[1].passes) >= 2
    for plan in plans:
        assert plan.check() is plan
    with pytest.raises(MemoryBudgetError, match="features"):
        dhsic.plan_ranking(*data, **options, memory="310MiB").check()
    groups = dhsic.plan_ranking(*data, **options, groups=[range(150), range(150, 300)])
    assert groups.passes[1].bytes_to_driver < plans[1].passes[1].bytes_to_driver


def test_plan__of_many_columns_keeps_the_landmarks():
    """Landmarks of all columns together are drawn, and count, once."""
    x, y = np.broadcast_to(np.float32(0.0), (300, 1500)), np.zeros(300)
    options = {"estimator": "nystrom-m", "threads": 1}
    plans = [dhsic.plan_ranking(x[:, :d], y, **options) for d in (10, 1500)]
    assert plans[0].n_landmarks == plans[1].n_landmarks == 139
    assert len(plans[1].passes) <= 2


def test_progress__counts_every_row_of_every_pass():
    events = []
    x, y = make()
    options = {"estimator": "nystrom-m", "null": "multiplier"}
    dhsic.rank_features(x, y, rng=0, progress=events.append, **options)
    names = [type(event).__name__ for event in events]
    assert names[0] == "RunStarted"
    assert names.count("PassFinished") == 2
    assert sum(e.amount for e in events if type(e).__name__ == "BlockFinished") == 600


def test_client__gives_the_same(client):
    x, y = make(9000, 2)
    options = {"rng": 0, "estimator": NystromMHSIC(20), "n_resamples": 19}
    there, here = (dhsic.rank_features(x, y, client=c, **options) for c in (client, None))
    assert there.features == here.features


def test_checkpoint__is_gone_on_from(tmp_path):
    x, y = make(9000, 3)
    resumed = []

    def listen(event):
        resumed.append(getattr(event, "resumed", 0))

    options = {"rng": 0, "estimator": NystromMHSIC(40), "checkpoint": str(tmp_path / "kept")}
    first = dhsic.rank_features(x, y, **options)
    again = dhsic.rank_features(x, y, progress=listen, **options)
    assert max(resumed) == 9000
    assert first.features == again.features
    with pytest.raises(InvalidArgumentError, match="seed"):
        dhsic.rank_features(x, y, **options | {"rng": 1})


BAD = [
    ({"by": "size"}, "by must be one of"),
    ({"null": "gamma"}, "a ranking needs replicates that features share"),
    ({"null": dhsic.Spectral()}, "a ranking needs replicates that features share"),
    ({"estimator": "rff-hsic"}, "need estimator 'nystrom-m', 'nystrom-hsic', 'v-hsic' or 'auto'"),
    ({"estimator": "dcov"}, "need estimator 'nystrom-m'"),
    ({"estimator": NystromMHSIC(selection="leverage")}, "must be drawn uniformly"),
    ({"groups": {}}, "groups must be columns by the name"),
    ({"groups": {"a": []}}, "group 'a' must list different columns"),
    ({"groups": {"a": [4]}}, "numbers from 0 to 3"),
    ({"groups": {"a": [-1]}}, "numbers from 0 to 3"),
    ({"groups": {"a": [1, 1]}}, "group 'a' must list different columns"),
    ({"groups": [["x[9]"]]}, "group 'group 1' must list"),
    ({"groups": [0, 1]}, "group 'group 1' must list"),
    ({"groups": {1: [0]}}, "groups must be"),
    ({"names": ["a", "b"]}, "names must be 4 different words"),
    ({"names": ["a", "b", "c", "a"]}, "names must be 4 different words"),
    ({"names": "abcd"}, "names must be 4 different words"),
    ({"names": [["a"], "b", "c", "d"]}, "names must be 4 different words"),
    ({"names": 4}, "names must be 4 different words"),
    ({"groups": {"g": "ab"}, "names": list("abcd")}, "group 'g' must list different columns"),
    ({"groups": ["ab"], "names": list("abcd")}, "group 'group 1' must list different columns"),
    ({"feature_kernels": ["gaussian"]}, "feature_kernels must be one, or one for each of 4"),
    ({"feature_kernels": "gausian"}, "did you mean 'gaussian'"),
    ({"target_kernel": 3}, "kernels must be names or Kernel values"),
    ({"n_resamples": 0}, "n_resamples must be an integer >= 1"),
    ({"rng": -1}, "rng must be an integer"),
]


@pytest.mark.parametrize(("options", "words"), BAD, ids=lambda x: str(x)[:40])
def test_rank__refuses_what_it_cannot_use(options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        dhsic.rank_features(*make(), **options)


@pytest.mark.parametrize("estimator", [NystromMHSIC(30), VHSIC()], ids=lambda e: e.name)
def test_rank__marks_constant_features_and_ranks_the_others_as_without_them(estimator):
    x, y = make()
    still = np.insert(x, [0, 2], 7.0, axis=1)  # columns 0 and 3
    options = {"rng": 0, "n_resamples": 39, "estimator": estimator}
    names = ["c0", "x0", "x1", "c1", "x2", "x3"]
    found = dhsic.rank_features(still, y, names=names, **options)
    groups = {"x0": [1], "x1": [2], "x2": [4], "x3": [5]}
    without = dhsic.rank_features(still, y, groups=groups, **options)
    assert [f.name for f in found.features] == names
    assert tuple(f for f in found.features if not f.constant) == without.features
    constant = [f for f in found.features if f.constant]
    assert [f.name for f in constant] == ["c0", "c1"]
    for f in constant:
        assert (f.statistic, f.hsic, f.cka) == (0.0, 0.0, 0.0)
        assert {f.pvalue, *(f.adjusted(c) for c in get_args(Control))} == {1.0}
    assert {f.name for f in found.ranked("cka")[-2:]} == {"c0", "c1"}
    assert "6, 2 of them constant" in str(found)
    assert "c0 (constant)" in str(found)
    assert dhsic.ColumnRanking.from_json(found.to_json()) == found


def test_rank__takes_groups_with_constant_columns_and_marks_those_of_no_other():
    x, y = make()
    x[:, [1, 2]] = -3.0
    groups = {"mixed": [0, 1], "still": [1, 2]}
    mixed, still = dhsic.rank_features(x, y, groups=groups, rng=0, n_resamples=19).features
    assert (mixed.constant, still.constant) == (False, True)
    assert mixed.pvalue < 1.0
    with pytest.raises(DataError, match="needs a feature that varies, and all 1 of 'x'"):
        dhsic.rank_features(x, y, groups={"still": [1, 2]}, rng=0)


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_rank__tests_a_flag_too_rare_for_the_rows_that_set_bandwidths(scale):
    n = 60_000
    rng = np.random.default_rng(5)
    flag = np.zeros(n)
    flag[rng.choice(n, 8, replace=False)] = 1.0
    y = rng.standard_normal(n) + 40.0 * flag
    x = np.column_stack([scale * flag, rng.standard_normal(n)])
    found, _ = dhsic.rank_features(
        x, y, rng=0, estimator=NystromMHSIC(20), null="multiplier", n_resamples=39
    ).features
    assert not found.constant
    assert float(found.kernel.removeprefix("gaussian:")) == pytest.approx(scale**-2)
    assert found.pvalue == 1 / 40


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("estimator", [NystromMHSIC(20), NystromHSIC(10), VHSIC()], ids=str)
def test_rank__tests_rare_columns_beside_others_as_by_themselves(estimator):
    n = 3000
    rng = np.random.default_rng(5)
    x = np.zeros((n, 5))
    x[-3:, 0], x[-2:, 1], x[:, 2], x[:, 4] = [1.0, 2.0, 4.0], 1.0, rng.standard_normal(n), 7.0
    y = x[:, 2] + rng.standard_normal(n)
    groups = {"a": [0], "b": [1], "both": [0, 1], "mixed": [1, 2], "constant": [3, 4], "d": [4]}
    options = {"rng": 1, "estimator": estimator, "null": "multiplier", "n_resamples": 19}
    found = dhsic.rank_features(x, y, groups=groups, **options)
    assert [done.name for done in found.passes].count("scan") == 1
    assert [f.constant for f in found.features] == [False] * 4 + [True] * 2
    for feature in found.features[:4]:
        assert np.isfinite([feature.statistic, feature.hsic, feature.cka]).all()
        assert 0.0 < feature.pvalue <= 1.0
    alone = dhsic.rank_features(x, y, groups={"both": [0, 1]}, **options).features[0]
    assert alone.kernel == found.features[2].kernel
    assert alone.statistic == pytest.approx(found.features[2].statistic, rel=1e-6)
    kernels = [float(f.kernel.removeprefix("gaussian:")) for f in found.features[:2]]
    assert kernels[1] == 1.0
    assert 4.0**-2 < kernels[0] < 1.0


def test_rank__takes_a_rare_target():
    n = 3000
    x = np.random.default_rng(5).standard_normal((n, 2))
    y = np.zeros(n)
    y[-4:] = 1.0
    x[-4:, 1] += 30.0
    still, moved = dhsic.rank_features(x, y, rng=1, estimator=NystromHSIC(20)).features
    assert moved.pvalue < 0.05 < still.pvalue


def test_rank__reads_constants_in_no_more_rows_than_it_must(monkeypatch):
    x, y = make()
    monkeypatch.setattr(Session, "_scan", lambda *_: pytest.fail("all rows were looked at"))
    dhsic.rank_features(x, y, rng=0, n_resamples=9)


def test_rank__refuses_a_constant_target_and_missing_values():
    x, y = make()
    with pytest.raises(DataError, match="variable 'y' is constant"):
        dhsic.rank_features(x, np.ones(300), rng=0)
    x[17, 3] = np.nan
    with pytest.raises(DataError, match="variable 'x' has NaN or infinity, first in row 17"):
        dhsic.rank_features(x, y, rng=0)


def test_rank__refuses_numbers_for_categories():
    x, _ = make()
    labels = pd.Series(list("ab") * 150, dtype="category")
    with pytest.raises(InvalidArgumentError, match="target 'y' holds categories, which kernel"):
        dhsic.rank_features(x, labels, target_kernel="gaussian", rng=0)
    asked = dhsic.rank_features(x, labels, target_kernel="delta", rng=0, n_resamples=19)
    found = dhsic.rank_features(x, labels, rng=0, n_resamples=19)
    assert found.target_kernel == asked.target_kernel == "delta"
    assert [f.pvalue for f in found.features] == [f.pvalue for f in asked.features]


@pytest.mark.parametrize("estimator", ["nystrom-m", "nystrom-hsic", "v-hsic", "auto"])
def test_rank__takes_columns_of_labels_beside_numbers(estimator):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "carrier": rng.choice(["AA", "DL", "UA"], 300),
            "distance": rng.standard_normal(300),
            "late": rng.random(300) < 0.5,
        }
    )
    delay = pd.Series(2.0 * (frame["carrier"] == "UA") + rng.standard_normal(300), name="delay")
    options = {"estimator": estimator, "rng": 0, "n_resamples": 99}
    found = dhsic.rank_features(frame, delay, **options)
    assert [f.name for f in found.features] == ["carrier", "distance", "late"]
    assert [f.kernel.split(":")[0] for f in found.features] == ["delta", "gaussian", "delta"]
    assert found.target == "delay"
    assert found.rejected(0.05, control="holm") == ("carrier",)
    groups = {"both": ["carrier", "distance"], "late": ["late"]}
    both, _ = dhsic.rank_features(frame, delay, groups=groups, **options).features
    assert both.kernel.startswith("gaussian:")
    assert both.kernel.endswith("@1*delta@0")
    assert both.pvalue < 0.05


def test_rank__by_sensitivity_is_the_map_of_all_columns_together():
    x, y = make(n=400, d=5)
    for estimator in (NystromMHSIC(50), VHSIC()):
        options = {"estimator": estimator, "rng": 2}
        found = dhsic.rank_features(x, y, by="sensitivity", n_resamples=19, **options)
        joint = dhsic.sensitivity_map(x, y, names=["x", "y"], kernels="gaussian", **options)
        sizes = [f.sensitivity for f in found.features]
        np.testing.assert_allclose(sizes, joint.features["x"], rtol=1e-9)
        order = [f.sensitivity for f in found.ranked()]
        assert order == sorted(sizes, reverse=True)
        plain = dhsic.rank_features(x, y, n_resamples=19, **options)
        assert [f.pvalue for f in plain.features] == [f.pvalue for f in found.features]
        assert {f.sensitivity for f in plain.features} == {None}
        with pytest.raises(InvalidArgumentError, match="rank the features with by='sensitivity'"):
            plain.ranked("sensitivity")
        assert dhsic.ColumnRanking.from_json(found.to_json()) == found
        assert "ranked by sensitivity, exploratory" in str(found)


def test_rank__by_sensitivity_sees_what_columns_tell_together():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 4))
    y = np.sign(x[:, 1] * x[:, 2]) * np.abs(rng.standard_normal(600))
    found = dhsic.rank_features(x, y, by="sensitivity", rng=0)
    assert {f.name for f in found.ranked()[:2]} == {"x[1]", "x[2]"}
    assert found.rejected(0.01, "holm") == ()


def test_rank__by_sensitivity_sums_over_groups_and_uses_the_kernels_given():
    x, y = make()
    x[:, 3] = 1.0
    kernels = {"feature_kernels": "gaussian:0.3", "target_kernel": "laplacian"}
    options = {"rng": 0, "by": "sensitivity", "n_resamples": 9, **kernels}
    a, b, c = (f.sensitivity for f in dhsic.rank_features(x[:, :3], y, **options).features)
    groups = {"both": [0, 2], "one": [1], "still": [3]}
    found = dhsic.rank_features(x, y, groups=groups, **options).features
    sizes = [f.sensitivity for f in found]
    np.testing.assert_allclose(sizes, [a + c, b, 0.0], rtol=1e-9, atol=1e-12)
    chosen = {"kernels": ["gaussian:0.3", "laplacian"], "estimator": "v-hsic"}
    joint = dhsic.sensitivity_map(x, y, rng=0, **chosen)  # as "auto" takes of few rows
    assert sum(sizes) == pytest.approx(joint.features["x1"].sum(), rel=1e-9)


@pytest.mark.parametrize(
    ("kernels", "words"),
    [("delta", "must have a differentiable kernel"), (["gaussian"] * 4, "must be one kernel")],
)
def test_rank__by_sensitivity_refuses_kernels_it_cannot_differentiate(kernels, words):
    with pytest.raises(InvalidArgumentError, match=words):
        dhsic.rank_features(*make(), by="sensitivity", feature_kernels=kernels, rng=0)


def test_plan__by_sensitivity_has_the_passes_that_run():
    x, y = make()
    options = {"estimator": NystromMHSIC(30), "null": "multiplier", "by": "sensitivity"}
    planned = dhsic.plan_ranking(x, y, **options)
    done = dhsic.rank_features(x, y, rng=0, **options)
    names = [step.name for step in planned.steps if isinstance(step, PassPlan)]
    assert names == [one.name for one in done.passes]
    assert names[-1] == "sensitivities"


def test_checkpoint__of_a_ranking_by_sensitivity_is_gone_on_from(tmp_path):
    x, y = make(600, 3)
    resumed = []
    options = {"rng": 0, "estimator": NystromMHSIC(20), "checkpoint": str(tmp_path / "kept")}
    first = dhsic.rank_features(x, y, by="sensitivity", **options)
    again = dhsic.rank_features(
        x, y, by="sensitivity", progress=lambda e: resumed.append(getattr(e, "resumed", 0)),
        **options,
    )  # fmt: skip
    assert first.features == again.features
    assert resumed.count(600) == len(again.passes)
    with pytest.raises(InvalidArgumentError, match="another"):
        dhsic.rank_features(x, y, **options)
