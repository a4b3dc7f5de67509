"""``dhsic conditional``: the function, from the shell."""

from pathlib import Path

import numpy as np
import pytest
import zarr

import dhsic


@pytest.fixture
def data(tmp_path):
    z, e, f = np.random.default_rng(0).standard_normal((3, 200))
    root = zarr.open_group(tmp_path / "data.zarr", mode="w")
    for name, values in {"x": z + np.abs(z) * e, "y": z + f, "z": z}.items():
        root.create_array(name, data=values)
    return str(tmp_path / "data.zarr")


PAIR = ("--variable", "x", "--variable", "y")


def test_conditional__is_the_function(invoke, data, tmp_path):
    out = str(tmp_path / "out.json")
    result = invoke("conditional", data, *PAIR, "--given", "z", "--json", out)
    assert result.exit_code == 0, result.stderr
    assert "not rejected" in result.stdout
    found = dhsic.ConditionalIndependenceTestResult.from_json(Path(out).read_text())
    expected = dhsic.conditional_independence_test("x", "y", given="z", data=data, rng=0)
    assert (found.statistic, found.pvalue) == (expected.statistic, expected.pvalue)
    assert found.given == ("z",)


def test_conditional__prints_its_plan_and_python(invoke, data, tmp_path):
    result = invoke("conditional", data, *PAIR, "--given", "z", "--plan")
    assert "products of residuals" in result.stdout
    page = str(tmp_path / "page.html")
    assert invoke("conditional", data, *PAIR, "--given", "z", "--report", page).exit_code == 0
    assert "given=variables[2:]" in Path(page).read_text()


def test_conditional__needs_two_variables(invoke, data):
    result = invoke("conditional", data, "--variable", "x", "--given", "z")
    assert result.exit_code == 2
    assert "give --variable twice; got 1" in result.stderr
