"""Processor seconds of the null that is taken without options beside others, of whole tests.

All nulls of a case are timed in turn on the same normal data in memory, on one thread; `seconds` is
the least of some turns after a first one that is not counted. They are processor seconds of this
process and of those that it started and that have ended; `taken` is the null that the result names.
The last two cases ask for more and more replicates, with the kernels that are tried where none is
given. Writes benchmarks/results/exact_cost.csv; rows of cases that are not
asked for are kept.

    python -m benchmarks run exact_cost
    python -m benchmarks run exact_cost --case "replicates, n = 1,000"
"""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

import dhsic
from benchmarks.shared.machine import processor
from benchmarks.shared.output import read_csv, write_csv
from dhsic.kernels import Candidates, Grid

GRIDS: dict[str, str | Grid] = {
    "one kernel": "gaussian",
    "grid of 16": Grid(Candidates(factors=(0.25, 0.5, 1.0, 2.0)), combine="all"),
}
RESAMPLES = 250
REPLICATES = (1000, 10_000, 100_000)
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """Tests of the same data, which differ in what they take for the null."""

    n: int
    nulls: Mapping[str, Options]
    options: Options = field(default_factory=dict)
    columns: int = 1
    """Of the first variable; the second has one."""
    precision: str = "float64"

    def data(self) -> list[Any]:
        """Two dependent variables."""
        rng = np.random.default_rng(0)
        x = rng.standard_normal((self.n, self.columns))
        y = 0.1 * x[:, :1] + rng.standard_normal((self.n, 1))
        return [x.astype(self.precision), y.astype(self.precision)]


def cases(fewer: int = 1) -> dict[str, Case]:
    """All, with so many times fewer rows, landmarks and replicates."""

    def over(number: int) -> int:
        return max(40, number // fewer)

    one, sixteen = {"kernels": GRIDS["one kernel"]}, {"kernels": GRIDS["grid of 16"]}
    default: Options = {}
    signs, permuted = dhsic.Multiplier(over(RESAMPLES)), dhsic.Permutation(over(RESAMPLES))
    blocks = dhsic.Permutation(over(RESAMPLES), within="groups")
    beside_signs = {"default": default, "multiplier": {"null": signs}}
    landmarks = {"estimator": dhsic.NystromMHSIC(n_landmarks=over(1024))}
    large = partial(Case, over(200_000), beside_signs, columns=90, precision="float32")
    return {
        "v-hsic, 16 kernels": Case(
            over(1000),
            {"default": default, "permutation": {"null": permuted}},
            {"estimator": "v-hsic", **sixteen},
        ),
        "v-hsic, one kernel": Case(
            over(5000),
            {**beside_signs, "permutation in blocks": {"null": blocks}},
            {"estimator": "v-hsic", **one},
        ),
        "nystrom-m, one kernel": large(options=landmarks | one),
        "nystrom-m, 16 kernels": large(options=landmarks | sixteen),
        **{
            f"replicates, n = {n:,}": Case(
                over(n),
                {f"default, {b:,}": {"n_resamples": over(b)} for b in REPLICATES},
                {"estimator": "nystrom-m"},
            )
            for n in (1000, 10_000)
        },
    }


def processor_seconds() -> float:
    """Of this process and its children."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed_test(data: Sequence[Any], **options: Any) -> tuple[float, dhsic.IndependenceTestResult]:
    """Processor seconds and result of one test on one thread."""
    with threadpool_limits(1, "blas"):
        began = processor_seconds()
        result = dhsic.independence_test(*data, **{"rng": 0, "threads": 1, **options})
        return processor_seconds() - began, result


def timed(data: Sequence[Any], case: Case, null: str) -> tuple[float, dhsic.IndependenceTestResult]:
    """Those of a test of a case."""
    options = {**case.options, **case.nulls[null], "precision": case.precision}
    return timed_test(data, **options)


def case_rows(name: str, case: Case, repeats: int) -> Iterator[dict[str, Any]]:
    """A row a null."""
    data = case.data()
    turns = [{null: timed(data, case, null) for null in case.nulls} for _ in range(repeats + 1)]
    least = {null: min(turn[null][0] for turn in turns[1:]) for null in case.nulls}
    for null, (_, result) in turns[0].items():
        yield {
            "case": name,
            "null": null,
            "taken": result.null,
            "n": case.n,
            "columns": case.columns,
            "precision": case.precision,
            "replicates": len(result.null_distribution),
            "kernels": len(result.grid.combinations) if result.grid else 1,
            "repeats": repeats,
            "seconds": least[null],
            "over first": least[null] / next(iter(least.values())),
            "processor": processor(),
            "version": dhsic.__version__,
        }


def rows(
    chosen: Sequence[str], fewer: int, repeats: int, done: Sequence[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    yield from (row for row in done if row["case"] not in chosen)
    known = cases(fewer)
    for name in chosen:
        yield from case_rows(name, known[name], repeats)


@click.command(help=__doc__)
@click.option(
    "--case", "chosen", multiple=True, type=click.Choice(list(cases())), default=list(cases())
)
@click.option("--fewer", default=1, help="Times fewer rows, landmarks and replicates.")
@click.option("--repeats", type=click.IntRange(1), default=3)
@click.option("--out", default="benchmarks/results/exact_cost.csv")
def main(chosen: tuple[str, ...], fewer: int, repeats: int, out: str) -> None:
    write_csv(out, rows(chosen, fewer, repeats, read_csv(out)))


if __name__ == "__main__":
    main()
