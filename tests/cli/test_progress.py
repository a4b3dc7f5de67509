"""The words of the bar."""

import io

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from dhsic.cli.progress import Bar
from dhsic.engine.events import BlockFinished, PassFinished, PassStarted, StepStarted, Unit


@pytest.fixture
def progress() -> Progress:
    return Progress(TextColumn("{task.description}"), console=Console(file=io.StringIO()))


@pytest.mark.parametrize("unit", ["rows", "pairs of rows", "resamples"])
def test_bar__says_what_is_counted(progress: Progress, unit: Unit) -> None:
    hear = Bar(progress).listen("V-HSIC: ")
    hear(PassStarted("null", 8, 12_000, unit))
    hear(BlockFinished("null", 1000, unit))
    hear(BlockFinished("null", 500, unit))
    (task,) = progress.tasks
    assert task.description == "V-HSIC: null"
    assert (task.completed, task.total) == (1500, 12_000)
    assert task.fields["done"] == f"1,500 of 12,000 {unit}"
    hear(PassFinished("null", 8, 12_000, 0, 1.0, 1.0, unit))
    hear(StepStarted("solve"))
    (task,) = progress.tasks
    assert (task.description, task.fields["done"]) == ("V-HSIC: solve", "")


def test_bar__counts_rows_where_nothing_else_is_said(progress: Progress) -> None:
    bar = Bar(progress)
    bar.begin("converting")
    bar.at(2000)
    assert progress.tasks[0].fields["done"] == "2,000 rows"


def test_bar__without_a_terminal_is_silent() -> None:
    hear = Bar().listen()
    for event in (PassStarted("sums", 1, 5), BlockFinished("sums", 5)):
        hear(event)
