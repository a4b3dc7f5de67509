"""Refusals as data: one table of calls of functions, and one of lines of the command.

A refusal states the requirement, what was received, and a remedy. Each case names the class of
its error and words of it. Whatever is refused leaves no file behind.
"""

import inspect
import re
import shlex
import sys
from functools import partial

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
import zarr
from click.testing import CliRunner

import dhsic
from dhsic import analysis, bench, causal, report
from dhsic.cli import main
from dhsic.errors import (
    DataError,
    DhsicError,
    InvalidArgumentError,
    MemoryBudgetError,
    MissingDependencyError,
    UnknownArgumentError,
)
from tests.cli.store import write_files

N = 60
RNG = np.random.default_rng(0)
X, Y, Z = RNG.standard_normal((3, N))
WIDE = RNG.standard_normal((N, 3))
WORDS = np.array(["u", "v"] * (N // 2))
ORDER = np.arange(N)
GAPPED = np.where(ORDER == 3, np.nan, X)
ONES = np.ones(N)
TENS = ORDER // 10
TABLE = pd.DataFrame({"a": X, "b": Y, "g": WORDS, "when": pd.date_range("2020", periods=N)})
MIXED = TABLE[["a", "g"]]
LARGE = np.zeros((2, 40_000))

run = partial(dhsic.independence_test, rng=0)
pair = partial(run, X, Y)
plan_pair = partial(dhsic.plan, X, Y)
hsic_pair = partial(dhsic.hsic, X, Y, rng=0)
rank = partial(dhsic.rank_features, WIDE, Y, rng=0)
select = partial(dhsic.select_features, WIDE, Y, rng=0)
two_samples = partial(dhsic.two_sample_test, X, Y, rng=0)
interaction = partial(dhsic.interaction_test, X, Y, Z, rng=0)
conditional = partial(dhsic.conditional_independence_test, X, Y, rng=0)
matrix = partial(dhsic.dependence_matrix, X, Y, np.sign(Z), rng=0)
lags = partial(dhsic.lag_scan, X, Y, rng=0)
SQUARE = dhsic.kernels.Polynomial(degree=2, coef0=0.0, gamma=1.0, origin=(0.0,))
sensitivity = partial(dhsic.sensitivity_map, X, Y, rng=0)
embedding = partial(dhsic.mean_embedding, X, rng=0)
score_dags = partial(causal.score_dags, WIDE, names=list("abc"), rng=0)
direction = partial(causal.direction, X, Y, rng=0)
residuals = partial(causal.residual_independence_test, X, Y, rng=0)
study = partial(bench.scaling_study, X, Y, rng=0)


def called(error, *cases):
    """Calls without arguments, with words of what they raise."""
    return [pytest.param(call, error, words, id=words) for call, words in cases]


def given(error, function, *cases):
    """A function called with keywords."""
    return called(error, *((partial(function, **keywords), words) for keywords, words in cases))


ARGUMENTS = [
    *called(
        UnknownArgumentError,
        *(
            (partial(pair, **{name: 1}), f"no argument '{name}'; did you mean '{meant}'")
            for meant, names in {
                "rng": ("seed", "random_state"),
                "kernels": ("kernel", "gamma", "kernel_s"),
                "n_resamples": ("n_permutations", "resamples"),
                "threads": ("n_jobs",),
                "estimator": ("method", "estimater"),
                "missing": ("nan_policy",),
                "data": ("df",),
            }.items()
            for name in names
        ),
        (lambda: run(x=X, y=Y), "no argument 'x'; variables are given by position"),
        (lambda: dhsic.conditional_independence_test(X, Y, Y, "kernel"), r"too many .*takes x, y,"),
        (lambda: dhsic.mmd(), r"missing .*it takes first, second$"),
        (partial(causal.residual_independence_test, X, Y), "missing a required argument: 'given'"),
        *((partial(f, weights=ONES), "no argument 'weights'") for f in (matrix, interaction)),
    ),
    *given(
        InvalidArgumentError,
        pair,
        ({"estimator": "nystrom"}, "estimator must be one of.*did you mean 'nystrom-m'"),
        ({"estimator": 3}, "estimator must be a name or one of NystromMHSIC, .*, got 3"),
        ({"estimator": dhsic.VHSIC}, r"got the class: write VHSIC\(\)"),
        ({"estimator": "dcov", "kernels": "gaussian"}, "dcov has the kernel of its distances"),
        ({"estimator": "rff-hsic", "kernels": "linear"}, "'linear': take estimator='nystrom-m'"),
        ({"estimator": "sub-corr", "kernels": "gaussian"}, "got 'gaussian': leave it out, or take"),
        ({"null": "multiplier"}, "random signs were removed: take null='shifts'"),
        ({"null": "sequential"}, "permutations that stop were removed: take null='shifts'"),
        ({"null": "normal", "estimator": "v-hsic"}, "not available for v-hsic; choose.*for block"),
        ({"null": "gamma", "estimator": dhsic.DCov(unbiased=True)}, "take unbiased=False"),
        *(
            ({"null": null, "estimator": dhsic.RFFHSIC(form="complex")}, "null must be 'shifts'")
            for null in ("gamma", "spectral", "martingale")
        ),
        ({"null": dhsic.Normal()}, "not available for nystrom-m; choose auto, .*; it is for block"),
        ({"null": dhsic.Permutation}, r"got the class: write Permutation\(\)"),
        ({"null": X}, r"null must be a name, or a value .* got an ndarray of shape \(60,\)"),
        ({"null": "gamma", "n_resamples": 9}, "left out with null 'gamma', which draws"),
        ({"null": dhsic.Permutation(9), "n_resamples": 9}, "is a value, got 9 beside Perm.*: set"),
        ({"null": "gamma", "kernels": dhsic.Grid.auto()}, "several kernels for a variable need"),
        ({"kernels": ["gaussian"] * 3}, "one for each of 2 variables, got 3"),
        ({"kernels": "gausian"}, "got 'gausian': did you mean 'gaussian'"),
        ({"kernels": "rbf"}, "write 'gaussian', for instance"),
        ({"kernels": [1, 2]}, "names or Kernel values, got 1"),
        ({"kernels": 3}, "one kernel, or one for each of 2 variables, got 3"),
        ({"kernels": dhsic.kernels.Gaussian}, r"write Gaussian\(\)"),
        ({"n_resamples": 0}, "n_resamples must be an integer >= 1, got 0"),
        ({"n_resamples": 1}, "n_resamples must be an integer >= 2, got 1"),
        ({"n_resamples": "10"}, "an integer >= 1, got '10'"),
        ({"n_resamples": True}, "an integer >= 1, got True"),
        ({"n_resamples": 2**63}, "at most 9,223,372,036,854,775,807, got"),
        ({"precision": "float16"}, "precision must be one of 'float64', 'float32', got 'float16'"),
        ({"missing": "pairwise", "weights": ONES}, "weights need complete rows"),
        ({"names": ["a", "a"]}, "names must be 2 different words, one a variable"),
        ({"names": ["a", None]}, "names must be 2 different words"),
        ({"names": "ab"}, "names must be 2 different words, one a variable, got 'ab'"),
        ({"threads": 0}, "threads must be an integer >= 1, got 0"),
        ({"memory": "lots"}, "memory must be a positive number of bytes.* such as '2GiB'"),
        ({"time": "soon"}, "time must be a positive number of seconds such as 600 or '10min'"),
        ({"progress": "yes"}, "progress must be True or False.* got 'yes'"),
        ({"client": "tcp://127.0.0.1:1"}, "running, synchronous distributed.Client"),
        (
            {"order": "time", "null": "permutation"},
            "'permutation' does not support a series in time",
        ),
        ({"groups": TENS, "estimator": "nfsic"}, "support strata.* take 'auto' or one of"),
        ({"groups": TENS, "null": "gamma"}, "null 'gamma' does not support .* take 'auto', 's"),
        ({"checkpoint": "s3://me:secret@bucket/x"}, "checkpoint must be a URL without user name"),
    ),
    *given(
        InvalidArgumentError,
        partial(dhsic.independence_test, X, Y),
        *(
            ({"rng": seed}, r"rng must be an integer >= 0, None, a .* got " + shown)
            for seed, shown in ((-1, "-1"), (True, "True"), ("a", "'a'"), (1.5, "1.5"))
        ),
        ({"rng": [-1]}, r"rng must be an integer >= 0, .* another argument of"),
        ({"checkpoint": "kept"}, "rng must be a seed"),
    ),
    *given(
        InvalidArgumentError,
        plan_pair,
        ({"weights": ONES, "strata": ORDER % 2}, "independent draws, got strata as well"),
        ({"weights": ONES, "groups": TENS}, "got groups as well"),
        ({"weights": ONES, "order": "time"}, "got order as well"),
        ({"weights": ONES, "kernels": dhsic.Grid.auto()}, "one kernel for each variable, got"),
        (
            {"weights": ONES, "estimator": dhsic.NystromHSIC(20, unbiased_estimate=True)},
            "without an unbi",
        ),
        ({"groups": TENS, "strata": ORDER % 2}, "within one stratum"),
        ({"order": "rows"}, "order must be 'time' or a TimeOrder, got 'rows'"),
        ({"order": "time", "strata": TENS}, "order and strata cannot be combined"),
        (
            {"weights": ONES, "null": "permutation"},
            "would pair weights with the values of other rows",
        ),
        ({"weights": ONES, "n_resamples": 99}, "n_resamples must be left out with weights"),
        ({"weights": ONES, "estimator": "v-hsic"}, "weights need estimator 'auto', 'nystrom-hsic'"),
    ),
    *given(
        DataError,
        plan_pair,
        ({"weights": np.ones((N, 2))}, "one column of numbers, got 2 columns"),
        ({"weights": np.arange(N)}, "positive finite numbers, got 0.0 in row 0 and 1 such in all"),
        ({"weights": np.ones(50)}, "weights must have a value for each of the 60 rows, got 50"),
        ({"weights": np.r_[1e16, ONES[1:]]}, "of several rows, and one of 60 .* worth 1 rows"),
        ({"weights": np.where(ORDER == 5, np.inf, 1.0)}, "got inf in row 5"),
        ({"weights": ORDER % 2 == 0}, "got a column of kind 'boolean'"),
        ({"weights": WORDS}, "got a column of kind 'category'"),
        ({"strata": ORDER}, "alone in their stratum"),
        ({"strata": ONES[1:]}, "strata must have a value for each of the 60 rows, got 59"),
        ({"groups": ORDER // 40}, "groups with equally many rows"),
        ({"groups": ORDER // 20}, "can be permuted in 6 ways only"),
        ({"order": dhsic.TimeOrder(lag=50)}, "20 shifts or more"),
        ({"order": dhsic.TimeOrder(lag=4)}, "the series has 60 rows, which allow 15 shifts by 4"),
        ({"order": dhsic.TimeOrder(period=24)}, "allow 2 shifts"),
    ),
    *called(
        InvalidArgumentError,
        (lambda: dhsic.TimeOrder(lag=0), "lag must be"),
        (lambda: dhsic.TimeOrder(period=0), "must be"),
        (lambda: dhsic.TimeOrder(lag=5, period=12), "must be"),
        (lambda: dhsic.Permutation(within="blocks"), "write within='groups', and group_rows="),
        (lambda: dhsic.Permutation("10"), "an integer >= 1, got '10'"),
        (lambda: dhsic.Chain(combined_by="min"), "combined_by must be one of 'fisher', 'sidak'"),
        (lambda: dhsic.NystromMHSIC(0), "n_landmarks must be an integer >= 1 or a multiple of sq"),
        (lambda: dhsic.NystromMHSIC(X), "n_landmarks must be .*'8sqrt', got an ndarray"),
        (lambda: dhsic.NystromMHSIC(tolerance="small"), "tolerance must be .*got 'small'"),
        (lambda: dhsic.BlockHSIC(block_rows=3), "block_rows must be an integer >= 4, got 3"),
        (lambda: dhsic.DCov(float("nan")), "exponent must be greater than 0.*got nan"),
        (lambda: dhsic.DCov(unbiased=True, root=True), "root must be False if .*: drop one"),
        (lambda: dhsic.NFSIC(regularisation=1.0), "less than 1, got 1.0: leave it out for 1e-3"),
        (lambda: dhsic.NOCCO(regularisation=0.0), "at least 1e-06, got .*: leave it out"),
        (lambda: dhsic.Candidates(factors=(1, 0)), "factors of the bandwidth"),
        (lambda: dhsic.Grid(("gaussian",)), "needs Candidates"),
        (lambda: hsic_pair(kernels=dhsic.Grid()), "one kernel for each variable"),
        (lambda: pair(kernels=dhsic.Grid(combine=[(0, 99)])), r"below .*; got \(0, 99\)"),
        (lambda: dhsic.kernels.parse("gaussian:abc"), "a finite number > 0, got 'abc'"),
        (lambda: dhsic.kernels.Gaussian()(WIDE), r"must be set before use; .* call fit\(sample\)"),
        (lambda: dhsic.stored_array(X), "place must be a zarr array"),
        (lambda: embedding().save("it.npz", overwrite=1), "overwrite must be True or False, got 1"),
        (lambda: sensitivity().to_zarr("it.zarr", compress=[]), "compress must be True or False"),
    ),
]

DATA = [
    *called(
        InvalidArgumentError,
        (lambda: run(X), "at least two variables, got 1: give another"),
        (lambda: run("a", "b", data=WIDE), "data must be a data frame, an xar"),
        (lambda: run("a", "bb", data=TABLE), "no column 'bb'.*did you mean 'b'"),
        (lambda: run("a", Y, data=TABLE), "leave out data= to pass arrays"),
        (lambda: run("a", [], data=TABLE), "name of a column or a list of"),
        (lambda: run("a", "a", data=TABLE), "must be 2 different words"),
        (
            lambda: run("a", ["a", "b"], data=zarr.create_group({})),
            r"needs an array .a.*there are: none",
        ),
        (lambda: run(X, WORDS, kernels="gaussian"), "would compare as numbers: take 'delta'"),
        (
            lambda: run(X, WORDS, kernels=dhsic.Grid(dhsic.Candidates("gaussian"))),
            "holds categories",
        ),
        (lambda: run(GAPPED, Y, missing="pairwise", estimator="rff-hsic"), "'rff-hsic'"),
        (lambda: run(X, WORDS, estimator="dcov"), "holds categories: take estimator='auto'"),
        (lambda: run(Y, MIXED, kernels="gaussian"), r"take 'gaussian@0\*delta@1', or leave the"),
        (lambda: run(X, Y, Z, estimator="coco"), "takes at most 2 variables, got 3: take"),
        (lambda: run(X, Y, Z, weights=ONES), "for two variables, got 3"),
        (lambda: run(X, Y, Z, null="shifts", order="time"), "take 'auto', 'chain'"),
        (
            lambda: run(*RNG.standard_normal((2, 99)), estimator=dhsic.BlockHSIC(block_rows=50)),
            "needs 2 blocks of 4 rows or more, got 99 rows in blocks of 50: take",
        ),
    ),
    *called(
        DataError,
        (lambda: run("no.zarr", Y), "check the path"),
        (lambda: run("a", "b"), "pass the table too, as data=table"),
        (lambda: dhsic.rank_features(TABLE[["a"]], "b"), "pass the table too, as data=table"),
        (lambda: run("a", "b", data=__file__), "not that of a table: give a CSV.*or read it in Py"),
        (
            lambda: run("a", ["a", "b"], data=xr.Dataset({"a": ("r", X), "b": ("r", Y)}).chunk()),
            r"read them first, as by .load\(\) of xarray, pass each",
        ),
        (lambda: run(None, Y), "got NoneType"),
        (lambda: run([X, Y]), "pass variables one by one"),
        (lambda: run((one for one in X), Y), r"call list\(\) on it"),
        (lambda: run(pl.LazyFrame({"a": X}), Y), r"call .collect\(\) on it first"),
        (lambda: run(da.from_array(X)[da.from_array(X) > -9.0], Y), "compute_chunk_sizes"),
        (lambda: run(X[None, :], Y[None, :]), "or transpose them"),
        (lambda: run(X[1:], Y), "same rows, one observation each; got 'x1' 59, 'x2' 60"),
        (lambda: run(X[:3], Y[:3]), "at least 4 rows, got 3: add rows"),
        (lambda: dhsic.hsic([1.0], [2.0]), "needs at least 2 rows, got 1: add rows"),
        (lambda: dhsic.hsic(X[:3], Y[:3], estimator="u-hsic"), "4 rows, got 3: .*take"),
        (lambda: run(ONES, Y), "'x1' is constant: all 60 rows are the same.*leave it out"),
        (lambda: run(X, np.full(N, 2**60)), r"'x2' has integers beyond 2\*\*53"),
        (lambda: run(X, zarr.array(ORDER + 2**60), kernels="linear"), r"'x2' has integers beyond"),
        (lambda: run(GAPPED, Y), "'x1' has NaN or infinity, first in row 3.*missing='drop'"),
        (lambda: run([None, *WORDS[1:]], Y), "missing values, first in row 0: .*drop"),
        (lambda: run(np.ma.masked_array(X, X > 1), Y), "drop or fill such rows"),
        (lambda: run(X, np.full(N, np.nan), missing="drop"), r"all 60 rows miss a value"),
        (lambda: run(np.where(ORDER == 7, np.inf, X), Y, missing="pairwise"), "infinity, first in"),
        (lambda: run(TABLE), "'when'.* turn times into numbers"),
        (lambda: run(np.zeros(N, [("a", "f8")]), Y), "choose one of its fields"),
        (lambda: run(X, ["1,200", "1,300"] * 30), "as '1,200': make numbers of them.*str.replace"),
        (lambda: run(TABLE["a"], TABLE["b"].iloc[::-1]), "not in the same order.*pandas.concat"),
        (
            lambda: run(*(xr.DataArray(v, {"r": r}, ["r"]) for v, r in ((X, ORDER), (Y, -ORDER)))),
            "labels are not.*Align them.*xarray.align",
        ),
        (lambda: run(X, Y, kernels="anderson-darling"), r"got -.*: take 'ranks"),
        (lambda: embedding.func(WORDS, "delta"), "make x a categorical column of pandas"),
        (lambda: dhsic.load_embedding("no.npz"), "holds no mean embedding"),
    ),
    *called(
        MemoryBudgetError,
        (partial(run, *LARGE, memory="1MiB"), "allow more memory"),
        (lambda: hsic_pair(memory="1KiB"), "the plan needs .*1.0 KiB are allowed"),
        (
            lambda: dhsic.hsic(*LARGE, estimator=dhsic.NystromMHSIC(9000), memory="1GiB"),
            r"; at most [\d,]+ landmarks.* would fit$",
        ),
        (partial(plan_pair, strata=TENS, memory="1KiB"), "labels of rows are held .*Allow memory="),
        (lambda: dhsic.mean_embedding(LARGE[0], n_landmarks=39_000), "fewer landmarks"),
        (partial(select, 1, method="lasso", memory="1MiB"), "fewer features"),
        (partial(interaction, estimator="v-lancaster", memory="1KiB"), "nystrom-lancaster"),
        (partial(two_samples, estimator="v-mmd", memory="1KiB"), "estimator='nystrom-mmd'"),
        (partial(score_dags, memory="1KiB"), "or regression='splines'"),
        (lambda: causal.search_dag(*LARGE, regression="gaussian-process"), "regression of"),
        (partial(matrix, null=dhsic.Shifts(20_000_000), memory="512MiB"), "the replica"),
    ),
]

STEEP = dhsic.kernels.Polynomial(8, gamma=1.0) * dhsic.kernels.Polynomial(8, gamma=1.0)

OTHERS = [
    *given(
        InvalidArgumentError,
        rank,
        ({"by": "size"}, "by must be one of 'pvalue'"),
        ({"null": "multiplier"}, "random signs were removed: take null='shifts'"),
        ({"null": "gamma"}, "a ranking needs replicates that features share"),
        ({"null": dhsic.Chain()}, "chain|replicates"),
        ({"estimator": "rff-hsic"}, "need estimator 'nystrom-m', 'nystrom-hsic', 'v-hsic'"),
        ({"column_groups": {}}, "column_groups must be columns by the name"),
        ({"column_groups": {"a": [3]}}, "numbers from 0 to 2"),
        ({"column_groups": [["x[9]"]]}, "group 'group 1' must list"),
        ({"feature_kernels": ["gaussian"]}, "feature_kernels must be one, or one for each of 3"),
        ({"target_kernel": 3}, "kernels must be names or Kernel values"),
        ({"by": "sensitivity", "feature_kernels": "delta"}, "must have a differentiable kernel"),
        ({"order": "time", "strata": TENS}, "cannot be combined"),
        ({"estimator": dhsic.NystromMHSIC(selection="leverage")}, "must be drawn uniformly"),
        ({"groups": {"a": [0]}}, "pass these as column_groups"),
        ({"column_groups": ["ab"], "names": list("abc")}, "'group 1' must list different columns"),
        ({"names": "abc"}, "names must be 3 different words, one a column, got 'abc'"),
        ({"names": ["a", "a", "b"]}, "names must be 3 different words, one a column"),
        ({"by": "sensitivity", "feature_kernels": ["gaussian"] * 3}, "must be one kernel"),
    ),
    *called(
        InvalidArgumentError,
        (lambda: dhsic.rank_features(WIDE, WORDS, target_kernel="gaussian"), "'y' holds"),
        (lambda: dhsic.rank_features(MIXED, Y, by="sensitivity", rng=0), r"got 'gaussian"),
        (
            lambda: dhsic.rank_features(GAPPED, Y, by="sensitivity", missing="pairwise"),
            "by='sensitivity'",
        ),
        (
            partial(dhsic.select_features, GAPPED, Y, 1, method="lasso", missing="pairwise"),
            "got 'lasso'",
        ),
        (lambda: rank().ranked("sensitivity"), "rank the features with by='sensitivity'"),
        (lambda: rank().rejected(0.05, "holms"), "did you mean 'holm'"),
    ),
    *given(
        InvalidArgumentError,
        select,
        ({"k": 9}, "k must be at most the number of features, 3; got 9"),
        ({"k": 1, "method": X}, r"'forward'.*got an ndarray of shape \(60,\)"),
        ({"k": 1, "criterion": "pvalue"}, "criterion must be one of"),
        ({"k": 1, "n_permutations": 0}, "n_permutations must be an integer >= 1"),
        ({"k": 1, "method": "linear"}, "take 'lasso', or SelectKBest of scikit-learn with f_reg"),
    ),
    *given(
        InvalidArgumentError,
        two_samples,
        ({"estimator": "coco"}, "nystrom-mmd"),
        ({"null": "gamma", "estimator": "u-mmd"}, "for u-mmd; choose .*; it is for nystrom-mmd"),
        ({"kernels": ["gaussian", "delta"]}, "kernels must be one name or Kernel"),
        ({"kernels": dhsic.Grid((dhsic.Candidates(),) * 2)}, "needs Candidates of the values, got"),
        ({"names": ["a", "a"]}, "different words, one a sample"),
        ({"estimator": dhsic.RFFHSIC(form="complex")}, "form must be 'cos-sin'"),
        ({"groups": [TENS]}, "labels of each of the 2 samples.*got 1"),
        ({"groups": TENS}, "labels of each of the 2 samples.*got one ndarray"),
        ({"groups": [TENS, TENS]}, "one sample: the group of row . of 'x.' has"),
        ({"strata": [TENS, TENS], "estimator": "block-mmd"}, "support strata"),
        ({"missing": "pairwise"}, "is for independence_test"),
    ),
    *called(
        InvalidArgumentError,
        (lambda: dhsic.two_sample_test(X), "at least two samples, got 1"),
        (lambda: dhsic.mmd(X, Y), "by mean_embedding, or .*two_sample_test"),
    ),
    *called(
        DataError,
        (lambda: dhsic.two_sample_test(X, WIDE), "samples must have the same columns"),
        (lambda: dhsic.two_sample_test(X, X[:1]), "'x2' must have at least 2 rows, got 1"),
        (lambda: dhsic.two_sample_test(0 * X, 0 * Y), "'values' is constant"),
        (lambda: two_samples(groups=[TENS // 3, TENS // 3 + 2]), "in 6 ways, and a p-value of 5 %"),
        (lambda: two_samples(groups=[TENS, TENS[1:] + 6]), "each of the 60 rows of 'x2', got 59"),
        (lambda: two_samples(strata=[TENS, TENS + 6]), "in 1 way, .* rows of several samples"),
        (lambda: dhsic.two_sample_test(X, GAPPED), "'x2' has NaN or infinity, first in row 3"),
    ),
    *given(
        InvalidArgumentError,
        interaction,
        ({"estimator": "lancaster"}, "one of 'nystrom-lancaster'"),
        ({"estimator": dhsic.UHSIC()}, "NystromMHSIC or a VHSIC"),
        ({"null": "shifts", "estimator": "v-lancaster"}, "one of 'auto', 'permutation', got"),
        ({"null": dhsic.Shifts(9), "estimator": "v-lancaster"}, "'auto', 'permutation', got Shif"),
        ({"kernels": [dhsic.Candidates(), None, None]}, "one kernel for each variable, got sev"),
        ({"estimator": dhsic.NystromMHSIC(9, pairing="joint")}, "pairing must be 'independent'"),
        ({"null": "spectral"}, "'auto', 'shifts', 'permutation'"),
        ({"null": "multiplier"}, "random signs were removed: take null='shifts'"),
        ({"kernels": dhsic.Grid.auto()}, "one kernel for each variable"),
        ({"kernels": ["imq"]}, "one for each of 3 variables, got 1"),
        ({"missing": "pairwise"}, "is for independence_test, hsic"),
    ),
    *called(
        InvalidArgumentError,
        (lambda: dhsic.interaction_test(X, Y), "takes three variables, got 2"),
        (lambda: conditional(given=[]), "given must hold a variable or more"),
        (lambda: conditional(given=Z, kernels=["gaussian"] * 3), "each of 2 variables, got 3"),
        (lambda: conditional(given=Z, method="fast"), "method must be"),
        (lambda: conditional(given=Z, missing="pairwise"), "is for"),
    ),
    *called(
        DataError,
        (lambda: conditional.func(X[:9], Y[:9], given=Z[:9]), "at least 20 rows, got 9"),
        (lambda: conditional(given=ONES), "variable 'z' is constant"),
        (lambda: dhsic.interaction_test(X, ONES, Z), "'x2' is constant"),
    ),
    *given(
        InvalidArgumentError,
        matrix,
        (
            {"null": "shift"},
            "null must be one of 'auto', 'shifts', 'spectral', 'martingale', got 'shift'",
        ),
        ({"null": "spectral", "n_resamples": 9}, "n_resamples must be left out with null 'spec"),
        ({"n_landmarks": 0}, "n_landmarks"),
        ({"null": "spectral", "groups": TENS}, "does not support strata or groups"),
        ({"null": dhsic.Shifts(9), "n_resamples": 9}, "where null is"),
        ({"groups": TENS, "strata": ORDER % 2}, "one stratum"),
        ({"kernels": ["gaussian", "gaussian", SQUARE]}, "must vary .* 'x3'"),
    ),
    *given(
        InvalidArgumentError,
        lags,
        ({"lags": 16}, "whole numbers up to 15, a quarter of the rows, or one number, got 16: as"),
        ({"lags": [1, -16]}, r"whole numbers up to 15, .* got \[1, -16\]: as 1, 2"),
        ({"lags": [1.0, 2.0]}, r"got \[1.0, 2.0\]: as 1, 2"),
        ({"lags": [1, 2, 1]}, r"must be different whole numbers .* got \[1, 2, 1\]"),
        ({"lags": []}, r"or one number, got \[\]"),
        ({"lags": "5"}, "or one number, got '5'"),
        ({"lags": -1}, "or one number, got -1"),
        ({"lags": 2.5}, "or one number, got 2.5"),
        ({"lags": None}, "or one number, got None"),
        ({"lags": 3, "order": None}, "in the order of time, got order=None and 0 rows left out"),
        ({"lags": 3, "order": "place"}, "order must be 'time' or a TimeOrder, got 'place'"),
        ({"lags": 3, "estimator": "nystrom-m"}, "'auto', 'v-hsic', 'nystrom-hsic', got 'nystrom-m"),
        ({"lags": 3, "estimator": dhsic.UHSIC()}, "'auto', 'v-hsic', 'nystrom-hsic', got 'u-hsic'"),
        ({"lags": 3, "kernels": dhsic.Grid.auto()}, "one kernel for each variable"),
        ({"lags": 3, "n_resamples": 0}, "n_resamples must be an integer >= 2, got 0"),
    ),
    *called(
        InvalidArgumentError,
        (lambda: lags(3).dependent(2.0), "alpha must be greater than 0"),
        (lambda: lags(3).critical_values(0.0), "alpha must be greater than 0"),
        (lambda: lags(3).plot(alpha=1.0), "alpha must be greater than 0"),
    ),
    *called(
        DataError,
        (lambda: dhsic.lag_scan(ONES, Y, 3), "'x1' is constant"),
        (lambda: dhsic.lag_scan(X[:9], Y[:9], 1), "needs 20 shifts or more"),
    ),
    *given(
        InvalidArgumentError,
        sensitivity,
        ({"of": "pvalue"}, "of must be one of 'statistic', 'estimate', got 'pvalue'"),
        ({"wrt": "x1"}, "wrt must be a list of variables, got 'x1'"),
        ({"wrt": ["yaer"], "names": ["timbre", "year"]}, r"'year'; did you mean 'year'\?"),
        ({"wrt": [np.zeros(3)]}, "wrt must be a list of variables, got an ndarray"),
        ({"estimator": "dcov"}, "needs estimator 'nystrom-m', 'v-hsic' or 'rff-hsic', got 'dcov'"),
        ({"kernels": "delta"}, "'x1' must have .*: take another kernel"),
        ({"missing": "pairwise"}, "take 'drop', or fill the gaps"),
    ),
    *called(
        InvalidArgumentError,
        (lambda: sensitivity().top("z"), "name must be one of 'x1', 'x2', got 'z'"),
        (lambda: sensitivity().top("x1", 0), "count must be an integer >= 1, got 0"),
        (lambda: sensitivity(wrt=["x1"]).points(), "points need the map of two variables"),
        (lambda: sensitivity().points(0), "most must be an integer >= 1"),
        (
            lambda: sensitivity(names=["sample_sensitivity", "y"]).to_zarr("map.zarr"),
            "must not be called",
        ),
        (
            lambda: dhsic.sensitivity_map(X, TENS, kernels=["gaussian", "delta*linear"]),
            r"got 'delta\*linear': take another kernel",
        ),
        (lambda: embedding(n_landmarks=61), "n_landmarks must be at most"),
        (lambda: embedding(kernel=3), "kernels must be names or Kernel values, got 3"),
        (lambda: dhsic.witness_functions(X, Y, estimator="v-hsic"), "need estimator 'coco'"),
        (lambda: embedding().integrate(lambda z: z[:-1, 0]), "a finite value at each of"),
        (lambda: embedding()(WIDE), r"points must have shape \(q, 1\)"),
    ),
    *called(
        DataError,
        (lambda: embedding().update(WIDE), "must have 1 column"),
        (lambda: embedding().like(GAPPED), "variable 'x' has NaN or infinity, first in row 3"),
        (lambda: embedding("*".join(["polynomial:3"] * 3)).like(X * 1e45), "overflows in rows 0"),
        (
            lambda: dhsic.sensitivity_map(40 * X, 40 * Y, kernels=STEEP, precision="float32"),
            "derivatives must be finite in float32, .*='float64'",
        ),
    ),
]

CAUSES = [
    *given(
        InvalidArgumentError,
        score_dags,
        ({"names": ["a", "a", "b"]}, "3 different words"),
        ({"dags": "some"}, "dags must be one of"),
        ({"dags": []}, "dags must be 'all', 'complete' or DAG"),
        ({"kernels": ["gaussian"]}, "one for each of 3 variables"),
        ({"estimator": "u-hsic"}, "estimator must be one of"),
        ({"null": "normal"}, "null 'normal' is not available"),
        ({"regression": "spline"}, "regression must be one of .*did you mean 'splines'"),
        ({"null": dhsic.Chain()}, "Chain|chain"),
    ),
    *given(
        InvalidArgumentError,
        direction,
        ({"criterion": "hsik"}, "did you mean 'hsic'"),
        ({"estimator": [X]}, "estimator must be a name or one of"),
        ({"estimator": X}, "estimator must be a name or one of"),
        (
            {"criterion": "hsic", "kernel": "linear"},
            "must detect more than correlation, .* take 'gau",
        ),
        ({"criterion": "hsic", "null": "gamma"}, "null must be left out .* drop it"),
        ({"criterion": "sensitivity", "n_resamples": 9}, "n_resamples must be left out .* drop it"),
        ({"max_rows": 3}, "max_rows must be an integer >= 4"),
        ({"criterion": "sensitivity", "estimator": "coco"}, "map need"),
        ({"missing": "pairwise"}, "is for independence_test"),
    ),
    *called(
        InvalidArgumentError,
        (lambda: causal.score_dags(np.zeros((9, 6))), "2 to 5 nodes, got 6"),
        (lambda: causal.directions([]), "one or more pairs"),
        (lambda: causal.directions([(X, Y), (X,)]), "got 'pair2' without"),
        (lambda: causal.directions({1: (X, Y), "1": (X, Y)}), "differ as text"),
        (lambda: causal.directions([(X, Y)], checkpoint="kept"), "rng must be a seed"),
        (lambda: causal.search_dag(WIDE, alpha=0.0), "alpha must be greater than 0"),
        (lambda: causal.DAG("a", 3), "numbers of other nodes"),
        (lambda: causal.DAG(("a", "b"), ((1,), (0,))), "without cycles"),
        (lambda: causal.DAG.of(("a", "b"), [("a", "c")]), "join the nodes a, b; got c"),
        (lambda: causal.Splines(n_knots=1), "n_knots must be an integer >= 2"),
        (lambda: causal.Splines(n_knots=100_000), "at most 10,000"),
        (lambda: causal.Splines(n_folds=1001), "at most 1,000"),
        (lambda: causal.Splines(extrapolation="cubic"), "extrapolation must be one"),
        (lambda: causal.CrossFitted("forest"), "regressor must be one of"),
        (lambda: causal.CrossFitted(int), "regressor must be one of"),
        (lambda: residuals(given=[]), "given must hold a variable or more"),
        (
            lambda: residuals(given=Z, null="gamma", groups=TENS),
            "does not support strata or groups",
        ),
    ),
    *called(
        DataError,
        (lambda: score_dags.func(WIDE * [1, 0, 1], names=list("abc")), "'b' needs columns"),
        (lambda: score_dags.func(WIDE[:3], names=list("abc")), "at least 4 rows, got 3"),
        (lambda: causal.score_dags(TABLE["g"], X), "holds categories"),
        (lambda: causal.direction(X, 3.0 * X), "is a function of 'x1' up to rounding"),
        (lambda: causal.direction(X, ONES), "'x2' is constant in column 0"),
        (lambda: causal.directions({"a": (X, Y), "b": (X, ONES)}), "pair 'b': variable 'x2' is"),
        (lambda: residuals(given=ONES), "variable 'z' needs columns that vary"),
        (lambda: residuals(given=1e160 * Z), "span 1e-70 .*: rescale the variable"),
        (lambda: residuals(given=1e-160 * Z), "span 1e-70 .*: rescale the variable"),
        (lambda: score_dags.func(WIDE[:13], names=list("abc")), "more rows than that, got 13"),
        (lambda: score_dags.func(WIDE[:, [0, 1, 1]], names=list("abc")), "'b' is a function of"),
    ),
]

TOOLS = [
    *called(
        UnknownArgumentError,
        (lambda: analysis.covariance_spectrum(), "missing pilot, or data="),
    ),
    *called(
        InvalidArgumentError,
        (lambda: analysis.mean_embedding_bound(100, 10, 0.05, "one"), "CovarianceSpectrum"),
        (lambda: analysis.nystrom_mmd_bound(9, 9, 0.1, "one"), "n must be a pair"),
        (lambda: analysis.v_statistic_bound(99, 0.1, 0.0), "hsic must be from 1e-99 to"),
        (lambda: analysis.rff_hsic_bound(3, 10), "n must be an integer >= 4"),
        (lambda: pair().plot(alpha=1.0), "alpha must be greater than 0 and less than 1"),
        (lambda: report.write_report({}, "page.html"), "got a dict: give"),
        (lambda: report.write_report(hsic_pair(), "page.html", run="now"), "dhsic.report.Run"),
        (lambda: report.write_report(rank(), "page.html", control="fdr"), "one of 'bh', 'by'"),
        (lambda: dhsic.register(int), "register takes kernels, .*, got int, which derives"),
        (lambda: dhsic.unregister("gaussian"), "registered names .*; registered are: none"),
        (lambda: dhsic.IndependenceTestResult.from_json("{}"), "the JSON of a IndependenceTestRes"),
    ),
    *called(
        DataError,
        (lambda: pair().report("."), "cannot write .*Is a directory"),
        (lambda: analysis.covariance_spectrum(X + 1j), "numbers"),
        (lambda: analysis.dependence_law(X[:3], X[:3]), "needs 4 rows .*, got 3 rows"),
    ),
    *given(
        InvalidArgumentError,
        study,
        ({"vary": {}}, "vary must map settings to values"),
        ({"vary": {"worker": [1]}}, "did you mean 'workers'"),
        ({"vary": {"rows": [N + 1]}}, "rows must be at most the 60"),
        ({"vary": {"rows": [24]}, "threads": 2}, "threads must be left out of a study"),
    ),
]


@pytest.mark.parametrize(("call", "error", "words"), [*ARGUMENTS, *DATA, *OTHERS, *CAUSES, *TOOLS])
def test_function__refuses_in_words(call, error, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DhsicError, match=f"(?s){words}") as caught:
        call()
    assert type(caught.value) is error
    assert len(str(caught.value)) < 500
    assert not list(tmp_path.iterdir())


MISSING_LIBRARIES = [
    ("matplotlib", lambda: pair().plot(), r"Plotting needs matplotlib.*pip install 'dhsic\[plot"),
    ("matplotlib", lambda: pair().report("page.html"), r"pip install 'dhsic\[report\]'"),
    ("pandas", lambda: rank().to_frame(), r"pip install 'dhsic\[tables\]'"),
    ("sklearn.linear_model", lambda: select(k=1, method="lasso"), r"'dhsic\[selection\]'"),
    ("sklearn", lambda: causal.find_regression("random-forest"), r"dhsic\[causal\]"),
]


@pytest.mark.parametrize(("module", "call", "words"), MISSING_LIBRARIES)
def test_function__says_which_library_to_install(module, call, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=words):
        call()
    assert not list(tmp_path.iterdir())


DIFFERENCE = partial(dhsic.dependence_difference, X, Y, Z, rng=0)
WITH_ARRAYS = [
    *[(rank, name) for name in ("null", "estimator", "by", "target_kernel")],
    *[(rank, name) for name in ("feature_kernels", "column_groups", "exclude")],
    *[(sensitivity, "wrt"), (pair, "checkpoint")],
    *[(f, name) for f in (two_samples, interaction) for name in ("null", "estimator", "kernels")],
    *[(matrix, name) for name in ("null", "kernels", "n_landmarks", "confidence")],
    *[(lags, name) for name in ("lags", "estimator", "order")],
    *[(DIFFERENCE, name) for name in ("estimator", "kernels", "confidence")],
    (partial(dhsic.witness_functions, X, Y, rng=0), "estimator"),
    (partial(select, 1), "method"),
]


@pytest.mark.parametrize(("function", "option"), WITH_ARRAYS)
def test_array_in_the_place_of_an_option__is_told_by_its_shape(function, option):
    with pytest.raises(DhsicError) as caught:
        function(**{option: np.linspace(0.1, 0.9, 999) * 1.234567})
    said = str(caught.value)
    assert len(said) <= 600
    assert "\n" not in said


def test_confidence_of_a_difference__cannot_be_left_out():
    with pytest.raises(InvalidArgumentError, match=r"confidence must be .* got None"):
        DIFFERENCE(confidence=None)


def test_exclude__is_of_columns_that_are_there_or_of_none():
    ranked = partial(dhsic.rank_features, data={"a": X, "b": Y, "c": Z}, target="c", rng=0)
    assert [one.name for one in ranked(exclude=None).features] == ["a", "b"]
    assert [one.name for one in ranked(exclude=np.array(["a"])).features] == ["b"]
    with pytest.raises(InvalidArgumentError, match=r"no column '1\.5'"):
        ranked(exclude=[1.5])


FUNCTIONS = [
    pytest.param(function, id=f"{module.__name__}.{name}")
    for module in (dhsic, analysis, bench, causal, report)
    for name in module.__all__
    if inspect.isfunction(function := getattr(module, name)) and name[-8:] != "register"
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_function__says_what_it_takes(function):
    parameters = inspect.signature(function).parameters
    if not parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    told = f"{function.__name__} has no argument 'zzqx'; it"
    with pytest.raises(UnknownArgumentError, match=told) as caught:
        function(zzqx=1)
    assert isinstance(caught.value, TypeError)
    if "rng" in parameters:
        with pytest.raises(UnknownArgumentError, match="did you mean 'rng'"):
            function(seed=1)


COMMANDS = {
    "": {
        "tset": "No such command 'tset'. Did you mean 'test'?",
        "--versoin": "No such option '--versoin'",
        "test": "Missing argument 'DATA'. (see 'dhsic test --help')",
        "test data.zarr": "Missing option '--variable'",
        "test nowhere.zarr --variable x --variable y": "nowhere.zarr' is not a readable zarr group",
        "test --variable x --variable y -- --debug": "--debug' is not a readable zarr group",
        "plan nowhere.zarr --variable x --variable y": "check the path",
        "test s3://me:secret@bucket/d --variable x --variable y": "without user name",
        "generate out.zarr": "Missing option '--rows'",
        "generate out.zarr --rows 0": "x>=1",
        "generate out.zarr --rows 9 --dependence 2": "from 0 to 1",
        "generate no/out.zarr --rows 9": "create it first",
        "generate data.zarr --rows 9": "exists",
        "convert million-song none.txt out.zarr": "none.txt is not a file",
        "convert table table.csv out.zarr": "Missing option '--variable'",
        "convert table table.csv out.zarr --variable x": "NAME=COL",
        "convert table table.csv out.zarr --variable x=a,,b": "got 'x=a,,b'",
        "convert table table.csv out.zarr --variable x=a --variable x=b": "'x' is given twice",
        "convert table none.csv out.zarr --variable x=a": "none.csv is not a file",
        "convert table table.csv out.zarr --variable x=a,label --numeric label": "'u' in line 3",
        "convert table table.csv data.zarr --variable x=a": "exists",
        "demo --rows 3": "x>=4",
        "demo --rows 1000 --keep no/where": "cannot write no/where: No such file",
        "rank data.zarr --target y": "--features must name arrays",
        "rank data.zarr --features gone --target y": "needs an array 'gone'",
        "rank data.zarr --features x --target label --target-kernel imq": "holds categories",
        "two-sample data.zarr --sample x": "at least two samples, got 1",
        "interaction data.zarr --variable x --variable y": "takes three variables, got 2",
        "difference data.zarr --variable x --variable y": "takes three variables",
        "lags data.zarr --variable x --variable y --lags 1:2:3:4": "FIRST:END:STEP, as 0:25, got",
        "conditional data.zarr --variable x --given z": "give --variable twice; got 1",
        "cause residuals data.zarr --variable x --variable y": "Missing option '--given'",
        "cause pairs empty": "must be a folder with files pair0001.txt",
        "cause pairs pairs --plot": "requires an argument",
        "checkpoints list": "Missing argument 'URL'",
        "checkpoints list nothing": "there must be a checkpoint",
        "checkpoints list nowhere://x": "a URL must be of a kind",
        "checkpoints list forged": "must have format 2",
        "checkpoints clean data.zarr --yes": "there must be a checkpoint",
        "checkpoints clean empty --yes": "there must be a checkpoint",
        "checkpoints clean forged --yes": "must have format 2",
        "checkpoints clean '' --yes": "must be the path or URL of a folder",
        "checkpoints clean s3://me:secret@bucket/x --yes": "without user name",
        "checkpoints remove x": "No such command 'remove'",
        "submit -- test": "Missing option '--cluster'",
        "submit --spec no.yaml -- test x": "write --cluster FILE",
        "submit --cluster table.csv -- test data.zarr --variable x --variable y": "must be",
        "submit --cluster no.yaml -- test data.zarr --variable x --variable y": "cannot be read",
        "submit --cluster table.csv --detach --render-only -- test": "give one of them",
        "status": "Missing argument 'RUN'",
        "status x --runs table.csv": "--runs must be a folder",
        "result ../../etc --runs empty": "got '../../etc'",
        "cancel 20260101-000000-aaaaaa --runs empty": "there are none yet",
    },
    "test data.zarr": {
        "--variable x": "two or more",
        "--variable x --variable yy": "did you mean 'y'?",
        "--variable x --variable x": "different words",
        "--variable 'x[:, 7]' --variable y": "x[:, 7]",
        "--variable 'x[:, thrid]' --variable y": "did you mean 'third'",
        "--variable x[0:2] --variable y": "write [:, 0:2] if these are columns",
        "--variable x[all] --variable y": "columns are written behind the rows, as [:, 0:10]",
        "--variable x=y=z --variable y": "got 'x=y=z'",
        "--variable x --variable gap": "'gap' has NaN or infinity, first in row 170",
        "--variable x --variable constant": "'constant' is constant",
        "--variable x --variable short": "same rows",
        "--variable x --variable cube": "shape",
    },
    "test data.zarr --variable x --variable y": {
        "--calibrate": "a plan times a block of the data",
        "--kernel yy=linear": "did you mean 'y'?",
        "--kernel 'gaussian|gausian'": "did you mean 'gaussian'",
        "--kernel x=linear --kernel x=delta": "twice for variable 'x'",
        "--kernel linear --kernel delta": "twice for all",
        f"--kernel {'q' * 900}": "a kernel must be one of gaussian",
        "--estimator nystrom-m:many": "as '8sqrt', got 'many'",
        "--estimator nystrom-m:99999": "300",
        "--estimator v-hsic:n_landmarks=9": "fields of unbiased_estimate=False, each",
        "--estimator rff-hsic:feature=9": "did you mean 'n_features'",
        "--estimator nystrom:9": "did you mean 'nystrom-m'",
        "--exponent 0": "write as --estimator block-hsic:exponent=VALUE",
        "--kernel grid:factors=wide": "factors of a grid must be numbers",
        "--kernel 'grid:factors=1|-1'": "got (1.0, -1.0)",
        "--kernel 'grid:factors=1|2' --null gamma": "several kernels for a variable need",
        "--kernel grid:gaussian,combine=none": "combine must be one of",
        "--kernel rq:gama=2": "did you mean 'gamma'",
        "--seed 1 --seed 2": "--seed is given twice: give it once",
        "--alpha 0.1 --alpha 0.2": "--alpha is given twice",
        "--null chi": "'auto', 'shifts', 'chain', 'permutation'",
        "--estimator u-hsic --null gamma": "null 'gamma' is not available for u-hsic; choose auto",
        "--group-rows 9": "write as --null permutation:group_rows=VALUE",
        "--resamples 0": "x>=1",
        "--null shifts:99 --resamples 9": "got 9 beside Shifts(n_resamples=99): set it in",
        "--null gamma:1": "must have no fields",
        "--alpha 1": "less than 1",
        "--alpha nan": "got nan",
        "--seed -1": "x>=0",
        "--strata nothing": "needs an array 'nothing'",
        "--groups label": "the null permutes whole groups with equally many rows",
        "--weights label": "weights must be one column of numbers",
        "--order rows": "'rows' is not",
        "--lag 5": "write as --order time:lag=VALUE",
        "--order time:lag=0": "lag must be an integer >= 1",
        "--threads 0": "x>=1",
        "--threads 2 --workers 2": "give one of them",
        "--threads 1 --cluster f": "give one of them",
        "--workers 2 --scheduler tcp://h:1": "give one of them",
        "--scheduler nowhere": "got 'nowhere': write protocol, host and port",
        "--scheduler tcp://192.0.2.1:8786": "has no TLS",
        "--scheduler tls://127.0.0.1:9": "tls must be given for",
        "--scheduler tls://h:1 --tls-ca a": "--tls-ca needs --tls-cert and --tls-key, too",
        "--tls-key a": "--tls-key needs --scheduler",
        "--insecure": "--insecure needs",
        "--scheduler-file /no/file": "No such file",
        "--cluster /no/file.yaml": "No such file",
        "--cluster table.csv": "must be",
        "--cluster f --memory 1GiB": "--memory cannot be combined with --cluster",
        "--memory lots": "such as '2GiB'",
        "--memory 1MiB": "1.0 MiB are allowed",
        "--resample 9": "Did you mean '--resamples'? (see 'dhsic test --help')",
        "--json -": "give the name of a file; got '-'",
        "--json no/where.json": "does not exist: create it first",
        "--json .": "give the name of a file",
        "--json table.csv": "table.csv exists: give another name, or --overwrite to replace it",
        "--report table.csv": "--report: ",
        "--performance-report table.csv": "exists: give another name",
        "--json page --report page": "--json and --report name the same file",
        "--json log --log-json log": "--log-json",
        "--performance-report page.html": "needs worker processes",
        "--log-json no/log": "does not exist: create it first",
        "--log-json ''": "the name of a file, or - for stderr",
        "--checkpoint s3://me:secret@b/k --workers 2": "checkpoint must be a URL without user name",
    },
    "sensitivity data.zarr --variable x --variable y": {
        "--wrt z": "wrt must be a list of variables, got 'z'; there are 'x', 'y'",
        "--estimator dcov": "needs estimator 'nystrom-m', 'v-hsic' or 'rff-hsic'",
        "--kernel 'gaussian|laplacian'": "needs one kernel for each variable",
        "--kernel delta": "'x' must have a differentiable kernel",
        "--out no/map.zarr": "is not a folder: create it first",
        "--out data.zarr": "already exists",
        "--variable 'z[:, 0:2]' --out map.zarr": "cannot name an array",
        "--top 0": "0 is not in the range x>=1",
        "--of both": "'both' is not one of 'statistic', 'estimate'",
        "--missing pairwise": "'pairwise' is not one of 'refuse', 'drop'",
        "--null gamma": "No such option",
    },
    "rank data.zarr --features x --target y": {
        "--lag 5": "write as --order time:lag=VALUE",
        "--groups label": "groups with equally many rows",
        "--row-groups label": "rows that belong together are groups",
        "--column-group a": "--column-group must be NAME=COLUMNS",
        "--column-group a=b": "by numbers from 0 to 2 or by name; got ['b']",
        "--column-group a=0 --column-group a=1": "each name once",
        "--kernel gausian": "did you mean 'gaussian'",
        "--estimator nystrom-m:many": "n_landmarks must be",
        "--target y": "--target is given twice",
        "--features gone": "--features is given twice",
        "--control fdr": "'bh'",
    },
    "two-sample data.zarr --sample x --sample far": {
        "--sample y": "samples must have the same columns",
        "--sample x": "different words, one a sample",
        "--sample none": "needs an array 'none'",
        "--estimator block-mmd --null gamma": "is not available for block",
        "--estimator v-hsic": "'v-hsic' is not one of 'auto', 'nystrom-mmd'",
        "--kernel x=gaussian": "there are: values",
        "--estimator nystrom-mmd:501": "n_landmarks must be at most the number of rows",
        "--groups fives": "labels of each of the 2 samples",
    },
    "interaction data.zarr --variable x --variable y --variable z": {
        "--variable 'w=x[:, 0:1]'": "takes three variables, got 4",
        "--kernel 'gaussian|imq'": "one kernel for each variable",
        "--estimator v-lancaster:9": "must be True or False, got 9",
        "--null multiplier": "random signs were removed: take --null shifts",
        "--estimator nystrom-lancaster:auto": "a multiple of sqrt",
        "--missing pairwise": "'pairwise' is not one of 'refuse', 'drop'",
    },
    "conditional data.zarr --variable x --variable y --given z": {
        "--method fast": "'fast' is not one of",
    },
    "cause dags data.zarr --variable cause --variable effect": {
        "--variable label": "'label' holds categories",
        "--regression spline": "'splines', 'random-forest'",
        "--regression random-forest:n_knots=5": "must have fields of n_folds=5, each once",
        "--regression splines:n_folds=0": "n_folds must be an integer >= 1",
        "--kernel 'gaussian|laplacian'": "one kernel for",
        "--plot picture.doc": "ends in a format",
        "--plot one --json one": "name the same file",
        "--alpha 2": "alpha must be greater than 0",
    },
    "cause order data.zarr --variable cause --variable effect": {
        "--variable d": "needs an array 'd'",
    },
    "cause direction data.zarr --variable cause --variable effect": {
        "--variable y": "two variables are needed: give --variable twice",
        "--criterion hsic --resamples 9": "n_resamples",
        "--criterion hsic --null gamma": "null",
        "--max-rows 2": "max_rows must be an integer >= 4",
    },
    "cause residuals data.zarr --variable x --variable y": {
        "--variable z --given label": "two variables are needed: give --variable twice",
        "--given x": "different words, one a variable",
    },
}


PYTHON = "between|client|criterion|data|memory|missing|null|overwrite|regression|rng|threads"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refusals")
    write_files(folder)
    return folder


def everything(folder):
    return sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*"))


def check_refusal(line, words):
    """One message on stderr that has the words, and exit code 2."""
    done = CliRunner().invoke(main, shlex.split(line))
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert done.stderr.startswith("dhsic: error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
    assert len(done.stderr.strip()) <= 600
    assert not re.search(rf"\b({PYTHON})=|dhsic\.(open|[a-z]+_)", done.stderr)
    assert words in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"{base} {more}", words)
        for base, cases in COMMANDS.items()
        for more, words in cases.items()
    ],
)
def test_command__refuses_in_a_line(line, words, files, monkeypatch):
    monkeypatch.chdir(files)
    before = everything(files)
    check_refusal(line, words)
    assert everything(files) == before


PAIRS_OF_FILES = [
    ({"pair0001.txt": "1 2 3\n"}, "must have two columns"),
    ({"pair0001.txt": "1 a\n"}, "must hold numbers in columns"),
    ({"pair0001.txt": "1 2\n", "pairmeta.txt": "0002 1 1 2 2 1\n"}, "a line for pair0001.txt"),
    ({"pair0001.txt": "1 2\n", "pairmeta.txt": "0001 1 1 3 3 1\n"}, "columns of the 2"),
    ({"pair0001.txt": "1 2\n", "pairmeta.txt": "0001 1 1 2\n"}, "six numbers a line"),
    ({"pair0001.txt": "1 nan\n2 3\n4 5\n1 2\n"}, "pair 'pair0001': variable 'x2' has NaN"),
]


@pytest.mark.parametrize(("texts", "words"), PAIRS_OF_FILES)
def test_pairs__that_cannot_be_read_are_refused(texts, words, tmp_path):
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    check_refusal(f"cause pairs {tmp_path}", words)


CLUSTERS = {
    "kind: slrum": "did you mean 'slurm'",
    "kind: local\nworkers: 0": "an integer >= 1, got 0",
    "kind: local\nmemory: 1MiB": "1.0 MiB are allowed",
    "kind: slurm\nworkers: 2\nslurm: {queue: ''}": "queue must be text in one line, not empty",
    "kind: scheduler\nscheduler: {address: 'tcp://192.0.2.1:1'}": "has no TLS",
    "kind: gateway\nworkers: 1\ngateway: {address: ftp://h}": "gateway: address must be a URL",
}


@pytest.mark.parametrize("text", CLUSTERS)
def test_cluster__that_cannot_be_is_refused(text, files, tmp_path):
    (tmp_path / "cluster.yaml").write_text(text)
    variables = f"{files}/data.zarr --variable x --variable y"
    check_refusal(f"test {variables} --cluster {tmp_path}/cluster.yaml", CLUSTERS[text])


@pytest.mark.parametrize("place", [0, 1, 5])
def test_debug__shows_the_traceback_wherever_it_stands(place):
    words = ["test", "nowhere.zarr", "--variable", "x", "--variable=y"]
    done = CliRunner().invoke(main, [*words[:place], "--debug", *words[place:]])
    assert done.exit_code == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("dhsic: error: ")
