"""Cells of results that are kept: statistic, sorted replicates, p-value and estimate.

    python -m tests.reference.golden            compares, and prints the largest difference a cell
    python -m tests.reference.golden --write    computes all cells anew and replaces the file

Where only the inside of the package moves, no cell changes. A change that is meant, as of a default
or of a draw, is a commit of its own that says which cells it changes and why. Kernels have their
bandwidths, landmarks and features their number, nulls their number of replicates; what is drawn
follows from the seed. Cells of `DEFAULTS` leave choices to the package.
"""

# ruff: noqa: T201
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import dhsic
from dhsic.kernels import (
    Columns,
    Delta,
    Distance,
    Gaussian,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
)

FILE = Path(__file__).with_name("golden.npz")
TOLERANCES = {"float64": 1e-9, "float32": 1e-5}

Fields = dict[str, np.ndarray]


def continuous(n, *dims, seed=1):
    """Variables of so many columns, each of which depends on the first column a little."""
    rng = np.random.default_rng(seed)
    shared = rng.random((n, 1))
    return [0.4 * shared + rng.random((n, d)) for d in dims]


def discrete(n, *dims, seed=2):
    """Counts with many ties."""
    return [np.floor(4.0 * x) for x in continuous(n, *dims, seed=seed)]


def gapped(n, *dims):
    """Some values are missing."""
    variables = continuous(n, *dims)
    for m, x in enumerate(variables):
        x[m :: 11 + m, 0] = np.nan
    return variables


def samples(*sizes):
    """Samples of two columns, of which each is shifted a little."""
    rng = np.random.default_rng(3)
    return [rng.random((n, 2)) + 0.2 * k for k, n in enumerate(sizes)]


def some(replicates) -> np.ndarray:
    """In order; of many every twentieth."""
    return np.sort(replicates)[:: 1 if len(replicates) <= 500 else 20]


def replicated(result) -> Fields:
    return {
        "statistic": result.statistic,
        "replicates": some(result.null_distribution),
        "pvalue": result.pvalue,
        "estimate": result.estimate,
    }


def scored(result) -> Fields:
    """Of a grid or a chain, where the score of all kernels decides."""
    return replicated(result) | {
        "score": result.score,
        "scores of replicates": some(result.null_scores),
    }


def staged(result) -> Fields:
    return replicated(result) | {
        "p-values of stages": [stage.pvalue for stage in result.stages],
    }


def estimated(result) -> Fields:
    return {"estimate": result.estimate}


def of_pairs(result) -> Fields:
    return {"hsic": result.hsic, "cka": result.cka, "pvalue": result.pvalues}


def of_columns(result) -> Fields:
    rows = {one.name: one for one in result.features}
    ranked = [rows[name] for name in sorted(rows)]
    return {
        "pvalue": [one.pvalue for one in ranked],
        "hsic": [one.hsic for one in ranked],
        "cka": [one.cka for one in ranked],
    }


def of_selection(result) -> Fields:
    return {"scores": result.scores, "columns": np.concatenate(result.columns)}


def of_factorisations(result) -> Fields:
    return {
        "statistic": result.statistic,
        "pvalue": result.pvalue,
        "estimate": result.estimate,
        "p-values": [one.pvalue for one in result.factorisations],
    }


def of_map(result) -> Fields:
    return {"value": result.value, "features": np.concatenate([*result.features.values()])}


@dataclass(frozen=True)
class Cell:
    """A call, and what is kept of its result."""

    name: str
    variables: list[np.ndarray]
    options: Mapping[str, Any] = field(default_factory=dict)
    call: Callable[..., Any] = dhsic.independence_test
    keep: Callable[[Any], Fields] = replicated

    @property
    def precision(self) -> str:
        return self.options.get("precision", "float64")

    def compute(self, *variables: Any, **place: Any) -> Fields:
        """Of the variables as they are given, or of the arrays."""
        result = self.call(*(variables or self.variables), rng=5, **self.options, **place)
        return {name: np.atleast_1d(value) for name, value in self.keep(result).items()}


def differences(found: Fields, kept: Fields) -> float:
    """The largest difference, relative to the largest value of each field."""
    if found.keys() != kept.keys() or any(found[k].shape != kept[k].shape for k in kept):
        return float("inf")
    return max(
        float(np.abs(found[k] - kept[k]).max() / max(np.abs(kept[k]).max(), np.finfo(float).tiny))
        for k in kept
    )


ONE = [Gaussian(gamma=2.0)] * 2
FEW = [Gaussian(gamma=0.7), Matern(nu=2.5, length=0.9)]
SHIFTS = dhsic.Shifts(60)
PERMUTATIONS = dhsic.Permutation(40)
WITHIN = dhsic.Permutation(40, within="groups", group_rows=40)
PAIR, WIDE, COUNTS = continuous(120, 1, 1), continuous(150, 3, 2), discrete(100, 2, 1)
TRIPLE, FOUR = continuous(90, 1, 2, 1), continuous(80, 1, 1, 2, 1)
LARGE = continuous(400, 2, 3)
THREE_KERNELS = [Gaussian(gamma=2.0), Laplacian(gamma=0.8), Gaussian(gamma=1.5)]
FOUR_KERNELS = [*THREE_KERNELS, RationalQuadratic(alpha=1.5, gamma=0.6)]


def independence(name, variables, kernels, estimator, null=SHIFTS, keep=replicated, **options):
    return Cell(
        name,
        variables,
        {"kernels": kernels, "estimator": estimator, "null": null} | options,
        keep=keep,
    )


ALL_PAIRS = [
    independence("v-hsic, shifts", PAIR, ONE, dhsic.VHSIC()),
    independence("v-hsic, shifts and cosets", WIDE, FEW, dhsic.VHSIC(), dhsic.Shifts(400)),
    independence("v-hsic, shifts, float32", WIDE, FEW, dhsic.VHSIC(), precision="float32"),
    independence("v-hsic, shifts, ties", COUNTS, [Delta(), Gaussian(gamma=0.3)], dhsic.VHSIC()),
    independence("v-hsic, permutation", WIDE, FEW, dhsic.VHSIC(), PERMUTATIONS),
    independence("v-hsic, permutation within groups", PAIR, ONE, dhsic.VHSIC(), WITHIN),
    independence("v-hsic, gamma", WIDE, FEW, dhsic.VHSIC(), dhsic.Gamma()),
    independence("v-hsic, spectral", WIDE, FEW, dhsic.VHSIC(), dhsic.Spectral()),
    independence(
        "v-hsic of three, permutation", TRIPLE, THREE_KERNELS, dhsic.VHSIC(), PERMUTATIONS
    ),
    independence("v-hsic of three, shifts", TRIPLE, THREE_KERNELS, dhsic.VHSIC()),
    independence("v-hsic of four, permutation", FOUR, FOUR_KERNELS, dhsic.VHSIC(), PERMUTATIONS),
    independence("v-hsic, two groups of rows", continuous(1100, 1, 1), ONE, dhsic.VHSIC()),
    independence("u-hsic, shifts", WIDE, FEW, dhsic.UHSIC()),
    independence(
        "u-hsic, permutation, ties", COUNTS, [Linear(), Delta()], dhsic.UHSIC(), PERMUTATIONS
    ),
    independence("u-hsic, spectral", PAIR, ONE, dhsic.UHSIC(), dhsic.Spectral()),
    independence("dcov, shifts", WIDE, None, dhsic.DCov(exponent=1.0)),
    independence("dcov of single columns, permutation", PAIR, None, dhsic.DCov(), PERMUTATIONS),
    independence("dcor, unbiased, shifts", WIDE, None, dhsic.DCor(exponent=1.3, unbiased=True)),
    independence("dcor, gamma", PAIR, None, dhsic.DCor(), dhsic.Gamma()),
    independence("sub-hsic, shifts", WIDE, FEW, dhsic.SubHSIC()),
    independence("sub-hsic, gamma", PAIR, ONE, dhsic.SubHSIC(), dhsic.Gamma()),
]
ROOT = dhsic.NystromHSIC(n_landmarks=30)
FEATURES = [
    independence("nystrom-hsic, shifts", WIDE, FEW, ROOT),
    independence("nystrom-hsic, shifts, float32", WIDE, FEW, ROOT, precision="float32"),
    independence("nystrom-hsic, shifts, ties", COUNTS, [Delta(), Gaussian(gamma=0.3)], ROOT),
    independence("nystrom-hsic, permutation", WIDE, FEW, ROOT, PERMUTATIONS),
    independence("nystrom-hsic, permutation within groups", LARGE, FEW, ROOT, WITHIN),
    independence("nystrom-hsic, gamma", LARGE, FEW, ROOT, dhsic.Gamma()),
    independence("nystrom-hsic, spectral", LARGE, FEW, ROOT, dhsic.Spectral()),
    independence(
        "nystrom-hsic of principal features", LARGE, FEW, dhsic.NystromHSIC(60, n_features=20)
    ),
    independence(
        "nystrom-hsic, unbiased", LARGE, FEW, dhsic.NystromHSIC(40, unbiased_estimate=True)
    ),
    independence("rff-hsic, shifts", WIDE, FEW, dhsic.RFFHSIC(n_features=24)),
    independence(
        "rff-hsic, complex, permutation", PAIR, ONE, dhsic.RFFHSIC(20, "complex"), PERMUTATIONS
    ),
    independence(
        "rff-hsic, orthogonal, spectral", WIDE, FEW, dhsic.RFFHSIC(20, orthogonal=True), "spectral"
    ),
    independence("rff-hsic, gamma", WIDE, FEW, dhsic.RFFHSIC(20), dhsic.Gamma()),
    independence(
        "rff-hsic of three, permutation", TRIPLE, THREE_KERNELS, dhsic.RFFHSIC(16), PERMUTATIONS
    ),
    independence("cka, shifts", WIDE, FEW, dhsic.CKA(25)),
    independence("cka, spectral", LARGE, FEW, dhsic.CKA(25), dhsic.Spectral()),
    independence("nocco, shifts", WIDE, FEW, dhsic.NOCCO(25, regularisation=0.1)),
    independence(
        "nocco, permutation", PAIR, ONE, dhsic.NOCCO(20, regularisation=0.05), PERMUTATIONS
    ),
    independence("coco, shifts", WIDE, FEW, dhsic.COCO(25)),
    independence("coco, permutation", PAIR, ONE, dhsic.COCO(20), PERMUTATIONS),
    independence("sub-corr, shifts", WIDE, None, dhsic.SubCorr()),
    independence("sub-corr, spectral", LARGE, None, dhsic.SubCorr(), dhsic.Spectral()),
]
JOINT = dhsic.NystromMHSIC(30, pairing="joint")
APART = dhsic.NystromMHSIC(30, pairing="independent")
LANDMARKS = [
    independence("nystrom-m, independent landmarks, shifts", WIDE, FEW, APART),
    independence("nystrom-m, joint landmarks, shifts", WIDE, FEW, JOINT),
    independence("nystrom-m, float32", WIDE, FEW, APART, precision="float32"),
    independence("nystrom-m, ties", COUNTS, [Delta(), Gaussian(gamma=0.3)], APART),
    independence("nystrom-m, permutation within groups", LARGE, FEW, APART, WITHIN),
    independence("nystrom-m of three, permutation", TRIPLE, THREE_KERNELS, APART, PERMUTATIONS),
    independence("nystrom-m of three, joint landmarks", TRIPLE, THREE_KERNELS, JOINT, PERMUTATIONS),
    independence("nystrom-m of four, permutation", FOUR, FOUR_KERNELS, APART, PERMUTATIONS),
    independence("nystrom-m of four, shifts", FOUR, FOUR_KERNELS, APART),
    independence("nystrom-m, gamma", LARGE, FEW, JOINT, dhsic.Gamma()),
    independence(
        "nystrom-m of three, spectral", continuous(400, 1, 2, 1), THREE_KERNELS, JOINT, "spectral"
    ),
]
OTHERS = [
    independence("nfsic, chi-square", LARGE, FEW, dhsic.NFSIC(5, "random"), dhsic.ChiSquare()),
    independence(
        "nfsic, optimised, permutation", WIDE, FEW, dhsic.NFSIC(3, training_rows=60), PERMUTATIONS
    ),
    independence("nfsic of three, shifts", TRIPLE, THREE_KERNELS, dhsic.NFSIC(4, "random")),
    independence("block-hsic, direct", LARGE, FEW, dhsic.BlockHSIC(block_rows=20), dhsic.Normal()),
    independence(
        "block-hsic, permutation", LARGE, FEW, dhsic.BlockHSIC(20), dhsic.Normal("permutation")
    ),
    independence(
        "block-hsic, empirical", LARGE, FEW, dhsic.BlockHSIC(20), dhsic.Normal("empirical")
    ),
]


def grid(aggregate, share=0.5):
    return dhsic.Grid(
        dhsic.Candidates([Gaussian(gamma=1.0), Laplacian(gamma=1.0)], (1.0, 0.5)),
        combine="all",
        aggregate=aggregate,
        reference_share=share,
    )


GRIDS = [
    independence("grid, soft, v-hsic", PAIR, grid("soft"), dhsic.VHSIC(), keep=scored),
    independence("grid, max, v-hsic", PAIR, grid("max"), dhsic.VHSIC(), keep=scored),
    independence(
        "grid, min-p, u-hsic", PAIR, grid("min-p"), dhsic.UHSIC(), PERMUTATIONS, keep=scored
    ),
    independence("grid, soft, nystrom-hsic", WIDE, grid("soft", 0.0), ROOT, keep=scored),
    independence("grid, max, nystrom-m", WIDE, grid("max"), APART, keep=scored),
    independence("grid, soft, rff-hsic", WIDE, grid("soft"), dhsic.RFFHSIC(20), keep=scored),
    independence(
        "chain, Sidak, v-hsic", TRIPLE, THREE_KERNELS, dhsic.VHSIC(), dhsic.Chain(60), staged
    ),
    independence(
        "chain, Fisher, nystrom-m", FOUR, FOUR_KERNELS, APART, dhsic.Chain(60, "fisher"), staged
    ),
]
ROWS = [
    independence("strata, v-hsic", WIDE, FEW, dhsic.VHSIC(), strata=np.arange(150) % 3),
    independence("groups, nystrom-hsic", WIDE, FEW, ROOT, groups=np.arange(150) // 3),
    independence("series, v-hsic", PAIR, ONE, dhsic.VHSIC(), order=dhsic.TimeOrder(lag=4)),
    independence("gaps, v-hsic", gapped(110, 2, 1), FEW, dhsic.VHSIC(), missing="pairwise"),
    independence("gaps, nystrom-hsic", gapped(110, 2, 1), FEW, ROOT, missing="pairwise"),
    independence(
        "weights, nystrom-hsic", WIDE, FEW, ROOT, "spectral", weights=1.0 + np.arange(150) % 4
    ),
]


def estimate(name, variables, kernels, estimator, **options):
    options = {"kernels": kernels, "estimator": estimator} | options
    return Cell(f"estimate, {name}", variables, options, dhsic.hsic, estimated)


ESTIMATES = [
    estimate("v-hsic", FOUR, FOUR_KERNELS, dhsic.VHSIC()),
    estimate("u-hsic", WIDE, [Polynomial(2, 0.5, gamma=0.4), InverseMultiquadric(0.8)], "u-hsic"),
    estimate("nystrom-m, Lemma 4.2", TRIPLE, THREE_KERNELS, JOINT),
    estimate("nystrom-hsic", WIDE, [Columns(Laplacian(gamma=0.5)), Distance(0.8)], ROOT),
    estimate("coco", WIDE, FEW, dhsic.COCO(20)),
    estimate("block-hsic", LARGE, FEW, dhsic.BlockHSIC(25)),
]


def lancaster(name, variables, kernels, estimator, null):
    options = {"kernels": kernels, "estimator": estimator, "null": null}
    return Cell(name, variables, options, dhsic.interaction_test, of_factorisations)


def two_sample(name, variables, estimator, null, **options):
    options = {"kernels": Gaussian(gamma=0.8), "estimator": estimator, "null": null} | options
    return Cell(name, variables, options, dhsic.two_sample_test)


def embeddings(first, second, rng, **place):
    """The distance of two mean embeddings."""
    one = dhsic.mean_embedding(first, Gaussian(gamma=0.9), 25, rng=rng, **place)
    return dhsic.mmd(one, one.like(second, **place))


def conditional(name, method, given):
    options = {"kernels": [Gaussian(gamma=1.5)] * 2, "method": method}
    x, y = continuous(200, 1, 1)
    return Cell(name, [x, y, given], options, dhsic.conditional_independence_test)


COLUMNS = [np.hstack(continuous(130, 2, 2)), np.random.default_rng(1).random((130, 1))]
RANKED = {
    "feature_kernels": Gaussian(gamma=1.2),
    "target_kernel": Gaussian(gamma=2.0),
    "names": ("a", "b", "c", "d"),
}
STRATA = (np.arange(200) % 3.0)[:, None]


def residuals(x, y, given, **options):
    return dhsic.causal.residual_independence_test(x, y, given=given, **options)


SIBLINGS = [
    lancaster("interaction, v-lancaster", TRIPLE, THREE_KERNELS, "v-lancaster", PERMUTATIONS),
    lancaster("interaction, nystrom-lancaster", TRIPLE, THREE_KERNELS, APART, SHIFTS),
    lancaster("interaction, v-hsic", TRIPLE, THREE_KERNELS, dhsic.VHSIC(), PERMUTATIONS),
    two_sample("two samples, v-mmd", samples(50, 60), "v-mmd", SHIFTS),
    two_sample("two samples, u-mmd, permutation", samples(50, 60), "u-mmd", PERMUTATIONS),
    two_sample("two samples, nystrom-mmd", samples(50, 60), ROOT, SHIFTS),
    two_sample("three samples, v-mmd", samples(30, 40, 35), "v-mmd", SHIFTS),
    Cell("mean embeddings", samples(90, 80), {}, embeddings, lambda value: {"mmd": value}),
    Cell(
        "matrix, shifts",
        TRIPLE,
        {"kernels": THREE_KERNELS, "n_landmarks": 20, "null": SHIFTS},
        dhsic.dependence_matrix,
        of_pairs,
    ),
    Cell(
        "matrix, spectral",
        continuous(300, 1, 2, 1),
        {"kernels": THREE_KERNELS, "n_landmarks": 20, "null": "spectral"},
        dhsic.dependence_matrix,
        of_pairs,
    ),
    Cell(
        "ranking, nystrom-hsic",
        COLUMNS,
        RANKED | {"estimator": ROOT, "null": SHIFTS},
        dhsic.rank_features,
        of_columns,
    ),
    Cell(
        "ranking, v-hsic, permutation",
        COLUMNS,
        RANKED | {"estimator": dhsic.VHSIC(), "null": PERMUTATIONS},
        dhsic.rank_features,
        of_columns,
    ),
    Cell(
        "selection, forward",
        COLUMNS,
        {
            "feature_kernel": Gaussian(gamma=1.2),
            "target_kernel": Gaussian(gamma=2.0),
            "estimator": JOINT,
            "k": 2,
        },
        dhsic.select_features,
        of_selection,
    ),
    Cell(
        "sensitivity",
        WIDE,
        {"kernels": FEW, "estimator": JOINT},
        dhsic.sensitivity_map,
        of_map,
    ),
    conditional("conditional, kernel", "kernel", continuous(200, 2, seed=4)[0]),
    conditional("conditional, strata", "strata", STRATA),
    Cell(
        "residuals of splines",
        continuous(140, 1, 1, 1),
        {"kernels": Gaussian(gamma=1.0), "estimator": ROOT, "null": PERMUTATIONS},
        residuals,
    ),
    Cell(
        "direction of a pair",
        continuous(140, 1, 1),
        {"estimator": ROOT, "kernel": Gaussian(gamma=1.0), "null": PERMUTATIONS},
        dhsic.causal.direction,
        lambda result: {"score": result.score},
    ),
    Cell(
        "scores of graphs",
        continuous(120, 1, 1, 1),
        {"kernels": Gaussian(gamma=1.0), "estimator": APART, "null": PERMUTATIONS},
        dhsic.causal.score_dags,
        lambda result: {"statistic": result.statistics, "pvalue": result.pvalues},
    ),
]
DEFAULTS = [
    Cell("default of two", PAIR, keep=scored),
    Cell("default of two, many rows", continuous(2200, 1, 2), keep=scored),
    Cell("default of three", TRIPLE, keep=staged),
    Cell("default of two samples", samples(50, 60), call=dhsic.two_sample_test),
    Cell("default of an estimate", WIDE, call=dhsic.hsic, keep=estimated),
    Cell("default of a matrix", TRIPLE, call=dhsic.dependence_matrix, keep=of_pairs),
]
CELLS = {
    cell.name: cell
    for cells in (
        *(ALL_PAIRS, FEATURES, LANDMARKS, OTHERS, GRIDS),
        *(ROWS, ESTIMATES, SIBLINGS, DEFAULTS),
    )
    for cell in cells
}


def read(path: Path | None = None) -> dict[str, Fields]:
    """The kept fields of every cell."""
    kept: dict[str, Fields] = {}
    with np.load(path or FILE, allow_pickle=False) as stored:
        for key in stored.files:
            name, what = key.split(": ")
            kept.setdefault(name, {})[what] = stored[key]
    return kept


def write(cells: Mapping[str, Fields], path: Path | None = None) -> None:
    arrays = {f"{name}: {what}": x for name, fields in cells.items() for what, x in fields.items()}
    np.savez_compressed(path or FILE, **arrays)


def main(arguments: list[str]) -> int:
    found = {name: cell.compute() for name, cell in CELLS.items()}
    if arguments == ["--write"]:
        write(found)
        print(f"wrote {len(found)} cells")
        return 0
    kept = read()
    wrong = 0
    for name in sorted({*found, *kept}):
        if name not in found or name not in kept:
            print(f"{name}: {'is kept no more' if name in kept else 'is not kept'}")
            wrong += 1
            continue
        off = differences(found[name], kept[name])
        print(f"{name}: {off:.1e}")
        wrong += not off <= TOLERANCES[CELLS[name].precision]
    print(f"{wrong} of {len(found)} cells differ; --write replaces what is kept")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
