"""A map speaks of the columns by the names that the data have."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import zarr

import dhsic
from dhsic.errors import InvalidArgumentError
from dhsic.report import write_report


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((200, 3)), columns=["depth", "wind", "haze"])
    target = pd.Series(np.sin(2 * frame["wind"]), name="AT")
    return dhsic.sensitivity_map(frame, target, rng=0)


def test_map__names_the_columns(found):
    assert found.columns["x1"] == ("depth", "wind", "haze")
    assert found.names == ("x1", "AT")
    assert found.columns["AT"] == ("AT",)
    assert dict(found.summary())["columns of AT"] == "AT (100.0%)"
    assert dict(found.summary())["columns of x1"].startswith("wind (")


def test_picture__names_the_columns(found):
    axes = found.plot()
    assert {label.get_text() for label in axes.get_yticklabels()} == {"depth", "wind", "haze"}
    plt.close("all")


def test_report__names_the_columns(found, tmp_path):
    write_report(found, tmp_path / "map.html")
    text = (tmp_path / "map.html").read_text()
    assert "most sensitive to column wind of x1" in text
    assert "<td>haze</td>" in text


def test_stored_map__has_the_names_of_the_columns(found, tmp_path):
    found.to_zarr(tmp_path / "map.zarr")
    stored = zarr.open_group(tmp_path / "map.zarr", mode="r")["x1"]
    assert stored.attrs["columns"] == ["depth", "wind", "haze"]
    json.loads(found.to_json())


def test_labels__are_not_varied():
    rng = np.random.default_rng(0)
    label = pd.Series(rng.choice(list("ab"), 100), name="kind")
    x = rng.standard_normal(100) + (label == "a").to_numpy()
    assert dhsic.sensitivity_map(label, x, rng=0).names == ("x2",)
    with pytest.raises(InvalidArgumentError, match=r"differentiable kernel .*take wrt=\['x2'\]"):
        dhsic.sensitivity_map(label, x, wrt=["kind"], rng=0)
