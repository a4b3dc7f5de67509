"""What runs say together: tables, slopes and pictures."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from dhsic import plots
from dhsic.bench import ScalingStudy
from dhsic.bench.settings import SETTINGS
from dhsic.errors import InvalidArgumentError


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def made(**columns):
    """A study whose runs have these settings and measurements, one list each."""
    runs = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]
    usual = dict.fromkeys(SETTINGS) | {"workers": 1, "rows": 100, "repeat": 0, "study": "made"}
    names = ("seconds", "pass_seconds", "task_seconds", "processor_seconds")
    measured = dict.fromkeys(names, 1.0) | {"bytes_read": 8, "planned_bytes": 2**20}
    measured |= {"peak_bytes": 2**20, "pvalue": 0.5}
    return ScalingStudy(tuple({**usual, **measured, **run} for run in runs))


def test_table__gains_are_medians_of_ratios_within_a_turn():
    study = made(
        workers=[1, 2, 1, 2, 1, 2],
        repeat=[0, 0, 1, 1, 2, 2],
        seconds=[4.0, 2.0, 9.0, 5.0, 4.0, 4.0],
    )
    one, two = study.records()
    assert (one["speedup"], one["efficiency"], one["relative"]) == (1.0, 1.0, 1.0)
    assert (two["speedup"], two["efficiency"]) == (1.8, 0.9)
    assert two["relative"] == 5.0 / 9.0
    assert two["seconds"] == 4.0


def test_table__weak_gains_count_rows():
    study = made(workers=[1, 2], rows=[100, 200], rows_per_worker=[100, 100], seconds=[4.0, 5.0])
    assert study.records()[1]["speedup"] == pytest.approx(1.6)
    assert study.records()[1]["efficiency"] == pytest.approx(0.8)


def test_slopes__are_those_of_the_powers():
    study = made(rows=[100, 1000], seconds=[1.0, 10.0], peak_bytes=[2**20, 2**20])
    assert study.slopes() == {"": pytest.approx(1.0)}
    assert study.slopes("rows", "peak_bytes") == {"": pytest.approx(0.0)}
    two = made(
        rows=[10, 100, 10, 100],
        precision=["float32", "float32", "float64", "float64"],
        seconds=[1.0, 10.0, 1.0, 100.0],
    )
    assert two.slopes() == {
        "precision float32": pytest.approx(1.0),
        "precision float64": pytest.approx(2.0),
    }


def test_landmarks__that_follow_from_the_rows_do_not_vary():
    weak = made(
        workers=[1, 2],
        rows=[100, 200],
        rows_per_worker=[100, 100],
        landmarks=[80, 114],
        seconds=[4.0, 5.0],
    )
    assert weak.varied == ("workers", "rows")
    assert weak.records()[1]["efficiency"] == pytest.approx(0.8)
    by_rows = made(rows=[100, 1000], landmarks=[80, 253], seconds=[1.0, 10.0])
    assert by_rows.slopes() == {"": pytest.approx(1.0)}
    grid = made(rows=[100, 100, 200, 200], landmarks=[10, 20, 10, 20])
    assert grid.varied == ("rows", "landmarks")


def test_table__has_none_for_a_pass_that_not_all_runs_have(tmp_path):
    study = made(rows=[100, 100, 200], repeat=[0, 1, 0], **{"seconds: a": [1.0, 3.0, None]})
    assert [row["seconds: a"] for row in study.records()] == [2.0, None]
    study.to_csv(tmp_path / "study.csv")
    assert ScalingStudy.from_csv(tmp_path / "study.csv").records() == study.records()


def test_slopes__are_of_numbers_with_two_values():
    study = made(workers=[1, 1, 2], rows=[100, 200, 100], seconds=[1.0, 2.0, 0.5])
    assert study.slopes("rows") == {"workers 1": pytest.approx(1.0)}
    words = made(precision=["float32", "float64"])
    with pytest.raises(InvalidArgumentError, match="along must be a setting that is a number"):
        words.slopes()


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_plot__of_workers_has_the_ideal_line():
    ax = made(workers=[1, 2, 4], seconds=[4.0, 2.0, 1.25]).plot()
    assert ax.get_ylabel() == "speed-up"
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [1.0, 2.0, 3.2])
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [1.0, 2.0, 4.0])
    assert texts(ax) == ["ideal"]


def test_plot__of_weak_scaling_is_the_efficiency():
    study = made(workers=[1, 2], rows=[100, 200], rows_per_worker=[100, 100], seconds=[4.0, 5.0])
    ax = study.plot()
    assert ax.get_ylabel() == "efficiency"
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [1.0, 1.0])


def test_plot__of_rows_has_time_and_memory_with_slopes():
    study = made(rows=[100, 1000], seconds=[1.0, 10.0], peak_bytes=[2**20, 2**21])
    ax = study.plot()
    assert texts(ax) == ["slope 1"]
    time, memory = sorted(ax.figure.axes, key=lambda one: one.get_position().x0)
    assert time.get_ylabel() == "time (s)"
    assert memory.get_ylabel() == "peak memory of a process (MiB)"
    np.testing.assert_allclose(memory.lines[0].get_ydata(), [1.0, 2.0])
    _, given = plt.subplots()
    assert study.plot(given, quantity="peak_bytes") is given
    assert study.plot(given, along="rows").get_xlabel() == "rows"


def test_plot__of_words_has_bars():
    ax = made(precision=["float64", "float32"], seconds=[2.0, 1.0]).plot(quantity="seconds")
    assert [bar.get_height() for bar in ax.patches] == [2.0, 1.0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["float64", "float32"]


def test_plot__of_equal_numbers_shows_no_trend():
    study = made(rows=[100, 200], peak_bytes=[101 * 2**20, 102 * 2**20])
    ax = study.plot(quantity="peak_bytes")
    low, high = ax.get_ylim()
    assert high / low >= 4.0
    assert len(ax.get_yticks()) >= 3


def test_plot__refuses_what_the_study_does_not_have():
    with pytest.raises(InvalidArgumentError, match="needs a setting that varies"):
        made(rows=[100]).plot()
    study = made(rows=[100, 200], peak_bytes=[None, None])
    assert len(study.plot().figure.axes) == 1
    with pytest.raises(InvalidArgumentError, match="quantity must be one of"):
        study.plot(quantity="hours")
    with pytest.raises(InvalidArgumentError, match="was not measured along"):
        study.plot(quantity="peak_bytes")
    with pytest.raises(InvalidArgumentError, match="along must be one of 'rows'"):
        study.plot(along="workers")


def test_study__reads_as_a_table_a_frame_and_text():
    study = made(rows=[100, 1000], seconds=[1.0, 10.0])
    assert "<th class=n>rows</th>" in study._repr_html_()
    assert "<td class=n>1,000</td>" in study._repr_html_()
    assert "1.0 MiB" in study._repr_html_()
    assert study.to_pandas()["seconds"].tolist() == [1.0, 10.0]
    assert str(study).splitlines()[-1].split()[:2] == ["1,000", "10"]


def test_picture__refuses_what_is_no_line():
    with pytest.raises(InvalidArgumentError, match="one line or more"):
        plots.scaling({}, xlabel="rows", ylabel="time (s)")
    with pytest.raises(InvalidArgumentError, match="of a point or more"):
        plots.scaling({"": ([], [])}, xlabel="rows", ylabel="time (s)")
    with pytest.raises(InvalidArgumentError, match="must be above 0"):
        plots.scaling({"": ([1, 2], [0.0, 1.0])}, xlabel="rows", ylabel="time (s)")
    with pytest.raises(InvalidArgumentError, match="must be 2 numbers"):
        plots.scaling({"": ([1, 2], [1.0])}, xlabel="rows", ylabel="time (s)")


def test_table__has_no_gain_where_turns_share_nothing():
    study = made(workers=[1, 2], repeat=[0, 1], seconds=[2.0, 1.0])
    assert study.records()[1]["speedup"] is None
    assert study.records()[1]["relative"] is None
