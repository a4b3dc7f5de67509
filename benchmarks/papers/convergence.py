"""How landmarks and random features approach V-HSIC, and the slope of the error in their number.

The root of the mean squared relative error of the estimate over draws of the features, on the same
data; the slope is that of its logarithm against that of their number. Writes
benchmarks/results/convergence.csv.

    python -m benchmarks run convergence
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np

import dhsic
from benchmarks.shared.cases import with_dimensions
from benchmarks.shared.output import write_csv

ESTIMATORS: dict[str, Callable[[int], Any]] = {
    "rff-hsic": lambda p: dhsic.RFFHSIC(n_features=p),
    "rff-hsic, complex": lambda p: dhsic.RFFHSIC(n_features=p, form="complex"),
    "rff-hsic, orthogonal": lambda p: dhsic.RFFHSIC(n_features=p, orthogonal=True),
    "nystrom-hsic": lambda p: dhsic.NystromHSIC(n_landmarks=p),
    "nystrom-m": lambda p: dhsic.NystromMHSIC(n_landmarks=p),
}
DIMENSIONS = {"rff-hsic": [(5, 1), (3, 1, 1)], "nystrom-m": [(5, 1), (3, 1, 1)]}


def rows(n: int, counts: list[int], draws: int) -> Iterator[dict[str, Any]]:
    for name, make in ESTIMATORS.items():
        for dims in DIMENSIONS.get(name, [(5, 1)]):
            data = with_dimensions(dims, n, np.random.default_rng(0), 0.7)
            kernels = [dhsic.kernels.Gaussian(gamma=0.5 / d) for d in dims]
            exact = dhsic.hsic(*data, kernels=kernels, estimator="v-hsic").estimate
            errors = []
            for p in counts:
                found = [
                    dhsic.hsic(*data, kernels=kernels, estimator=make(p), rng=seed).estimate
                    for seed in range(draws)
                ]
                errors.append(float(np.sqrt(np.mean((np.array(found) / exact - 1.0) ** 2))))
                known = len(errors) > 1
                logs = np.log(counts[: len(errors)]), np.log(errors)
                yield {
                    "estimator": name,
                    "dimensions": " ".join(map(str, dims)),
                    "n": n,
                    "number": p,
                    "relative error": errors[-1],
                    "slope so far": float(np.polyfit(*logs, 1)[0]) if known else "",
                }


@click.command(help=__doc__)
@click.option("--rows", "n", default=2000)
@click.option("--number", "counts", multiple=True, type=int, default=(25, 50, 100, 200, 400))
@click.option("--draws", default=30)
@click.option("--out", default="benchmarks/results/convergence.csv")
def main(n: int, counts: tuple[int, ...], draws: int, out: str) -> None:
    write_csv(out, rows(n, list(counts), draws))


if __name__ == "__main__":
    main()
