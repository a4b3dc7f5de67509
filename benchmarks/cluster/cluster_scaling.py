"""How a test scales on the processes of a cluster, from zarr on disk.

Strong scaling: one and two worker processes of one thread each over the same rows. Weak scaling:
the same rows for each worker. Then threads of one process against processes, float32 against
float64, and stored chunks of several sizes, each on two. All are studies of
`dhsic.bench.scaling_study`, whose settings take turns; ratios are medians of the ratios within a
turn, so that what else the machine does falls on both sides. Clusters are started before the clock
runs. "outside" is the time of the driver before, between and after the passes; "busy" is the share
of the workers' time within the passes that tasks take. Writes
benchmarks/results/cluster_scaling.csv, where studies that are there are kept if they are of the
same size, and a plot of it.

    python -m benchmarks run cluster_scaling
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.shared.output import read_csv, write_csv
from dhsic import NystromMHSIC, plots
from dhsic.bench import scaling_study
from dhsic.io.synthetic import generate

Row = Mapping[str, Any]
ON_TWO: dict[str, list[Any]] = {"workers": [2], "scheduler": ["processes"]}


class Study(NamedTuple):
    """What varies, and what is drawn of it."""

    vary: dict[str, list[Any]]
    drawn: tuple[str, str]
    words: tuple[str, str]
    weak: bool = False


def studies(workers: Sequence[int], chunk_rows: Sequence[int]) -> dict[str, Study]:
    """All of them, by name."""
    time = "time of one test (s)"
    return {
        "strong": Study(
            {"workers": list(workers)}, ("workers", "speedup"), ("workers", "speed-up")
        ),
        "weak": Study(
            {"workers": list(workers)}, ("workers", "efficiency"), ("workers", "efficiency"), True
        ),
        "scheduler": Study(
            {"scheduler": ["processes", "threads"], "workers": [2]},
            ("scheduler", "seconds"),
            ("two of them", time),
        ),
        "precision": Study(
            {"precision": ["float32", "float64"], **ON_TWO},
            ("precision", "seconds"),
            ("precision of the tiles", time),
        ),
        "chunk rows": Study(
            {"chunk_rows": list(chunk_rows), **ON_TWO},
            ("chunk_rows", "seconds"),
            ("rows of a stored chunk", time),
        ),
    }


def table_row(name: str, row: Row, sizes: Row) -> Row:
    """What the table says of a setting."""
    busy = row["task_seconds"] / (row["workers"] * row["pass_seconds"])
    peak = row["peak_bytes"]
    return {
        "study": name,
        **{k: row[k] for k in ("workers", "scheduler", "rows", "chunk_rows", "precision")},
        "turns": len(row["all_seconds"]),
        **{k: row[k] for k in ("seconds", "speedup", "efficiency", "relative")},
        **{k: value for k, value in row.items() if k.startswith("seconds: ")},
        "outside": row["seconds"] - row["pass_seconds"],
        "busy": busy,
        "processor seconds": row["processor_seconds"],
        "peak MiB": None if peak is None else peak / 2**20,
        "planned MiB": row["planned_bytes"] / 2**20,
        "p-value": row["pvalue"],
        **sizes,
    }


def check_kept(done: Sequence[Row], chosen: Mapping[str, Study], sizes: Row) -> None:
    """Refuse a table of tests of another size, or of other values of what varies."""
    same = all(row.get(name) == str(value) for row in done for name, value in sizes.items())
    for name, study in chosen.items():
        setting = study.drawn[0]
        kept = [row[setting] for row in done if row["study"] == name]
        same = same and kept in ([], list(map(str, study.vary[setting])))
    if not same:
        msg = "the table that is there is of other options: give the same, or another --out"
        raise click.UsageError(msg)


def rows(
    chosen: Mapping[str, Study],
    measured: Callable[..., Any],
    done: Sequence[Row],
    sizes: Row,
) -> Iterator[Row]:
    yield from done
    known = {row["study"] for row in done}
    for name, study in chosen.items():
        if name in known:
            continue
        vary = dict(study.vary)
        precision = {} if "precision" in vary else {"precision": "float32"}
        for row in measured(vary=vary, weak=study.weak, **precision).records():
            yield table_row(name, row, sizes)


def draw(table: Sequence[Row], path: Path) -> None:
    """A panel a study."""
    known = studies((), ())
    names = [name for name in known if name in {row["study"] for row in table}]
    figure = Figure(figsize=(3.4 * len(names), 3.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        _panel(axes, known[name], [row for row in table if row["study"] == name])
        axes.set_title(name, fontsize=11, pad=26)
    figure.savefig(path, dpi=150)


def _panel(axes: Axes, study: Study, table: Sequence[Row]) -> None:
    setting, quantity = study.drawn
    words = setting in ("scheduler", "precision")
    x = [row[setting] if words else int(row[setting]) for row in table]
    plots.scaling(
        {"": (x, [float(row[quantity]) for row in table])},
        xlabel=study.words[0],
        ylabel=study.words[1],
        ideal={"speedup": 1.0, "efficiency": 0.0}.get(quantity),
        logarithmic=quantity == "seconds" and not words,
        ax=axes,
    )


NAMES = tuple(studies((), ()))


@click.command(help=__doc__)
@click.option("--rows", "n", default=4_000_000)
@click.option("--features", default=20)
@click.option("--landmarks", default=1000)
@click.option("--resamples", default=250)
@click.option("--workers", multiple=True, type=int, default=(1, 2))
@click.option("--chunk-rows", multiple=True, type=int, default=(2048, 8192, 32_768, 131_072))
@click.option("--study", "names", multiple=True, type=click.Choice(NAMES), default=NAMES)
@click.option("--turns", default=3)
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where data are stored for a while."
)
@click.option("--out", default="benchmarks/results/cluster_scaling.csv")
def main(
    n: int,
    features: int,
    landmarks: int,
    resamples: int,
    workers: tuple[int, ...],
    chunk_rows: tuple[int, ...],
    names: tuple[str, ...],
    turns: int,
    folder: Path | None,
    out: str,
) -> None:
    chosen = {name: one for name, one in studies(workers, chunk_rows).items() if name in names}
    sizes = {"all rows": n, "features": features, "landmarks": landmarks, "resamples": resamples}
    done = read_csv(out)
    check_kept(done, chosen, {**sizes, "turns": turns})
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        data = f"{scratch}/songs.zarr"
        generate(data, rows=n, features=features, dependence=0.1)
        measured = partial(
            scaling_study,
            f"{data}/features",
            f"{data}/year",
            repeats=turns,
            folder=scratch,
            kernels="gaussian",
            estimator=NystromMHSIC(n_landmarks=landmarks),
            null="multiplier",
            n_resamples=resamples,
            progress=partial(click.echo, err=True),
        )
        write_csv(out, rows(chosen, measured, done, sizes))
    draw(read_csv(out), Path(out).with_suffix(".png"))


if __name__ == "__main__":
    main()
