"""Random rows of columns of real tables, from the folder DHSIC_DATA.

Pairs of numbers, and several columns and a number, which were drawn at random, too, and of which
320 rows are enough. There are as many rows as let distance covariance or the default find about
half of the data sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import click
import numpy as np

from benchmarks.shared.cases import Data, Rng
from benchmarks.shared.public_scenarios import rows_of
from benchmarks.shared.songs import FOLDER


@dataclass(frozen=True)
class Columns:
    """Random rows of columns of a table, of which the last is y."""

    table: str
    names: str
    rows: int

    def __call__(self, n: int, rng: Rng) -> Data:
        *x, y = self.names.split()
        if self.table != "cep":
            return rows_of(n, rng, f"{TABLES[self.table]}.parquet", tuple(x), y)
        drawn = rng.choice(_pair(y), n, replace=False)
        return [drawn[:, :1], drawn[:, 1:]]


@cache
def _pair(name: str) -> Any:
    path = FOLDER / "cep" / "pairs.npz"
    if not path.exists():
        msg = f"there are no pairs in {path}: name the folder of data in DHSIC_DATA"
        raise click.ClickException(msg)
    return np.load(path)[name]


TABLES = {
    "air": "beijing_air/beijing_air",
    "songs": "msd/msd_random7000",
    "flights": "hflights/hflights",
    "proteins": "casp/casp",
    "plant": "ccpp/ccpp",
}
_ALL = (
    *(Columns("air", "PM10 PRES", 220), Columns("air", "SO2 PRES", 70)),
    *(Columns("air", "CO DEWP", 70), Columns("air", "PM10 TEMP", 320)),
    *(Columns("air", "SO2 DEWP", 45), Columns("air", "month PM10", 150)),
    Columns("songs", "timbre_cov_4 timbre_cov_19", 45),
    Columns("songs", "timbre_avg_8 timbre_cov_61", 45),
    Columns("songs", "timbre_cov_47 timbre_cov_71", 320),
    Columns("songs", "timbre_avg_6 timbre_cov_28", 80),
    *(Columns("flights", "ArrDelay TaxiOut", 60), Columns("flights", "DepTime ArrDelay", 100)),
    *(Columns("flights", "Distance TaxiIn", 45), Columns("proteins", "RMSD F8", 220)),
    *(Columns("plant", "RH PE", 20), Columns("cep", "pair0099", 40)),
    *(Columns("cep", "pair0020", 30), Columns("cep", "pair0036", 30)),
    *(Columns("cep", "pair0031", 150), Columns("cep", "pair0022", 60)),
    *(Columns("air", "PM10 O3 NO2 WSPM", 30), Columns("air", "month PRES CO NO2 PM10 WSPM", 30)),
    Columns("flights", "ArrDelay AirTime DayofMonth DepTime", 150),
    Columns("flights", "AirTime TaxiOut DepTime DayofMonth Month ArrDelay", 80),
    Columns("songs", "timbre_cov_35 timbre_cov_54 timbre_cov_24 year", 150),
    Columns("proteins", "F3 F2 F4 F8 F6 F1 F5 F9 RMSD", 60),
)
REAL: Mapping[str, Columns] = {f"{one.table}: {one.names}": one for one in _ALL}
