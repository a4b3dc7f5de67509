"""Every estimator and null, with every option that one of them has."""

import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

import pytest

from dhsic import DCor, DCov, Normal, NystromMHSIC, Permutation, Sequential, Spectral
from dhsic.errors import DataError
from dhsic.estimators.registry import TABLE
from dhsic.kernels import Candidates, Grid, parse
from dhsic.landmarks import Selection
from tests.cli.conftest import Invoke, TestJson

Ask = Callable[..., dict[str, Any]]

PAIR = ("--variable", "x", "--variable", "y")

ESTIMATOR_OPTIONS: dict[str, tuple[tuple[str, ...], Any]] = {
    "n_landmarks": (("--landmarks", "64"), 64),
    "pairing": (("--pairing", "joint"), "joint"),
    "selection": (("--selection", "rpcholesky"), "rpcholesky"),
    "pool": (("--pool", "3"), 3),
    "n_features": (("--features", "32"), 32),
    "n_locations": (("--locations", "7"), 7),
    "placement": (("--placement", "random"), "random"),
    "training_rows": (("--training-rows", "64"), 64),
    "regularisation": (("--regularisation", "0.01"), 0.01),
    "form": (("--form", "complex"), "complex"),
    "orthogonal": (("--orthogonal",), True),
    "exponent": (("--exponent", "0.7"), 0.7),
    "unbiased": (("--unbiased",), True),
    "root": (("--root",), True),
    "block_rows": (("--block-rows", "64"), 64),
}
OPTIONS_OF_EACH = [
    (entry.estimator, field.name)
    for entry in TABLE
    for field in fields(entry.estimator)  # type: ignore[arg-type]
    if field.name in ESTIMATOR_OPTIONS
]


@pytest.fixture
def ask(invoke: Invoke, data: str, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """What a command asks of the package."""
    asked: dict[str, Any] = {}

    def record(*_: object, **arguments: object) -> None:
        asked.update(arguments)
        message = "recorded"
        raise DataError(message)

    def run(*options: object, command: str = "test") -> dict[str, Any]:
        assert invoke(command, data, *PAIR, *options).stderr == "dhsic: error: recorded\n"
        return dict(asked)

    monkeypatch.setattr("dhsic.independence_test", record)
    monkeypatch.setattr("dhsic.plan", record)
    return run


def test_nothing_is_asked_that_was_not_given(ask: Ask) -> None:
    asked = ask()
    assert (asked["estimator"], asked["null"]) == ("auto", "auto")
    assert (asked["n_resamples"], asked["kernels"]) == (None, [None, None])


@pytest.mark.parametrize("name", ["auto", *(entry.estimator.name for entry in TABLE)])
def test_estimator__by_name(ask: Ask, name: str) -> None:
    assert ask("--estimator", name)["estimator"] == name


@pytest.mark.parametrize(("estimator", "field"), OPTIONS_OF_EACH)
def test_estimator__with_an_option(ask: Ask, estimator: Any, field: str) -> None:
    option, value = ESTIMATOR_OPTIONS[field]
    asked = ask("--estimator", estimator.name, *option)["estimator"]
    assert asked == estimator(**{field: value}) != estimator()


def test_estimator__every_option_belongs_to_one() -> None:
    assert {field for _, field in OPTIONS_OF_EACH} == set(ESTIMATOR_OPTIONS)


def test_estimator__with_options_together(ask: Ask) -> None:
    asked = ask("--estimator", "dcov", "--exponent", "0.5", "--unbiased")
    assert asked["estimator"] == DCov(exponent=0.5, unbiased=True)


@pytest.mark.parametrize("count", ["2sqrt", "0.5sqrt", "sqrt", "auto"])
def test_landmarks__words_are_left_to_the_estimator(ask: Ask, count: str) -> None:
    assert ask("--landmarks", count)["estimator"].n_landmarks == count


@pytest.mark.parametrize("name", get_args(Selection))
def test_selection__by_name(ask: Ask, name: str) -> None:
    assert ask("--selection", name)["estimator"].selection == name


def test_pool__goes_with_the_selection(ask: Ask) -> None:
    asked = ask("--selection", "leverage", "--pool", 3, "--landmarks", 50)["estimator"]
    assert asked == NystromMHSIC(50, selection="leverage", pool=3)


@pytest.mark.parametrize(
    ("options", "null", "n_resamples"),
    [
        (("permutation", "--resamples", 33), "permutation", 33),
        (("spectral", "--resamples", 33), "spectral", 33),
        (("gamma",), "gamma", None),
        (("permutation", "--within", "all"), Permutation(within="all"), None),
        (("permutation", "--group-rows", 64), Permutation(group_rows=64), None),
        (
            ("permutation", "--within", "groups", "--group-rows", 64, "--resamples", 33),
            Permutation(33, within="groups", group_rows=64),
            None,
        ),
        (("sequential", "--resamples", 33), "sequential", 33),
        (("sequential", "--exceed", 7), Sequential(7), None),
        (("sequential", "--exceed", 7, "--resamples", 33), Sequential(7, 33), None),
        (("normal", "--variance", "empirical"), Normal("empirical"), None),
        (("normal", "--variance", "empirical", "--resamples", 33), Normal("empirical"), 33),
        (("spectral", "--method", "inversion"), Spectral("inversion"), None),
        (("spectral", "--method", "simulation"), Spectral("simulation"), None),
        (
            ("spectral", "--method", "simulation", "--resamples", 33),
            Spectral("simulation", n_resamples=33),
            None,
        ),
    ],
)
def test_null__with_its_options(
    ask: Ask, options: tuple[object, ...], null: Any, n_resamples: int | None
) -> None:
    asked = ask("--null", *options)
    assert (asked["null"], asked["n_resamples"]) == (null, n_resamples)


def test_kernel__left_out_is_the_estimators_own(ask: Ask) -> None:
    assert ask("--kernel", "y=delta")["kernels"] == [None, parse("delta")]
    assert ask("--kernel", "linear")["kernels"] == [parse("linear")] * 2


@pytest.mark.parametrize(
    ("options", "grid"),
    [
        (("--factors", "0.5,2"), Grid((Candidates("gaussian", (0.5, 2)),) * 2)),
        (
            ("--factors", "0.5,2", "--kernel", "y=laplacian|linear"),
            Grid((Candidates("gaussian", (0.5, 2)), Candidates(("laplacian", "linear"), (0.5, 2)))),
        ),
        (("--combine", "all"), Grid((Candidates(),) * 2, combine="all")),
        (("--combine", "matched"), Grid((Candidates(),) * 2, combine="matched")),
        (("--aggregate", "min-p"), Grid((Candidates(),) * 2, aggregate="min-p")),
        (("--reference-share", 0), Grid((Candidates(),) * 2, reference_share=0.0)),
        (("--reference-share", 0.5), Grid((Candidates(),) * 2, reference_share=0.5)),
        (
            ("--kernel", "x=delta", "--combine", "all"),
            Grid((Candidates("delta", (1.0,)), Candidates()), combine="all"),
        ),
        (
            ("--kernel", "gaussian|laplacian", "--aggregate", "min-p"),
            Grid((Candidates(("gaussian", "laplacian")),) * 2, aggregate="min-p"),
        ),
    ],
)
def test_grid__with_its_options(ask: Ask, options: tuple[object, ...], grid: Grid) -> None:
    assert ask(*options)["kernels"] == ask(*options, command="plan")["kernels"] == grid


def test_kernel__of_distances(run_test: TestJson) -> None:
    one, other = (run_test("--estimator", "dcov", "--exponent", q) for q in (1.0, 0.5))
    assert [v.kernel for v in one.variables] == ["distance:1.0"] * 2
    assert [v.kernel for v in other.variables] == ["distance:0.5"] * 2
    assert one.statistic != other.statistic


def test_plan__asks_for_the_same(ask: Ask) -> None:
    options = ("--estimator", "dcor", "--unbiased", "--null", "multiplier", "--resamples", 9)
    planned, tested = ask(*options, command="plan"), ask(*options)
    assert planned["estimator"] == DCor(unbiased=True)
    assert all(planned[name] == tested[name] for name in ("estimator", "null", "n_resamples"))


@pytest.mark.parametrize("null", ["gamma", "spectral"])
def test_null__of_a_formula_is_printed_without_resamples(
    invoke: Invoke, data: str, null: str
) -> None:
    done = invoke("test", data, *PAIR, "--null", null, "--alpha", 0.0001)
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"\nnull          {null}: as asked" in done.stdout
    assert done.stdout.endswith("independence rejected at level 0.0001\n")
    assert "±" not in done.stdout
    assert "resamples" not in done.stdout


def test_null__of_draws_is_printed_with_them(invoke: Invoke, data: str) -> None:
    drawn = ("--null", "spectral", "--method", "simulation", "--resamples", 99)
    done = invoke("test", data, *PAIR, *drawn, "--alpha", 0.001)
    assert "spectral, 99 replicates" in done.stdout
    assert "p-value       <= 0.01 (the smallest with 99 replicates" in done.stdout
    assert "99 replicates never can, take 999 or more" in done.stdout


def test_values_stand_under_each_other(invoke: Invoke, data: str) -> None:
    done = invoke("test", data, *PAIR, "--estimator", "dcov", "--null", "gamma")
    width = len("squared distance covariance  ")
    for line in done.stdout.splitlines():
        assert line[width - 2 : width] == "  "
        assert line[width] != " "


@pytest.mark.parametrize("command", ["test", "plan"])
def test_help__shows_the_table(invoke: Invoke, command: str) -> None:
    text = "\n".join(shown(invoke, command)).split("\n  estimator ")[1].split("\n\n")[0]
    table = re.sub(r"\n {10,}", " ", text)  # a line goes on under its nulls
    lines = [re.split(r"\s{2,}", line.strip()) for line in table.split("\n")[1:]]
    for line, entry in zip(lines, TABLE, strict=True):
        name, cost, variables, nulls = line
        assert (name, cost) == (entry.estimator.name, entry.cost)
        assert variables == ("2+" if entry.most_variables is None else "2")
        assert nulls == " ".join(null.name for null in entry.nulls)


def test_help__says_what_an_option_goes_with(invoke: Invoke) -> None:
    text = " ".join(" ".join(shown(invoke, "test")).split())
    for words in ("[for nystrom-m", "; default: 8sqrt]", "[for permutation; default: 4096]"):
        assert words in text


def shown(invoke: Invoke, command: str) -> list[str]:
    return invoke(command, "--help").stdout.splitlines()
