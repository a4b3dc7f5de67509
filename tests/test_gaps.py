"""Rows with gaps that stay: their features are mean embeddings.

What is refused, and that nothing changes without gaps, is in `tests/test_missing.py`.
"""

from functools import partial

import numpy as np
import pandas as pd
import pytest

import dhsic
from dhsic.errors import DataError
from dhsic.kernels import Gaussian, parse
from tests import oracles
from tests.estimators.levels import Check

GAMMA = 0.7
PAIRWISE = {"missing": "pairwise"}
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


def gram_of(x, gram=None):
    """The Gram matrix of rows with gaps; of few rows all are those of the mean."""
    x = x.reshape(len(x), -1)
    gram = gram or partial(oracles.gaussian_gram, gamma=GAMMA)
    return oracles.gram_with_gaps(gram, x, x, present(x)[:256])


def asked(estimator, **options):
    return {"estimator": estimator, "kernels": Gaussian(gamma=GAMMA), "rng": 5, **options}


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    "kernel",
    [
        *("gaussian", "laplacian", "distance", "polynomial:2", "delta", "gaussian+laplacian"),
        *("ranks(anderson-darling)", "scores(gaussian)", "columns(laplacian)"),
        "gaussian@0*delta@1",
    ],
)
def test_v_hsic__of_every_kernel_is_that_of_mean_embeddings(kernel, precision):
    rng = np.random.default_rng(0)
    x, y = with_gaps(rng, rng.standard_normal((40, 2)), 0.2), with_gaps(rng, np.arange(40.0))
    grams = [gram_of(x, parse(kernel).fit(present(x))), gram_of(y)]
    given = {"kernels": [kernel, Gaussian(gamma=GAMMA)], "estimator": "v-hsic", "rng": 0}
    found = dhsic.hsic(x, y, **given, precision=precision, **PAIRWISE).estimate
    accuracy = 1e-9 if precision == "float64" else 1e-3
    assert found == pytest.approx(oracles.v_hsic(grams), rel=accuracy)


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


def test_nystrom_hsic__is_v_hsic_where_its_landmarks_span_all_rows():
    x, y = pair(n=80)
    estimator = dhsic.NystromHSIC(80, unbiased_estimate=False, tolerance=1e-13)
    found = dhsic.hsic(x, y, **asked(estimator), **PAIRWISE)
    assert found.estimate == pytest.approx(oracles.v_hsic([gram_of(x), gram_of(y)]), rel=1e-6)


def pvalue(estimator, seed, effect=0.0, n=120):
    x, y = pair(seed, n, effect)
    return dhsic.independence_test(x, y, estimator=estimator, rng=seed, **PAIRWISE).pvalue


def test_level__of_the_default_is_kept():
    check = Check.of(150, 0.05)
    assert check.passes(pvalue("auto", seed) <= 0.05 for seed in range(check.runs))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_level__is_kept_where_values_decide_on_their_own_gaps(estimator):
    """Large values miss, and so do those of the other variable: both are of one variable each."""

    def rejects(seed):
        rng = np.random.default_rng([seed, 9])
        x, y = (np.where(a > 0.4, np.nan, a) for a in rng.standard_normal((2, 100)))
        given = {"estimator": estimator, "rng": seed, "kernels": "gaussian"}
        return dhsic.independence_test(x, y, **given, **PAIRWISE).pvalue <= 0.05

    check = Check.of(120, 0.05)
    assert check.passes(rejects(seed) for seed in range(check.runs))


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "auto"], ids=repr)
def test_power__finds_what_both_variables_have(estimator):
    assert sum(pvalue(estimator, seed, 1.0, 250) <= 0.05 for seed in range(10)) >= 9


def many(seed=0, n=600, d=20, share=0.15):
    rng = np.random.default_rng([seed, 4])
    x = rng.standard_normal((n, d))
    y = x[:, d // 2] ** 2 + 1.2 * rng.standard_normal(n)
    x[rng.random(x.shape) < share] = np.nan
    return x, y


def test_rank__finds_a_feature_where_drop_has_few_rows():
    found = {"pairwise": 0, "drop": 0}
    for seed in range(6):
        x, y = many(seed)
        for missing in found:
            ranking = dhsic.rank_features(x, y, rng=seed, missing=missing)
            found[missing] += ranking.rejected(0.05, control="max-t") == ("x[10]",)
            assert (ranking.n, ranking.dropped) == (600, 0) or ranking.n < 50
    assert found["pairwise"] >= 5
    assert found["drop"] <= 3


def test_rank__counts_what_is_missing_and_tells_constants():
    x, y = many(n=200, d=3)
    x[:, 1] = np.where(np.isnan(x[:, 1]), np.nan, 4.0)
    found = dhsic.rank_features(x, y, rng=0, **PAIRWISE)
    assert found.missing == (*np.isnan(x).sum(axis=0).tolist(), 0)
    assert [feature.constant for feature in found.features] == [False, True, False]


@pytest.mark.parametrize("estimator", [dhsic.NystromMHSIC(40), dhsic.VHSIC()], ids=repr)
def test_rank__is_the_single_test_of_every_feature(estimator):
    x, y = many(n=200, d=3, share=0.3)
    found = dhsic.rank_features(x, y, estimator=estimator, rng=3, **PAIRWISE)
    for column, feature in zip(x.T, found.features, strict=True):
        given = {"kernels": "gaussian", "null": "shifts", "estimator": estimator, "rng": 3}
        single = dhsic.independence_test(column, y, **given, **PAIRWISE)
        assert feature.statistic == pytest.approx(single.statistic, rel=1e-9)
        assert feature.pvalue == single.pvalue


@pytest.mark.parametrize("method", ["forward", "backward"])
def test_select__finds_a_feature(method):
    x, y = many(n=500, d=4)
    found = dhsic.select_features(x, y, 1, method=method, rng=0, **PAIRWISE)
    assert found.names == ("x[2]",)
    assert found.missing == (*np.isnan(x).sum(axis=0).tolist(), 0)


@pytest.mark.parametrize("null", ["shifts", "spectral"])
def test_matrix__has_the_hsic_of_every_pair(null):
    rng = np.random.default_rng(0)
    x, y, z = with_gaps(rng, rng.standard_normal((3, 80)), 0.25)
    y = np.where(np.isnan(y), np.nan, np.abs(x) + 0.2 * y)
    given = {"kernels": Gaussian(gamma=GAMMA), "n_landmarks": 80, "null": null}
    found = dhsic.dependence_matrix(x, y, z, rng=0, **given, **PAIRWISE)
    grams = list(map(gram_of, (x, y, z)))
    expected = [[oracles.v_hsic([a, b]) for b in grams] for a in grams]
    np.testing.assert_allclose(found.hsic, expected, rtol=1e-4)
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
        assert (found.n, found.pvalue < 0.01) == (300, True)
        assert found.missing[0] == frame[np.atleast_1d(columns)].isna().any(axis=1).sum()


X, Y = pair()


def test_variable__without_complete_rows_is_refused():
    for x, said in (
        (np.column_stack([X, np.full(200, np.nan)]), "'x1' has no value in column 1"),
        (
            np.where(np.eye(2)[np.arange(200) % 2] > 0.0, 1.0 * np.arange(200)[:, None], np.nan),
            "none of",
        ),
    ):
        with pytest.raises(DataError, match=said):
            dhsic.independence_test(x, Y, rng=0, **PAIRWISE)
