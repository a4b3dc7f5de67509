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
ROUNDED = {
    "conditional, kernel": 1e-2,
    "default of two, many rows": 2e-4,
    "nystrom-hsic, spectral": 1e-5,
    "cka, spectral": 1e-6,
    "weights, nystrom-hsic": 1e-6,
    "matrix, spectral": 1e-7,
    "scores of graphs": 1e-7,
    "default of a matrix": 1e-8,
}
"""Cells that small eigenvalues decide, by more than NumPy versions and processors differ.

An AMD EPYC without AVX-512 differed from the processor that wrote the file by 5.5e-3 in the first
cell, 2.1e-8 in "matrix, spectral" and 1.2e-9 in the last; OpenBLAS for Sandybridge, Nehalem and
Prescott, with NumPy without AVX2, by 3.2e-3, 6.4e-5, 1.8e-8, 2.8e-8, 1.3e-7, 2.9e-8, 2.8e-8 and
2.4e-9 in these. NumPy 2.4 and 2.5 differ by 2e-4 in the first.
"""

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


def without_estimate(result) -> Fields:
    """Leave out an estimate that is nearly 0, of which rounding makes a sixth."""
    return {name: value for name, value in replicated(result).items() if name != "estimate"}


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
    # NumPy's maximum, which NaN passes through; Python's may leave one out.
    return float(
        np.max(
            [
                np.abs(found[k] - kept[k]).max() / max(np.abs(kept[k]).max(), np.finfo(float).tiny)
                for k in kept
            ]
        )
    )


ONE = [Gaussian(gamma=2.0)] * 2
FEW = [Gaussian(gamma=0.7), Matern(nu=2.5, length=0.9)]
TIED = [Delta(), Gaussian(gamma=0.3)]
SHIFTS, COSETS, PERMUTED = dhsic.Shifts(60), dhsic.Shifts(400), dhsic.Permutation(40)
WITHIN = dhsic.Permutation(40, within="groups", group_rows=40)
GAMMA, SPECTRAL = dhsic.Gamma(), dhsic.Spectral()
PAIR, WIDE, COUNTS = continuous(120, 1, 1), continuous(150, 3, 2), discrete(100, 2, 1)
THREE, FOUR = continuous(90, 1, 2, 1), continuous(80, 1, 1, 2, 1)
LARGE, MANY = continuous(400, 2, 3), continuous(1100, 1, 1)
THREE_OF_400 = continuous(400, 1, 2, 1)
KERNELS = [Gaussian(2.0), Laplacian(0.8), Gaussian(1.5), RationalQuadratic(1.5, 0.6)]
V, U, ROOT = dhsic.VHSIC(), dhsic.UHSIC(), dhsic.NystromHSIC(n_landmarks=30)
PRINCIPAL = dhsic.NystromHSIC(60, n_features=20)
UNBIASED = dhsic.NystromHSIC(40, unbiased_estimate=True)
RFF, COMPLEX, ORTHOGONAL = (
    dhsic.RFFHSIC(20),
    dhsic.RFFHSIC(20, "complex"),
    dhsic.RFFHSIC(20, orthogonal=True),
)
CKA, COCO, NOCCO = dhsic.CKA(25), dhsic.COCO(20), dhsic.NOCCO(25, regularisation=0.1)
JOINT = dhsic.NystromMHSIC(30, pairing="joint")
APART = dhsic.NystromMHSIC(30, pairing="independent")
BLOCK, RANDOM = dhsic.BlockHSIC(block_rows=20), dhsic.NFSIC(4, "random")
OPTIMISED = dhsic.NFSIC(3, training_rows=60)
SINGLE = {"precision": "float32"}

# Variables, their kernels, estimator, null, and other options.
TESTS = {
    "v-hsic, shifts": (PAIR, ONE, V, SHIFTS),
    "v-hsic, shifts and cosets": (WIDE, FEW, V, COSETS),
    "v-hsic, shifts, float32": (WIDE, FEW, V, SHIFTS, SINGLE),
    "v-hsic, shifts, ties": (COUNTS, TIED, V, SHIFTS),
    "v-hsic, permutation": (WIDE, FEW, V, PERMUTED),
    "v-hsic, permutation within groups": (PAIR, ONE, V, WITHIN),
    "v-hsic, gamma": (WIDE, FEW, V, GAMMA),
    "v-hsic, spectral": (WIDE, FEW, V, SPECTRAL),
    "v-hsic of three, permutation": (THREE, KERNELS, V, PERMUTED),
    "v-hsic of three, shifts": (THREE, KERNELS, V, SHIFTS),
    "v-hsic of four, permutation": (FOUR, KERNELS, V, PERMUTED),
    "v-hsic, two groups of rows": (MANY, ONE, V, SHIFTS),
    "u-hsic, shifts": (WIDE, FEW, U, SHIFTS),
    "u-hsic, permutation, ties": (COUNTS, [Linear(), Delta()], U, PERMUTED),
    "u-hsic, spectral": (PAIR, ONE, U, SPECTRAL),
    "dcov, shifts": (WIDE, None, dhsic.DCov(exponent=1.0), SHIFTS),
    "dcov of single columns, permutation": (PAIR, None, dhsic.DCov(), PERMUTED),
    "dcor, unbiased, shifts": (WIDE, None, dhsic.DCor(exponent=1.3, unbiased=True), SHIFTS),
    "dcor, gamma": (PAIR, None, dhsic.DCor(), GAMMA),
    "sub-hsic, shifts": (WIDE, FEW, dhsic.SubHSIC(), SHIFTS),
    "sub-hsic, gamma": (PAIR, ONE, dhsic.SubHSIC(), GAMMA),
    "nystrom-hsic, shifts": (WIDE, FEW, ROOT, SHIFTS),
    "nystrom-hsic, shifts, float32": (WIDE, FEW, ROOT, SHIFTS, SINGLE),
    "nystrom-hsic, shifts, ties": (COUNTS, TIED, ROOT, SHIFTS),
    "nystrom-hsic, permutation": (WIDE, FEW, ROOT, PERMUTED),
    "nystrom-hsic, permutation within groups": (LARGE, FEW, ROOT, WITHIN),
    "nystrom-hsic, gamma": (LARGE, FEW, ROOT, GAMMA),
    "nystrom-hsic, spectral": (LARGE, FEW, ROOT, SPECTRAL),
    "nystrom-hsic of principal features": (LARGE, FEW, PRINCIPAL, SHIFTS),
    "nystrom-hsic, unbiased": (LARGE, FEW, UNBIASED, SHIFTS),
    "rff-hsic, shifts": (WIDE, FEW, RFF, SHIFTS),
    "rff-hsic, complex, permutation": (PAIR, ONE, COMPLEX, PERMUTED),
    "rff-hsic, orthogonal, spectral": (WIDE, FEW, ORTHOGONAL, SPECTRAL),
    "rff-hsic, gamma": (WIDE, FEW, RFF, GAMMA),
    "cka, shifts": (WIDE, FEW, CKA, SHIFTS),
    "cka, spectral": (LARGE, FEW, CKA, SPECTRAL),
    "nocco, shifts": (WIDE, FEW, NOCCO, SHIFTS),
    "nocco, permutation": (PAIR, ONE, NOCCO, PERMUTED),
    "coco, shifts": (WIDE, FEW, COCO, SHIFTS),
    "coco, permutation": (PAIR, ONE, COCO, PERMUTED),
    "sub-corr, shifts": (WIDE, None, dhsic.SubCorr(), SHIFTS),
    "sub-corr, spectral": (LARGE, None, dhsic.SubCorr(), SPECTRAL),
    "nystrom-m, independent landmarks, shifts": (WIDE, FEW, APART, SHIFTS),
    "nystrom-m, joint landmarks, shifts": (WIDE, FEW, JOINT, SHIFTS),
    "nystrom-m, float32": (WIDE, FEW, APART, SHIFTS, SINGLE),
    "nystrom-m, ties": (COUNTS, TIED, APART, SHIFTS),
    "nystrom-m, permutation within groups": (LARGE, FEW, APART, WITHIN),
    "nystrom-m of three, permutation": (THREE, KERNELS, APART, PERMUTED),
    "nystrom-m of three, joint landmarks": (THREE, KERNELS, JOINT, PERMUTED),
    "nystrom-m of four, permutation": (FOUR, KERNELS, APART, PERMUTED),
    "nystrom-m of four, shifts": (FOUR, KERNELS, APART, SHIFTS),
    "nystrom-m, gamma": (LARGE, FEW, JOINT, GAMMA),
    "nystrom-m of three, spectral": (THREE_OF_400, KERNELS, JOINT, SPECTRAL),
    "nfsic, chi-square": (LARGE, FEW, RANDOM, dhsic.ChiSquare()),
    "nfsic, optimised, permutation": (WIDE, FEW, OPTIMISED, PERMUTED),
    "nfsic of three, shifts": (THREE, KERNELS, RANDOM, SHIFTS),
    "block-hsic, direct": (LARGE, FEW, BLOCK, dhsic.Normal()),
    "block-hsic, permutation": (LARGE, FEW, BLOCK, dhsic.Normal("permutation")),
    "block-hsic, empirical": (LARGE, FEW, BLOCK, dhsic.Normal("empirical")),
    "strata, v-hsic": (WIDE, FEW, V, SHIFTS, {"strata": np.arange(150) % 3}),
    "groups, nystrom-hsic": (WIDE, FEW, ROOT, SHIFTS, {"groups": np.arange(150) // 3}),
    "series, v-hsic": (PAIR, ONE, V, SHIFTS, {"order": dhsic.TimeOrder(lag=4)}),
    "gaps, v-hsic": (gapped(110, 2, 1), FEW, V, SHIFTS, {"missing": "pairwise"}),
    "gaps, nystrom-hsic": (gapped(110, 2, 1), FEW, ROOT, SHIFTS, {"missing": "pairwise"}),
    "weights, nystrom-hsic": (WIDE, FEW, ROOT, SPECTRAL, {"weights": 1.0 + np.arange(150) % 4}),
}


def grid(aggregate, share=0.5):
    candidates = dhsic.Candidates([Gaussian(gamma=1.0), Laplacian(gamma=1.0)], (1.0, 0.5))
    return dhsic.Grid(candidates, "all", aggregate=aggregate, reference_share=share)


GRIDS = {
    "grid, soft, v-hsic": (PAIR, grid("soft"), V, SHIFTS),
    "grid, max, v-hsic": (PAIR, grid("max"), V, SHIFTS),
    "grid, min-p, u-hsic": (PAIR, grid("min-p"), U, PERMUTED),
    "grid, soft, nystrom-hsic": (WIDE, grid("soft", 0.0), ROOT, SHIFTS),
    "grid, max, nystrom-m": (WIDE, grid("max"), APART, SHIFTS),
    "grid, soft, rff-hsic": (WIDE, grid("soft"), RFF, SHIFTS),
}
CHAINS = {
    "chain, Sidak, v-hsic": (THREE, KERNELS, V, dhsic.Chain(60)),
    "chain, Fisher, nystrom-m": (FOUR, KERNELS, APART, dhsic.Chain(60, "fisher")),
}
LANCASTER = {
    "interaction, v-lancaster": (THREE, KERNELS, "v-lancaster", PERMUTED),
    "interaction, nystrom-lancaster": (THREE, KERNELS, APART, SHIFTS),
    "interaction, v-hsic": (THREE, KERNELS, V, PERMUTED),
}
MIXED = [Polynomial(2, 0.5, gamma=0.4), InverseMultiquadric(0.8)]
ESTIMATES = {
    "estimate, v-hsic": (FOUR, KERNELS, V),
    "estimate, u-hsic": (WIDE, MIXED, U),
    "estimate, nystrom-m, Lemma 4.2": (THREE, KERNELS, JOINT),
    "estimate, nystrom-hsic": (WIDE, [Columns(Laplacian(gamma=0.5)), Distance(0.8)], ROOT),
    "estimate, coco": (WIDE, FEW, COCO),
    "estimate, block-hsic": (LARGE, FEW, BLOCK),
}


def cells(table, call=dhsic.independence_test, keep=replicated):
    """Of a table as those above."""
    found = []
    for name, (variables, kernels, estimator, *rest) in table.items():
        several = kernels[: len(variables)] if isinstance(kernels, list) else kernels
        options = {"kernels": several, "estimator": estimator}
        options |= {"null": rest[0]} if rest else {}
        found.append(Cell(name, variables, options | (rest[1] if rest[1:] else {}), call, keep))
    return found


def embeddings(first, second, rng, **place):
    """The distance of two mean embeddings."""
    one = dhsic.mean_embedding(first, Gaussian(gamma=0.9), 25, rng=rng, **place)
    return dhsic.mmd(one, one.like(second, **place))


def residuals(x, y, given, **options):
    return dhsic.causal.residual_independence_test(x, y, given=given, **options)


ONE_KERNEL = {"kernels": Gaussian(gamma=0.8)}
COLUMNS = [np.hstack(continuous(130, 2, 2)), np.random.default_rng(1).random((130, 1))]
COLUMN_KERNELS = {"feature_kernels": Gaussian(gamma=1.2), "target_kernel": Gaussian(gamma=2.0)}
RANKED = COLUMN_KERNELS | {"names": ("a", "b", "c", "d")}
SELECTED = {"feature_kernel": Gaussian(gamma=1.2), "target_kernel": Gaussian(gamma=2.0), "k": 2}
MATRIX = {"kernels": KERNELS[:3], "n_landmarks": 20}
GIVEN, STRATA = continuous(200, 2, seed=4), [(np.arange(200) % 3.0)[:, None]]
ROOT_PERMUTED = {"estimator": ROOT, "null": PERMUTED}


def siblings(call, keep, **named):
    """Cells of a function: a name, variables and options each."""
    return [
        Cell(name.replace("__", ", ").replace("_", " "), variables, options, call, keep)
        for name, (variables, options) in named.items()
    ]


SIBLINGS = [
    *siblings(
        dhsic.two_sample_test,
        replicated,
        two_samples__v_mmd=(samples(50, 60), ONE_KERNEL | {"estimator": "v-mmd", "null": SHIFTS}),
        two_samples__u_mmd=(samples(50, 60), ONE_KERNEL | {"estimator": "u-mmd", "null": PERMUTED}),
        two_samples__nystrom=(samples(50, 60), ONE_KERNEL | {"estimator": ROOT, "null": SHIFTS}),
        three_samples=(samples(30, 40, 35), ONE_KERNEL | {"estimator": "v-mmd", "null": SHIFTS}),
    ),
    *siblings(
        dhsic.dependence_matrix,
        of_pairs,
        matrix__shifts=(THREE, MATRIX | {"null": SHIFTS}),
        matrix__spectral=(continuous(300, 1, 2, 1), MATRIX | {"null": "spectral"}),
    ),
    *siblings(
        dhsic.rank_features,
        of_columns,
        ranking__nystrom_hsic=(COLUMNS, RANKED | {"estimator": ROOT, "null": SHIFTS}),
        ranking__v_hsic__permutation=(COLUMNS, RANKED | {"estimator": V, "null": PERMUTED}),
    ),
    *siblings(
        dhsic.conditional_independence_test,
        without_estimate,
        conditional__kernel=(continuous(200, 1, 1) + GIVEN, ONE_KERNEL | {"method": "kernel"}),
        conditional__strata=(continuous(200, 1, 1) + STRATA, ONE_KERNEL | {"method": "strata"}),
    ),
    Cell("mean embeddings", samples(90, 80), {}, embeddings, lambda value: {"mmd": value}),
    Cell(
        "selection, forward",
        COLUMNS,
        SELECTED | {"estimator": JOINT},
        dhsic.select_features,
        of_selection,
    ),
    Cell("sensitivity", WIDE, {"kernels": FEW, "estimator": JOINT}, dhsic.sensitivity_map, of_map),
    Cell("residuals", continuous(140, 1, 1, 1), ONE_KERNEL | ROOT_PERMUTED, residuals),
    Cell(
        "direction of a pair",
        continuous(140, 1, 1),
        ROOT_PERMUTED | {"kernel": Gaussian(gamma=1.0)},
        dhsic.causal.direction,
        lambda result: {"score": result.score},
    ),
    Cell(
        "scores of graphs",
        continuous(120, 1, 1, 1),
        ONE_KERNEL | {"estimator": APART, "null": PERMUTED},
        dhsic.causal.score_dags,
        lambda result: {"statistic": result.statistics, "pvalue": result.pvalues},
    ),
]
DEFAULTS = [
    Cell("default of two", PAIR, keep=scored),
    Cell("default of two, many rows", continuous(2200, 1, 2), keep=scored),
    Cell("default of three", THREE, keep=staged),
    Cell("default of two samples", samples(50, 60), call=dhsic.two_sample_test),
    Cell("default of an estimate", WIDE, call=dhsic.hsic, keep=estimated),
    Cell("default of a matrix", THREE, call=dhsic.dependence_matrix, keep=of_pairs),
]
CELLS = {
    cell.name: cell
    for cell in (
        *cells(TESTS),
        *cells(GRIDS, keep=scored),
        *cells(CHAINS, keep=staged),
        *cells(LANCASTER, dhsic.interaction_test, of_factorisations),
        *cells(ESTIMATES, dhsic.hsic, estimated),
        *SIBLINGS,
        *DEFAULTS,
    )
}


def read(path: Path | None = None) -> dict[str, Fields]:
    """The kept fields of every cell."""
    kept: dict[str, Fields] = {}
    with np.load(path or FILE, allow_pickle=False) as stored:
        for key in stored.files:
            name, what = key.split(": ")
            kept.setdefault(name, {})[what] = stored[key]
    return kept


def tolerance(cell: Cell) -> float:
    """The largest difference that is none, relative to the largest value."""
    return ROUNDED.get(cell.name, TOLERANCES[cell.precision])


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
        wrong += not off <= tolerance(CELLS[name])
    print(f"{wrong} of {len(found)} cells differ; --write replaces what is kept")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
