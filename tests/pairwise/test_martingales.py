"""All pairs by martingales: products of matrices are what every pair is by itself."""

import itertools

import numpy as np
import pytest
import zarr
from scipy.stats import binom, false_discovery_control, norm

import dhsic
from dhsic.errors import InvalidArgumentError, MemoryBudgetError
from dhsic.kernels import parse
from dhsic.statistics import martingale as statistics
from dhsic.statistics.orbit import Groups
from tests import oracles
from tests.estimators.test_martingale import FEW_ROWS, martingale

NULL = {"null": "martingale"}


def mixed(n, m=6, seed=0):
    """Numbers, a variable of three columns, labels, and a number that depends on the first."""
    rng = np.random.default_rng(seed)
    columns = list(rng.standard_normal((m, n)))
    return [*columns, rng.standard_normal((n, 3)), columns[0] ** 2 + 0.5 * rng.standard_normal(n)]


@FEW_ROWS
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_pairs__are_those_of_every_row_with_those_before(precision):
    n, data = 90, mixed(90)
    found = dhsic.dependence_matrix(*data, rng=3, precision=precision, **NULL)
    order = Groups(n, n, 3).members(0, 1)
    grams = [
        parse(v.kernel)(np.reshape(x, (n, -1))) for v, x in zip(found.variables, data, strict=True)
    ]
    rel = 1e-8 if precision == "float64" else 1e-3
    for i, j in itertools.combinations(range(len(data)), 2):
        expected = norm.sf(martingale([grams[i], grams[j]], order))
        assert found.pvalues[i, j] == found.pvalues[j, i] == pytest.approx(expected, rel=rel)
        hsic = oracles.v_hsic([grams[i], grams[j]])
        assert found.hsic[i, j] == found.hsic[j, i] == pytest.approx(hsic, rel=rel)
    own = [oracles.v_hsic([gram, gram]) for gram in grams]
    np.testing.assert_allclose(found.hsic.diagonal(), own, rtol=rel)
    assert found.pair_hsic.dtype == precision


@FEW_ROWS
def test_pairs__are_those_of_the_single_test_and_cka_that_of_features():
    data = [*mixed(120, 2), np.repeat(["a", "b", "c"], 40)]
    found = dhsic.dependence_matrix(*data, rng=3, **NULL)
    by_features = dhsic.dependence_matrix(*data, n_landmarks=120, null="spectral", rng=3)
    np.testing.assert_allclose(found.cka, by_features.cka, atol=1e-7)
    for i, j in itertools.combinations(range(len(data)), 2):
        kernels = [parse(found.variables[k].kernel) for k in (i, j)]
        options = {"kernels": kernels, "estimator": "v-hsic", "rng": 3}
        alone = dhsic.independence_test(data[i], data[j], **options, **NULL)
        assert found.pvalues[i, j] == pytest.approx(alone.pvalue, rel=1e-8)
        assert found.null_reason == alone.null_reason


@FEW_ROWS
def test_blocks_and_bands__change_nothing(monkeypatch):
    data = mixed(70, m=9)
    whole = dhsic.dependence_matrix(*data, rng=0, **NULL)
    monkeypatch.setattr(statistics, "_FEWEST_TOGETHER", 2)
    monkeypatch.setattr(statistics, "_BAND_BYTES", 2**13)
    monkeypatch.setattr(statistics, "_PRODUCT", 2)
    cut = dhsic.dependence_matrix(*data, rng=0, threads=2, **NULL)
    np.testing.assert_allclose(cut.pvalues, whole.pvalues, rtol=1e-9)
    np.testing.assert_allclose(cut.hsic, whole.hsic, rtol=1e-12)


@FEW_ROWS
def test_checkpoint__keeps_the_blocks_that_are_done(tmp_path, monkeypatch):
    data = mixed(60, m=9)
    monkeypatch.setattr(statistics, "_FEWEST_TOGETHER", 3)
    compared, done = statistics.MartingalePairs._compared, []

    def stops(self, *blocks):
        done.append(blocks)
        if len(done) == 5:
            raise KeyboardInterrupt
        return compared(self, *blocks)

    monkeypatch.setattr(statistics.MartingalePairs, "_compared", stops)
    options = {"rng": 0, "threads": 1, "checkpoint": str(tmp_path / "kept"), **NULL}
    with pytest.raises(KeyboardInterrupt):
        dhsic.dependence_matrix(*data, **options)
    found = dhsic.dependence_matrix(*data, **options)
    assert len(done) < 5 + 10  # all of them
    assert not set(done[:3]) & set(done[5:])
    options["checkpoint"] = None
    np.testing.assert_array_equal(found.pvalues, dhsic.dependence_matrix(*data, **options).pvalues)


# Level and power


def count_rejected(seeds, n=200, m=8):
    rejected, found, pairs = 0, 0, 0
    for seed in seeds:
        data = mixed(n, m - 2, seed)
        matrix = dhsic.dependence_matrix(*data, rng=seed, threads=1, **NULL)
        null = matrix.pvalues[np.triu_indices(m - 1, 1)]
        rejected += np.count_nonzero(null <= 0.05)
        pairs += len(null)
        found += matrix.pvalues[0, m - 1] <= 0.01
    return rejected, pairs, found


@FEW_ROWS
def test_pvalues__keep_their_level_and_find_what_there_is():
    rejected, pairs, found = count_rejected(range(12))
    assert rejected <= binom.isf(0.001, pairs, 0.05)
    assert found == 12


@FEW_ROWS
@pytest.mark.nightly
def test_pvalues__keep_their_level_in_many_data_sets():
    rejected, pairs, found = count_rejected(range(300), 300)
    # Pairs of a data set share variables.
    assert rejected <= 1.1 * binom.isf(0.001, pairs, 0.05)
    assert found == 300


# Adjusted p-values and the file


@FEW_ROWS
def test_adjusted__are_those_of_benjamini_and_hochberg_and_the_result_says_why():
    found = dhsic.dependence_matrix(*mixed(150), rng=0, **NULL)
    np.testing.assert_array_equal(
        found.adjusted[np.triu_indices(8, 1)], false_discovery_control(found.pair_pvalues)
    )
    lines = dict(found.summary())
    assert "1 of 28 pairs at level 0.05, by Benjamini and Hochberg" in lines["dependent"]
    assert "Holm needs tails where the law is not checked" in lines["p-values"]
    assert "checked down to p = 0.0001" in lines["null"]
    assert found.least_adjusted == 0.0
    frame = found.to_frame()
    assert frame["method"][0] == "v-hsic, martingale"
    assert frame["p_adjusted"][0] == found.adjusted[0, 7]
    assert len(found.table(3)[1]) == 3


@FEW_ROWS
@pytest.mark.parametrize("null", ["martingale", "spectral"])
def test_to_zarr__has_a_row_a_pair_that_the_frame_has(null, tmp_path, monkeypatch):
    monkeypatch.setattr("dhsic.pairwise._WRITTEN", 5)
    found = dhsic.dependence_matrix(*mixed(100), rng=0, null=null)
    assert found.to_zarr(tmp_path / "pairs.zarr").rows == 28
    group = zarr.open_group(tmp_path / "pairs.zarr", mode="r")
    names = group["x"].attrs["categories"]
    written = {name: array[:, 0] for name, array in group.arrays()}
    order = np.lexsort((-written["cka"], written["p_value"]))
    frame = found.to_frame()
    for name in ("estimate", "cka", "p_value", "p_adjusted"):
        np.testing.assert_array_equal(written[name][order], frame[name])
    for name in ("x", "y"):
        assert [names[int(k)] for k in written[name][order]] == frame[name].tolist()
    assert group["p_adjusted"].attrs["control"] == ("bh" if null == "martingale" else "holm")
    with pytest.raises(InvalidArgumentError, match="already exists"):
        found.to_zarr(tmp_path / "pairs.zarr")
    assert found.to_zarr(tmp_path / "pairs.zarr", overwrite=True).rows == 28


# The plan and refusals


def test_plan__is_of_bytes_from_shapes_and_refuses_too_many():
    x = np.random.default_rng(0).standard_normal((100, 400))
    plan = dhsic.plan_matrix(data=x, threads=1, **NULL)
    assert (plan.estimator, plan.null) == ("v-hsic", "martingale")
    assert [step.name for step in plan.steps][-3:] == ["row means", "martingales", "estimate"]
    wide = np.zeros((5_000, 2))
    wide[0] = 1.0
    with pytest.raises(MemoryBudgetError, match=r"take fewer rows or precision='float32'"):
        dhsic.dependence_matrix(*wide.T, memory="300MiB", **NULL)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_landmarks": 20}, "n_landmarks must be left out with null 'martingale'"),
        ({"n_resamples": 20}, "draws no replicates"),
        ({"groups": np.arange(60) // 2}, "does not support strata"),
    ],
)
def test_options_of_other_nulls__are_refused(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        dhsic.dependence_matrix(*mixed(60), rng=0, **NULL, **options)
