"""False discoveries of rankings: their share at 10 %, and the probability of any.

Of 40 correlated columns eight matter ("mixed") or none ("null"). For "bh" and "by" `rate` is the
mean share of false discoveries, for the others how often there was any, with its standard error.
`power` is the share of the relevant that were found. `limit` is what a control of exactly the
nominal level exceeds in 1 of 1,000 studies. Writes benchmarks/results/ranking_errors.csv.

    python -m benchmarks run ranking_errors
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm

import dhsic
from benchmarks.shared.output import parallel_map, write_csv
from dhsic.estimators import NullName
from dhsic.nulls import Control

CONTROLS: tuple[Control, ...] = ("bh", "by", "max-t", "holm", "bonferroni")
COLUMNS, RELEVANT = 40, 8


class Setting(NamedTuple):
    """How one kind of data is ranked."""

    n: int
    null: NullName
    resamples: int
    landmarks: int
    relevant: int
    level: float


def draw(setting: Setting, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    shared = rng.standard_normal((setting.n, 4))
    x = np.repeat(shared, COLUMNS // 4, axis=1) + rng.standard_normal((setting.n, COLUMNS))
    # The relevant columns are independent of the others, or these would not be false.
    x[:, :RELEVANT] = rng.standard_normal((setting.n, RELEVANT))
    effects = np.tile([1.0, 0.0], RELEVANT // 2) * x[:, :RELEVANT]
    effects += np.tile([0.0, 1.0], RELEVANT // 2) * np.abs(x[:, :RELEVANT])
    signal = effects[:, : setting.relevant].sum(axis=1)
    return x, signal + rng.standard_normal(setting.n)


def one(setting: Setting, seed: int) -> NDArray[np.float64]:
    """False and true discoveries of every control, shape (5, 2)."""
    x, y = draw(setting, np.random.default_rng(seed))
    ranking = dhsic.rank_features(
        x,
        y,
        null=setting.null,
        n_resamples=setting.resamples,
        estimator=dhsic.NystromMHSIC(setting.landmarks),
        threads=1,
        rng=seed,
    )
    counts = []
    for control in CONTROLS:
        found = [int(name[2:-1]) for name in ranking.rejected(setting.level, control)]
        true = sum(j < setting.relevant for j in found)
        counts.append((len(found) - true, true))
    return np.array(counts, np.float64)


def rows(settings: list[tuple[str, Setting, int]], processes: int) -> Iterator[dict[str, Any]]:
    for name, setting, runs in settings:
        counts = np.array(parallel_map(partial(one, setting), range(runs), processes))
        for control, (false, true) in zip(CONTROLS, counts.transpose(1, 2, 0), strict=True):
            rate = control in ("bh", "by")
            errors = false / np.maximum(1.0, false + true) if rate else (false > 0).astype(float)
            spread = float(errors.std() / np.sqrt(runs))
            limit = binom.ppf(0.999, runs, setting.level) / runs
            yield {
                "data": name,
                "null": setting.null,
                "n": setting.n,
                "resamples": setting.resamples,
                "runs": runs,
                "control": control,
                "measures": "false discovery rate" if rate else "family-wise error",
                "level": setting.level,
                "rate": float(errors.mean()),
                "standard error": spread,
                "limit": float(setting.level + norm.ppf(0.999) * spread if rate else limit),
                "power": float(true.mean() / setting.relevant) if setting.relevant else "",
            }


@click.command(help=__doc__)
@click.option("--rows", "n", default=300)
@click.option("--resamples", default=499)
@click.option("--landmarks", default=60)
@click.option("--mixed-runs", default=200)
@click.option("--null-runs", default=500)
@click.option("--processes", default=2)
@click.option("--out", default="benchmarks/results/ranking_errors.csv")
def main(
    n: int,
    resamples: int,
    landmarks: int,
    mixed_runs: int,
    null_runs: int,
    processes: int,
    out: str,
) -> None:
    settings = [
        (name, Setting(n, null, resamples, landmarks, relevant, 0.1), runs)
        for null in ("multiplier", "permutation")
        for name, relevant, runs in (("mixed", RELEVANT, mixed_runs), ("null", 0, null_runs))
    ]
    write_csv(out, rows(settings, processes))


if __name__ == "__main__":
    main()
