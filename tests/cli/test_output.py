"""What a command writes."""

import sys

import numpy as np
import pytest

import dhsic
from dhsic.cli.output import print_columns, print_result
from dhsic.results import IndependenceTestResult, decision


@pytest.fixture(scope="module")
def result() -> IndependenceTestResult:
    x = np.random.default_rng(0).standard_normal((200, 2))
    options = {"estimator": "nystrom-m", "n_resamples": 99, "names": ["x", "y"]}
    return dhsic.independence_test(x, x[:, 0] ** 2, rng=0, **options)


@pytest.mark.parametrize(
    ("pvalue", "alpha", "text"),
    [
        (0.01, 0.05, "rejected at level 0.05"),
        (0.05, 0.05, "rejected at level 0.05; a close call, take more replicates"),
        (0.06, 0.05, "not rejected at level 0.05; a close call, take more replicates"),
        (0.5, 0.05, "not rejected at level 0.05"),
        (0.01, 0.01, "rejected at level 0.01; a close call, take more replicates"),
        (0.01, 0.001, "not rejected at level 0.001; 99 replicates never can, take 999 or more"),
    ],
)
def test_decision(result: IndependenceTestResult, pvalue: float, alpha: float, text: str) -> None:
    from dataclasses import replace

    assert decision(replace(result, pvalue=pvalue, pvalue_error=0.008), alpha) == text


def test_a_terminal_gets_lines_that_fit(
    result: IndependenceTestResult,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "44")
    print_result(result, 0.05)
    lines = capsys.readouterr().out.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert max(map(len, lines)) <= 44
    assert any(line.startswith(" " * 14) for line in lines)


def test_columns_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(["", "one", "two"], [["a", "1", "2"], ["long", "333333", "4"]])
    assert capsys.readouterr().out.splitlines() == [
        "      one     two",
        "a     1       2",
        "long  333333  4",
    ]
