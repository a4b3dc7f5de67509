"""Rows with gaps that stay: their features are mean embeddings."""

from functools import partial

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from zarr.storage import LocalStore

import dhsic
from dhsic.engine.gaps import filled
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.estimators.base import bandwidth_rows
from dhsic.io.sources import ArraySource
from dhsic.kernels import Delta, Distance, Gaussian, Laplacian, OnColumns, Polynomial, parse
from dhsic.kernels.missing import WithMissing
from dhsic.landmarks import uniform_rows
from tests import oracles
from tests.engine.toys import CountingStore
from tests.estimators.levels import Check

GAMMA = 0.7
PAIRWISE = {"missing": "pairwise"}
KERNELS = [
    Gaussian(),
    Laplacian(),
    Distance(),
    Polynomial(degree=2),
    Delta(),
    parse("ranks(anderson-darling)"),
    parse("scores(gaussian)"),
    parse("columns(laplacian)"),
    Gaussian() + Laplacian(),
    OnColumns(Gaussian(), (0,)) * OnColumns(Delta(), (1,)),
]
ESTIMATORS = ["v-hsic", "u-hsic", dhsic.NystromMHSIC(40), dhsic.NystromHSIC(30)]


def with_gaps(rng, x, share=0.3):
    """Numbers that float32 holds, some of which are equal and some miss."""
    x = np.round(8.0 * x) / 8.0
    x[rng.random(x.shape) < share] = np.nan
    return x


def pair(seed=0, n=200, effect=1.0, share=0.3):
    rng = np.random.default_rng([seed, n])
    x, noise = rng.standard_normal((2, n))
    return with_gaps(rng, x, share), with_gaps(rng, effect * x**2 + 0.5 * noise, share)


def present(x):
    x = x.reshape(len(x), -1)
    return x[~np.isnan(x).any(axis=1)]


def gram_of(x, z=None):
    """The Gaussian Gram matrix of rows with gaps; of few rows all are those of the mean."""
    x, z = (a.reshape(len(a), -1) for a in (x, x if z is None else z))
    gaussian = partial(oracles.gaussian_gram, gamma=GAMMA)
    return oracles.gram_with_gaps(gaussian, x, z, present(x)[:256])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.spec())
def test_kernel__is_that_of_mean_embeddings(kernel, dtype):
    rng = np.random.default_rng(0)
    x = with_gaps(rng, rng.standard_normal((400, 2)), 0.2)
    fitted = WithMissing(kernel).fit(x)
    inner = kernel.fit(present(x))
    expected = oracles.gram_with_gaps(inner, x, x, present(x)[:256])
    largest = np.abs(expected).max()
    np.testing.assert_allclose(fitted(x), expected, rtol=0, atol=1e-12 * largest)
    for rows, columns in (
        (fitted.rows(x, dtype), fitted.columns(x, dtype)),
        fitted.rows_and_columns(x, dtype),
    ):
        assert rows.shape[1] == fitted.width(2)
        tile = np.empty((len(x), len(x)), dtype)
        fitted.tile(rows, columns, tile, np.empty((fitted.work_tiles, *tile.shape), dtype))
        error = 1e-12 if dtype is np.float64 else 2e-5
        np.testing.assert_allclose(tile, expected, rtol=0, atol=error * largest)
    assert (fitted.spec(), fitted.has_length) == (inner.spec(), inner.has_length)
    values = np.linalg.eigvalsh(expected)
    # A distance is conditionally so, about its origin it is positive definite as all others.
    assert values[0] >= -1e-10 * values[-1]


def asked(estimator, **options):
    return {"estimator": estimator, "kernels": Gaussian(gamma=GAMMA), "rng": 5, **options}


@pytest.mark.parametrize("n", [30, 40])
def test_v_and_u_hsic__equal_their_definitions(n):
    x, y = pair(n=n)
    grams = [gram_of(x), gram_of(y)]
    found = dhsic.independence_test(x, y, **asked("v-hsic"), **PAIRWISE)
    assert found.statistic / n == pytest.approx(oracles.v_hsic(grams), rel=1e-10)
    found = dhsic.hsic(x, y, **asked("u-hsic"), **PAIRWISE)
    assert found.estimate == pytest.approx(oracles.u_hsic(*grams), rel=1e-9)
    assert found.missing == (np.isnan(x).sum(), np.isnan(y).sum())


def test_v_hsic__of_few_rows_is_that_of_complete_pairs_about_the_means_of_all():
    """A missing row, whose feature is the mean of all that are there, is 0 when it is centred."""
    x, y = pair(n=200)
    n, both = len(x), ~(np.isnan(x) | np.isnan(y))
    centred = []
    for values in (x, y):
        of_all = oracles.gaussian_gram(values[both, None], present(values), GAMMA).mean(axis=1)
        among = oracles.gaussian_gram(present(values), present(values), GAMMA).mean()
        gram = oracles.gaussian_gram(values[both, None], values[both, None], GAMMA)
        centred.append(gram - of_all[:, None] - of_all + among)
    found = dhsic.hsic(x, y, **asked("v-hsic"), **PAIRWISE)
    about_pairs = np.sum(centred[0] * centred[1]) / n**2
    assert found.estimate == pytest.approx(about_pairs, rel=1e-9)


def test_nystrom_m__equals_its_definition():
    n, p, seed = 120, 12, 5
    rng = np.random.default_rng(0)
    data = [with_gaps(rng, rng.standard_normal((n, 2)), 0.2) for _ in range(3)]
    estimator = dhsic.NystromMHSIC(n_landmarks=p, tolerance=0.0, pairing="independent")
    found = dhsic.hsic(*data, **asked(estimator), **PAIRWISE)
    drawn = uniform_rows(seed, n, p, 3, pairing="independent", replace=False)
    sampled = bandwidth_rows(session_of(data, seed))
    points = [filled(x[np.append(z, s)])[:p] for x, z, s in zip(data, drawn, sampled, strict=True)]
    grams = [oracles.gaussian_gram(z, z, GAMMA) for z in points]
    crosses = [gram_of(x, z).T for x, z in zip(data, points, strict=True)]
    assert found.estimate == pytest.approx(oracles.nystrom_m_hsic(grams, crosses), rel=1e-8)


def session_of(data, seed):
    runtime = dhsic.engine.runtime.Runtime.here(1, 2**30)
    sources = [ArraySource(f"x{m}", x) for m, x in enumerate(data)]
    return dhsic.engine.session.Session(sources, runtime, seed)


def test_nystrom_hsic__is_v_hsic_where_its_landmarks_span_all_rows():
    x, y = pair(n=150)
    estimator = dhsic.NystromHSIC(150, unbiased_estimate=False, tolerance=1e-13)
    found = dhsic.hsic(x, y, **asked(estimator), **PAIRWISE)
    assert found.estimate == pytest.approx(oracles.v_hsic([gram_of(x), gram_of(y)]), rel=1e-6)


def test_filled__takes_values_of_the_last_rows_of_the_column():
    rows = np.array([[np.nan, 1.0], [2.0, np.nan], [3.0, 4.0], [np.nan, np.nan]])
    assert filled(rows).tolist() == [[3.0, 1.0], [2.0, 4.0], [3.0, 4.0], [2.0, 1.0]]
    assert filled(rows[1:3, :1]) is not rows
    whole = np.ones((3, 2))
    assert filled(whole) is whole


def told(result):
    record = result.to_dict()
    return {key: value for key, value in record.items() if key not in ("seconds", "passes")}


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "auto"], ids=repr)
def test_pairwise__is_refuse_where_nothing_is_missing(estimator):
    x, y = pair(share=0.0)
    given = {"estimator": estimator, "rng": 0, "threads": 1}
    usual, same = (
        told(dhsic.independence_test(x, y, **given, missing=missing))
        for missing in ("refuse", "pairwise")
    )
    assert usual == same
    features = np.column_stack([x, x**2])
    assert told(dhsic.rank_features(features, y, rng=0)) == told(
        dhsic.rank_features(features, y, rng=0, **PAIRWISE)
    )


def pvalue(estimator, seed, effect=0.0, n=120):
    x, y = pair(seed, n, effect)
    return dhsic.independence_test(
        x, y, estimator=estimator, rng=seed, threads=1, **PAIRWISE
    ).pvalue


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "auto"], ids=repr)
def test_level__is_kept(estimator):
    check = Check.of(150, 0.05)
    assert check.passes(pvalue(estimator, seed) <= 0.05 for seed in range(check.runs))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_level__is_kept_where_values_decide_on_their_own_gaps(estimator):
    """Large values miss, and so do those of the other variable: both are of one variable each."""

    def rejects(seed):
        rng = np.random.default_rng([seed, 9])
        x, y = (np.where(a > 0.4, np.nan, a) for a in rng.standard_normal((2, 100)))
        given = {"estimator": estimator, "rng": seed, "threads": 1, "kernels": "gaussian"}
        return dhsic.independence_test(x, y, **given, **PAIRWISE).pvalue <= 0.05

    check = Check.of(120, 0.05)
    assert check.passes(rejects(seed) for seed in range(check.runs))


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "auto"], ids=repr)
def test_power__finds_what_both_variables_have(estimator):
    assert sum(pvalue(estimator, seed, 1.0, 250) <= 0.05 for seed in range(20)) >= 18


def many(seed=0, n=600, d=20, share=0.15):
    rng = np.random.default_rng([seed, 4])
    x = rng.standard_normal((n, d))
    y = x[:, d // 2] ** 2 + 1.2 * rng.standard_normal(n)
    x[rng.random(x.shape) < share] = np.nan
    return x, y


@pytest.mark.parametrize("estimator", ["nystrom-m", "nystrom-hsic", "v-hsic"])
def test_rank__finds_a_feature_where_drop_has_few_rows(estimator):
    found = {"pairwise": 0, "drop": 0}
    for seed in range(6):
        x, y = many(seed)
        for missing in found:
            ranking = dhsic.rank_features(x, y, estimator=estimator, rng=seed, missing=missing)
            found[missing] += ranking.rejected(0.05, control="max-t") == ("x[10]",)
            assert (ranking.n, ranking.dropped) == (600, 0) or ranking.n < 50
    assert found["pairwise"] >= 5
    assert found["drop"] <= 3


def test_rank__tells_what_is_missing():
    x, y = many(n=300)
    found = dhsic.rank_features(x, y, rng=0, **PAIRWISE)
    assert found.missing == (*np.isnan(x).sum(axis=0).tolist(), 0)
    assert f"300, pairwise, with up to {max(found.missing)} missing" in str(found)
    assert dhsic.ColumnRanking.from_json(found.to_json()).missing == found.missing


@pytest.mark.parametrize("estimator", [dhsic.NystromMHSIC(40), dhsic.VHSIC()], ids=repr)
def test_rank__is_the_single_test_of_every_feature(estimator):
    x, y = many(n=200, d=3, share=0.3)
    found = dhsic.rank_features(x, y, estimator=estimator, rng=3, **PAIRWISE)
    for column, feature in zip(x.T, found.features, strict=True):
        given = {"kernels": "gaussian", "null": "shifts", "estimator": estimator, "rng": 3}
        single = dhsic.independence_test(column, y, **given, **PAIRWISE)
        assert feature.statistic == pytest.approx(single.statistic, rel=1e-9)
        assert feature.pvalue == single.pvalue


def test_rank__a_group_misses_where_any_of_its_columns_does():
    x, y = many(n=150, d=3, share=0.2)
    given = {"estimator": "v-hsic", "feature_kernels": Gaussian(gamma=GAMMA), "rng": 0}
    given |= {"target_kernel": Gaussian(gamma=GAMMA), "groups": {"a": [0, 2], "b": [1]}}
    found = dhsic.rank_features(x, y, **given, **PAIRWISE)
    expected = oracles.v_hsic([gram_of(x[:, [0, 2]]), gram_of(y)])
    assert found.features[0].hsic == pytest.approx(expected, rel=1e-9)
    assert found.missing == (np.isnan(x[:, [0, 2]]).sum(), np.isnan(x[:, 1]).sum(), 0)


def test_rank__tells_constants_with_gaps():
    x, y = many(n=200, d=3)
    x[:, 1] = np.where(np.isnan(x[:, 1]), np.nan, 4.0)
    found = dhsic.rank_features(x, y, rng=0, **PAIRWISE)
    assert [feature.constant for feature in found.features] == [False, True, False]


@pytest.mark.parametrize("method", ["forward", "backward"])
def test_select__finds_a_feature(method):
    x, y = many(n=500, d=4)
    found = dhsic.select_features(x, y, 1, method=method, rng=0, **PAIRWISE)
    assert found.names == ("x[2]",)
    assert found.missing == (*np.isnan(x).sum(axis=0).tolist(), 0)


@pytest.mark.parametrize("null", ["shifts", "spectral"])
def test_matrix__has_the_hsic_of_every_pair(null):
    rng = np.random.default_rng(0)
    x, y, z = with_gaps(rng, rng.standard_normal((3, 150)), 0.25)
    y = np.where(np.isnan(y), np.nan, np.abs(x) + 0.2 * y)
    given = {"kernels": Gaussian(gamma=GAMMA), "n_landmarks": 150, "null": null}
    found = dhsic.dependence_matrix(x, y, z, rng=0, **given, **PAIRWISE)
    grams = list(map(gram_of, (x, y, z)))
    for i in range(3):
        for j in range(3):
            expected = oracles.v_hsic([grams[i], grams[j]])
            assert found.hsic[i, j] == pytest.approx(expected, rel=1e-4)
    assert found.missing == tuple(np.isnan([x, y, z]).sum(axis=1))
    assert found.pvalues[0, 1] < 0.01


def test_categories_booleans_and_numbers__may_miss():
    rng = np.random.default_rng(0)
    code = rng.integers(3, size=300)
    frame = pd.DataFrame(
        {
            "site": pd.Series(np.array(["a", "b", "c"])[code]).where(rng.random(300) > 0.2),
            "flag": pd.Series(code > 1).astype("boolean").mask(rng.random(300) < 0.2),
            "y": np.where(rng.random(300) < 0.2, np.nan, code + rng.standard_normal(300)),
            "other": rng.standard_normal(300),
        }
    )
    for columns in ("site", "flag", ["site", "other"]):
        found = dhsic.independence_test(columns, "y", data=frame, rng=0, **PAIRWISE)
        assert found.pvalue < 0.01
        assert found.n == 300
        assert found.missing[0] == frame[np.atleast_1d(columns)].isna().any(axis=1).sum()


@pytest.mark.parametrize("estimator", ["v-hsic", dhsic.NystromMHSIC(40)], ids=repr)
def test_result__is_the_same_of_dask_zarr_and_arrays(estimator, tmp_path):
    x, y = pair(n=300)
    given = {"estimator": estimator, "kernels": "gaussian", "rng": 0, "threads": 1, **PAIRWISE}
    held = dhsic.independence_test(x, y, **given)
    stored = zarr.create_array(str(tmp_path / "x.zarr"), data=x[:, None], chunks=(64, 1))
    for other in (stored, da.from_array(x, chunks=70)):
        found = dhsic.independence_test(other, y, **given)
        assert found.statistic == pytest.approx(held.statistic, rel=1e-10)
        assert (found.pvalue, found.missing) == (held.pvalue, held.missing)
    single = dhsic.independence_test(x, y, **{**given, "precision": "float32"})
    assert single.statistic == pytest.approx(held.statistic, rel=1e-3)


def test_features__share_the_reads(tmp_path):
    """Every chunk is read as often for twenty features as for one, whatever the gaps."""
    x, y = many(n=512)
    zarr.create_array(str(tmp_path / "x.zarr"), data=x, chunks=(64, 20))

    def most_reads(d, missing):
        store = CountingStore(LocalStore(tmp_path / "x.zarr", read_only=True))
        features = dhsic.stored_array(zarr.open_array(store, mode="r"))
        given = {"groups": [[j] for j in range(d)], "estimator": "nystrom-m", "threads": 1}
        dhsic.rank_features(features, y, rng=0, missing=missing, **given)
        return max(store.reads.values()), len(store.reads)

    assert most_reads(20, "pairwise") == most_reads(1, "pairwise")
    # One read counts the gaps, as one finds those that are to be dropped.
    assert most_reads(20, "pairwise") == most_reads(20, "drop")


def test_constant__with_gaps_has_no_dependence():
    x, constant = np.arange(20.0), np.where(np.arange(20) < 15, np.nan, 3.0)
    for kernels in ("linear", "gaussian"):
        found = dhsic.hsic(x, constant, kernels=kernels, estimator="v-hsic", rng=0, **PAIRWISE)
        assert found.estimate == pytest.approx(0.0, abs=1e-12)


def test_strata__go_with_gaps():
    rng = np.random.default_rng(0)
    strata = rng.integers(4, size=300)
    x = with_gaps(rng, rng.standard_normal(300))
    y = with_gaps(rng, np.nan_to_num(x) ** 2 + 0.3 * rng.standard_normal(300) + strata)
    found = dhsic.independence_test(x, y, strata=strata, rng=0, **PAIRWISE)
    assert found.pvalue < 0.01
    assert found.missing == (np.isnan(x).sum(), np.isnan(y).sum())


def test_checkpoint__tells_pairwise_from_filled_rows(tmp_path):
    x, y = pair()
    given = {"estimator": "v-hsic", "rng": 0, "checkpoint": str(tmp_path / "c")}
    first = dhsic.independence_test(x, y, **given, **PAIRWISE)
    again = dhsic.independence_test(x, y, **given, **PAIRWISE)
    assert again.pvalue == first.pvalue
    with pytest.raises(InvalidArgumentError, match="another run"):
        dhsic.independence_test(np.nan_to_num(x), y, **given, **PAIRWISE)


def test_plan__fits_the_run():
    x, y = many()
    plan = dhsic.plan_ranking(x, y, **PAIRWISE)
    usual = dhsic.plan_ranking(np.nan_to_num(x), y)
    # The mean kernel and the mark of missing rows are two more columns of what is prepared.
    assert usual.peak_bytes < plan.peak_bytes < 1.2 * usual.peak_bytes


X, Y = pair()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: dhsic.interaction_test(X, Y, X, **PAIRWISE), "is for independence_test, hsic"),
        (lambda: dhsic.sensitivity_map(X, Y, **PAIRWISE), "take 'drop', or fill the gaps"),
        (lambda: dhsic.two_sample_test(X, Y, **PAIRWISE), "is for independence_test"),
        (lambda: dhsic.conditional_independence_test(X, Y, given=X, **PAIRWISE), "is for"),
        (lambda: dhsic.causal.direction(X, Y, **PAIRWISE), "is for independence_test"),
        (lambda: dhsic.independence_test(X, Y, estimator="rff-hsic", **PAIRWISE), "'rff-hsic'"),
        (lambda: dhsic.independence_test(X, Y, weights=np.ones(200), **PAIRWISE), "weights go"),
        (lambda: dhsic.select_features(X, Y, 1, method="lasso", **PAIRWISE), "got 'lasso'"),
        (lambda: dhsic.select_features(X, Y, 1, method="linear", **PAIRWISE), "got 'linear'"),
        (lambda: dhsic.rank_features(X, Y, by="sensitivity", **PAIRWISE), "by='sensitivity'"),
        (lambda: dhsic.rank_features(X, Y, missing="pairs"), "'refuse', 'drop', 'pairwise'"),
    ],
)
def test_pairwise__is_refused_where_it_has_no_place(call, said):
    with pytest.raises(InvalidArgumentError, match=said):
        call()


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (np.where(np.arange(200) == 7, np.inf, X), "'x1' has infinity, first in row 7"),
        (np.column_stack([X, np.full(200, np.nan)]), "'x1' has no value in column 1"),
        (
            np.where(np.eye(2)[np.arange(200) % 2] > 0.0, np.arange(200.0)[:, None], np.nan),
            "none of 200",
        ),
    ],
)
def test_data_without_complete_rows__are_refused(x, said):
    with pytest.raises(DataError, match=said):
        dhsic.independence_test(x, Y, rng=0, **PAIRWISE)
