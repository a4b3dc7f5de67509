"""Names that steer a terminal are spelt out wherever they are shown, and kept in data."""

import re

import numpy as np
import pytest
from click.testing import CliRunner

import dhsic
from dhsic.cli import main
from dhsic.errors import DataError

RED = "\x1bcred\x07"
OTHER = "turned\u202e\x9b2J"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture(scope="module")
def data():
    x, y, z = np.random.default_rng(0).random((3, 30))
    return {RED: x, OTHER: y, "z": z}


def results(data):
    first, second, third = data
    options = {"kernels": "gaussian", "rng": 0}
    yield dhsic.independence_test(first, second, data=data, **options)
    yield dhsic.hsic(first, second, data=data, kernels="gaussian")
    yield dhsic.plan(first, second, data=data, kernels="gaussian")
    yield dhsic.dependence_matrix(data, rng=0)
    yield dhsic.interaction_test(first, second, third, data=data, **options)
    yield dhsic.rank_features(data, data[third], rng=0)
    yield dhsic.two_sample_test(data[first], data[second], names=[RED, OTHER], rng=0)


def test_results__spell_control_characters_out(data, tmp_path):
    for result in results(data):
        shown = [str(result), repr(result), result._repr_html_()]
        assert not any(map(STEERING.search, shown)), type(result)
        assert "\\x1bcred" in shown[0], type(result)
    result.report(tmp_path / "page.html")
    assert not STEERING.search((tmp_path / "page.html").read_text())
    assert result.samples[0].name == RED


def test_text__of_other_scripts_is_shown_as_it_is():
    name = "größe 温度\u00a0°C 👩\u200d🔬"
    assert name in str(dhsic.hsic(np.arange(9.0), np.arange(9.0), names=[name, "b"], rng=0))
    assert str(DataError(f"column {RED}\nin two lines")) == "column \\x1bcred\\x07\nin two lines"


def test_commands__spell_them_out(tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "o.zarr"
    rows = "".join(f"{j},{j * j},x{j % 2}{RED}\n" for j in range(9))
    table.write_text(f"a{RED},b,c{OTHER}\n{rows}")
    columns = ("--variable", f"{RED}=a{RED}", "--variable", "b=b", "--variable", f"c=c{OTHER}")
    for words in (
        ("convert", "table", str(table), str(out), *columns),
        ("test", str(table), "--variable", f"a{RED}", "--variable", "b", "--kernel", "gaussian"),
        ("plan", str(out), "--variable", RED, "--variable", "b"),
        ("test", str(table), "--variable", f"none{RED}", "--variable", "b"),
        (RED,),
    ):
        done = CliRunner().invoke(main, list(words))
        assert done.exit_code in (0, 2)
        assert not STEERING.search(done.stdout + done.stderr), words
        assert "\\x1b" in done.stdout + done.stderr, words
