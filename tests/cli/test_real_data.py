"""Real tables, from file to decision."""

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

DATA = Path(os.environ.get("DHSIC_DATA", Path(__file__).parents[3] / "shared/data"))
TIMBRE = [f"timbre_avg_{j}" for j in range(1, 13)] + [f"timbre_cov_{j}" for j in range(1, 79)]
QUICK = "--kernel gaussian --landmarks 200"


def converted(invoke, folder, name, options):
    path, out = DATA / name, folder / "out.zarr"
    if not path.exists():
        pytest.skip(f"{path} is not there: set DHSIC_DATA to the folder of the real data")
    done = invoke(f"convert table {path} {out} {options}")
    assert done.exit_code == 0, done.stderr
    return out


def test_weather(invoke, found, tmp_path):
    columns = "--variable height=Altitude --variable t=Temperature --variable 'sun=Sunshine hours'"
    out = converted(invoke, tmp_path, "weather/data.csv", f"{columns} --delimiter ' '")
    result = found(f"test {out} --variable height --variable t --variable sun {QUICK}")
    assert (result["n"], result["null"]) == (349, "chain")
    assert result["pvalue"] <= 0.001


def test_air_quality(invoke, found, tmp_path):
    columns = "--variable dust=PM2_5,PM10,SO2,NO2 --variable weather=TEMP,PRES,DEWP"
    options = f"{columns} --missing drop --shuffle 0"
    out = converted(invoke, tmp_path, "beijing_air/beijing_air.parquet", options)
    result = found(f"test {out} --variable dust --variable weather {QUICK}")
    assert result["n"] > 300_000
    assert (result["null"], result["pvalue"]) == ("shifts", pytest.approx(0.001))


def test_songs(invoke, found, tmp_path):
    options = f"--variable timbre={','.join(TIMBRE)} --variable year=year"
    out = converted(invoke, tmp_path, "msd/msd_random7000.parquet", options)
    line = f"rank {out} --features timbre --target year --landmarks 100 --resamples 99"
    features = found(f"{line} --precision float32")["features"]
    assert len(features) == 90
    assert max(features, key=lambda one: one["cka"])["name"] == "timbre_avg_1", "loudness"
    assert 60 < sum(one["pvalue_max_t"] <= 0.05 for one in features) < 90
