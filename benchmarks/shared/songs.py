"""Rows of the Million Song table: 90 columns of timbre, and the year.

They are those of `msd/msd_random7000.parquet` in the folder DHSIC_DATA.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.shared.cases import Data, Rng

FOLDER = Path(os.environ.get("DHSIC_DATA", "../shared/data"))
TABLE = Path("msd") / "msd_random7000.parquet"


def songs(n: int, rng: Rng) -> Data:
    """Timbre and year of n songs, drawn without replacement."""
    timbre, year = _all_songs(FOLDER / TABLE)
    chosen = rng.choice(len(year), n, replace=False)
    return [timbre[chosen], year[chosen]]


@cache
def _all_songs(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if not path.exists():
        msg = f"there are no songs in {path}: name the folder of data in DHSIC_DATA"
        raise click.ClickException(msg)
    table = pd.read_parquet(path)
    timbre = [name for name in table.columns if name.startswith("timbre")]
    return table[timbre].to_numpy(float), table[["year"]].to_numpy(float)
