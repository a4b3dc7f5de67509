"""Real tables, from file to decision."""

import os
from pathlib import Path
from typing import Any

import pytest

from dhsic import ColumnRanking, IndependenceTestResult
from tests.cli.conftest import Invoke

DATA = Path(os.environ.get("DHSIC_DATA", Path(__file__).parents[3] / "shared/data"))


def file(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not there: set DHSIC_DATA to the folder of the real data")
    return path


def run_on(invoke: Invoke, folder: Path, source: Path, variables: list[str], *more: Any) -> Any:
    out, report = folder / "out.zarr", folder / "result.json"
    columns = [part for variable in variables for part in ("--variable", variable)]
    names = [part for v in variables for part in ("--variable", v.partition("=")[0])]
    done = invoke("convert", "table", source, out, *columns, *more)
    assert done.exit_code == 0, done.stderr
    options = ("--kernel", "gaussian", "--landmarks", 200, "--json", report)
    done = invoke("test", out, *names, *options)
    assert done.exit_code == 0, done.stderr
    return IndependenceTestResult.from_json(report.read_text())


def test_weather(invoke: Invoke, tmp_path: Path) -> None:
    variables = ["altitude=Altitude", "temperature=Temperature", "sun=Sunshine hours"]
    result = run_on(invoke, tmp_path, file("weather/data.csv"), variables, "--delimiter", " ")
    assert result.n == 349
    assert result.null == "chain"
    assert result.pvalue <= 0.001


def test_air_quality(invoke: Invoke, tmp_path: Path) -> None:
    variables = ["pollution=PM2_5,PM10,SO2,NO2", "weather=TEMP,PRES,DEWP"]
    path = file("beijing_air/beijing_air.parquet")
    more = ("--missing", "drop", "--shuffle", "0")
    result = run_on(invoke, tmp_path, path, variables, *more)
    assert result.n > 300_000
    assert result.null == "shifts"
    assert result.pvalue == pytest.approx(0.001)


def test_songs_ranked(invoke: Invoke, tmp_path: Path) -> None:
    source, out, report = file("msd/msd_random7000.parquet"), tmp_path / "out.zarr", tmp_path / "r"
    averages = [f"timbre_avg_{j}" for j in range(1, 13)]
    covariances = [f"timbre_cov_{j}" for j in range(1, 79)]
    timbre = f"timbre={','.join([*averages, *covariances])}"
    done = invoke("convert", "table", source, out, "--variable", timbre, "--variable", "year=year")
    assert done.exit_code == 0, done.stderr
    asked = ("--features", "timbre", "--target", "year", "--landmarks", 100, "--json", report)
    done = invoke("rank", out, *asked, "--precision", "float32", "--resamples", 99)
    assert done.exit_code == 0, done.stderr
    ranking = ColumnRanking.from_json(report.read_text())
    assert ranking.n == 7000
    assert len(ranking.features) == 90
    assert ranking.ranked("cka")[0].name == "timbre_avg_1", "loudness tells most of the year"
    assert 60 < len(ranking.rejected(0.05, control="max-t")) < 90
