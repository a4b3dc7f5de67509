"""Refusals and small cases of public functions that no other test meets."""

import json

import dask.array as da
import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import dhsic
from dhsic import analysis, causal, report
from dhsic.cli import main
from dhsic.errors import DataError, InvalidArgumentError
from dhsic.nulls import ChiSquareMixture
from dhsic.nulls.chain import CombinedPvalues
from dhsic.results.summaries import VariableSummary

X, Y = np.random.default_rng(0).standard_normal((2, 60))
WIDE = da.zeros((60, 2, 2), chunks=-1)


def cause_with_knots():
    group = zarr.create_group("data.zarr")
    for name, values in {"a": X, "b": Y}.items():
        group.create_array(name, data=values)
    options = ["--variable", "a", "--variable", "b", "--regression", "random-forest"]
    done = CliRunner().invoke(main, ["cause", "order", "data.zarr", *options, "--knots", "5"])
    assert done.exit_code == 2
    raise InvalidArgumentError(done.stderr)


def log_without_a_name():
    options = ["--variable", "a", "--variable", "b", "--log-json", ""]
    done = CliRunner().invoke(main, ["test", "data.zarr", *options])
    assert done.exit_code == 2
    raise InvalidArgumentError(done.stderr)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: analysis.mean_embedding_bound(100, 10, 0.05, "one"), "CovarianceSpectrum"),
        (lambda: analysis.covariance_spectrum(X, kernels=3), "names or values of kernels"),
        (lambda: analysis.covariance_spectrum(X + 1j), "numbers"),
        (lambda: causal.DAG("a", 3), "a sequence of names"),
        (lambda: causal.Splines(n_knots=100_000), "at most 10,000"),
        (lambda: causal.roc_curve([1j, 2.0], [True, False]), "numbers"),
        (lambda: causal.score_dags(X, Y, null=dhsic.Chain()), "Chain|chain"),
        (lambda: report.write_report(dhsic.hsic(X, Y), "page.html", run="now"), "dhsic.report.Run"),
        (lambda: dhsic.rank_features(X, Y, null=dhsic.Chain()), "chain|replicates"),
        (lambda: dhsic.independence_test(WIDE, Y), "shape"),
        (cause_with_knots, "--knots goes with --regression splines"),
        (log_without_a_name, "the name of a file, or - for stderr"),
    ],
)
def test_call__is_refused_in_words(call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((InvalidArgumentError, DataError), match=words):
        call()


def test_labels_of_a_group__are_one_array(tmp_path):
    group = zarr.create_group(tmp_path / "data.zarr")
    for name, values in {"x": X, "y": Y, "a": np.arange(60) % 3, "b": np.arange(60) % 2}.items():
        group.create_array(name, data=values)
    path = str(tmp_path / "data.zarr")
    with pytest.raises(InvalidArgumentError, match="strata of a zarr group or a file must be one"):
        dhsic.independence_test("x", "y", data=path, strata=["a", "b"])


def test_plan_conditional__of_strata_has_the_steps_of_a_test_within_them():
    labels = np.arange(60) % 3
    planned = dhsic.plan_conditional(X, Y, given=labels, method="strata")
    assert planned.variables == ("x", "y")
    assert planned.fits


def test_mixture__of_a_spectrum_without_values_is_empty():
    assert len(ChiSquareMixture.of_products(np.zeros(0), np.ones(3)).weights) == 0


def test_combined_pvalues__draws_have_its_own_tail():
    law = CombinedPvalues(3, "fisher")
    draws = law.draws(np.random.default_rng(0), 20_000)
    # 4 standard errors of a share of 0.05 of 20,000 draws.
    assert abs(np.mean([law.sf(draw) <= 0.05 for draw in draws[:20_000]]) - 0.05) < 0.0062


def test_summary_of_a_variable__cuts_a_long_kernel():
    summary = VariableSummary("x", 1, "+".join(["gaussian:0.123456"] * 40))
    assert "..." in summary.told
    assert len(summary.told) < len(summary.kernel)


def test_embedding__of_another_format_is_refused(tmp_path):
    path = tmp_path / "mean.npz"
    dhsic.mean_embedding(X, "gaussian:0.5", rng=0).save(path)
    with np.load(path) as arrays:
        kept = dict(arrays)
    (name,) = [key for key, value in kept.items() if value.dtype.kind == "U"]
    told = {**json.loads(str(kept[name])), "format": 99}
    np.savez(path, **{**kept, name: np.array(json.dumps(told))})
    with pytest.raises(DataError, match="no mean embedding that can be read"):
        dhsic.load_embedding(path)
