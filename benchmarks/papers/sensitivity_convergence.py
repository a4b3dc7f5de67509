"""Whether sensitivity maps of random features converge to those of HSIC, and at which rate.

Perez-Suay and Camps-Valls (2018), figure 2c: the Frobenius norm of the difference of the maps of
V-HSIC and of random features, relative to the norm of the former, against their number. The bound
of their appendix (equation 12) falls with its root. Beside them are the maps of Nystrom M-HSIC.
Kernels are Gaussian, and sigma is the average distance between rows, as there. Writes
benchmarks/results/sensitivity_convergence.csv and a picture beside it.

    python -m benchmarks run sensitivity_convergence
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import dask
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

import dhsic
from benchmarks.shared.cases import with_dimensions
from benchmarks.shared.output import read_csv, write_csv
from dhsic.estimators import Estimator, EstimatorName
from dhsic.kernels import Gaussian

METHODS: dict[str, Callable[[int], Estimator]] = {
    "rff-hsic": lambda count: dhsic.RFFHSIC(n_features=count),
    "rff-hsic complex": lambda count: dhsic.RFFHSIC(n_features=count, form="complex"),
    "nystrom-m": lambda count: dhsic.NystromMHSIC(n_landmarks=count),
}
DIMENSIONS = {"uniform": (1, 1), "mixed": (3, 1)}
TITLES = {"uniform": "independent uniform variables", "mixed": "dependent, 3 and 1 columns"}


def data_of(case: str, n: int) -> list[NDArray[Any]]:
    """Independent uniform variables as in the figure, or dependent ones of three and one column."""
    rng = np.random.default_rng(0)
    if case == "uniform":
        return [rng.uniform(size=(n, d)) for d in DIMENSIONS[case]]
    return with_dimensions(DIMENSIONS[case], n, rng, 0.7)


def average_distance_kernel(x: NDArray[Any]) -> Gaussian:
    """The kernel of the paper, exp(-|x - x'|^2 / (2 sigma^2)), by the distances of 1,000 rows."""
    return Gaussian(gamma=0.5 / float(pdist(x[:1000]).mean()) ** 2)


def whole_map(
    data: list[NDArray[Any]], estimator: EstimatorName | Estimator, seed: int
) -> NDArray[Any]:
    """The maps of all variables side by side."""
    kernels = [average_distance_kernel(x) for x in data]
    found = dhsic.sensitivity_map(
        *data, of="estimate", kernels=kernels, estimator=estimator, rng=seed
    )
    return np.hstack(dask.compute(*found.maps.values()))


def rows(n: int, counts: list[int], draws: int) -> Iterator[dict[str, Any]]:
    for case in DIMENSIONS:
        data = data_of(case, n)
        exact = whole_map(data, "v-hsic", 0)
        for name, make in METHODS.items():
            errors: list[float] = []
            for count in counts:
                differences = [
                    np.linalg.norm(whole_map(data, make(count), seed) - exact)
                    for seed in range(draws)
                ]
                errors.append(float(np.mean(differences) / np.linalg.norm(exact)))
                known = len(errors) > 1
                logs = np.log(counts[: len(errors)]), np.log(errors)
                yield {
                    "data": case,
                    "estimator": name,
                    "n": n,
                    "number": count,
                    "relative error": errors[-1],
                    "slope so far": float(np.polyfit(*logs, 1)[0]) if known else "",
                }


def draw(table: list[Mapping[str, Any]], path: Path) -> None:
    """A panel for each kind of data, with a line of slope -1/2."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, len(DIMENSIONS), sharey=True)
    for axes, case in zip(panels, DIMENSIONS, strict=True):
        for name in METHODS:
            found = [r for r in table if (r["data"], r["estimator"]) == (case, name)]
            counts = [int(row["number"]) for row in found]
            line = "o--" if name.endswith("complex") else "o-"  # one covers the other
            axes.plot(counts, [float(row["relative error"]) for row in found], line, label=name)
        first = next(float(row["relative error"]) for row in table if row["data"] == case)
        falling = first * np.sqrt(counts[0] / np.array(counts))
        axes.plot(counts, falling, color="0.6", linestyle=":", label="slope -1/2")
        axes.set(xscale="log", yscale="log", xlabel="features or landmarks", title=TITLES[case])
    panels[0].set_ylabel("relative error of the map")
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=150)


@click.command(help=__doc__)
@click.option("--rows", "n", default=1000)
@click.option("--number", "counts", multiple=True, type=int, default=(10, 30, 100, 300, 1000))
@click.option("--draws", default=10)
@click.option("--out", default="benchmarks/results/sensitivity_convergence.csv")
def main(n: int, counts: tuple[int, ...], draws: int, out: str) -> None:
    write_csv(out, rows(n, list(counts), draws))
    draw(read_csv(out), Path(out).with_suffix(".png"))


if __name__ == "__main__":
    main()
