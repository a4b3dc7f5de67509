"""`dhsic cause` is `dhsic.causal` on zarr data and on folders of pairs."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import dhsic
from dhsic import causal
from dhsic.io.cause_effect_pairs import read_pairs
from dhsic.io.open import open_group
from tests.cli.conftest import Invoke

ALL = ("--variable", "a", "--variable", "b", "--variable", "c")
PAIR = ("--variable", "a", "--variable", "b")
PNG = b"\x89PNG"


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cause a of b, and b of c, with uniform noise."""
    a, b, c = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 240))
    b += 2.0 * a**2
    c += np.tanh(2.0 * b)
    path = tmp_path_factory.mktemp("cause") / "chain.zarr"
    group = zarr.create_group(path)
    for name, values in {"a": a, "b": b, "c": c, "label": np.arange(240) % 3}.items():
        group.create_array(name, data=values[:, None], chunks=(100, 1))
    group["label"].attrs["kind"] = "categorical"
    return str(path)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of both directions, one with a column that belongs to neither variable."""
    path = tmp_path_factory.mktemp("pairs")
    lines = []
    for number in range(1, 5):
        x, noise, other = np.random.default_rng(number).uniform(-1.0, 1.0, (3, 100))
        y = x + x**3 + 0.6 * noise
        columns = [x, y] if number % 2 else [y, x]
        extra = [np.where(other > 0, np.nan, 1.0)] if number == 3 else []
        np.savetxt(path / f"pair000{number}.txt", np.column_stack([*columns, *extra]))
        cause, effect = (1, 2) if number % 2 else (2, 1)
        lines.append(f"000{number} {cause} {cause} {effect} {effect} 0.5")
    (path / "pairmeta.txt").write_text("\n".join(lines) + "\n")
    return path


def test_dags__are_score_dags(invoke: Invoke, chain: str, tmp_path: Path) -> None:
    out, plot = tmp_path / "dags.json", tmp_path / "dags.png"
    done = invoke("cause", "dags", chain, *ALL, "--json", out, "--plot", plot, "--top", 3)
    assert (done.exit_code, done.stderr) == (0, "")
    expected = causal.score_dags(*open_group(chain, list("abc")), rng=0)
    found = causal.DAGScores.from_json(out.read_text())
    assert (found.pvalues, found.null) == (expected.pvalues, expected.null)
    lines = done.stdout.splitlines()
    assert lines[1].endswith(str(expected.best.dag))
    minimal = [line for line in lines if line.startswith("minimal")]
    assert [line.split(maxsplit=1)[1] for line in minimal] == [
        str(one.dag) for one in expected.minimal()
    ]
    assert sum("->" in line for line in lines) == 3 + len(minimal)
    kept = len(expected.accepted(0.05))
    assert f"{kept} of 25 graphs are not rejected at level 0.05" in done.stdout
    assert plot.read_bytes().startswith(PNG)


def test_dags__take_options(invoke: Invoke, chain: str, tmp_path: Path) -> None:
    out = tmp_path / "dags.json"
    options = (
        *("--knots", 5, "--folds", 2, "--kernel", "laplacian", "--kernel", "b=gaussian:0.5"),
        *("--estimator", "nystrom-m", "--landmarks", 30, "--null", "multiplier"),
        *("--resamples", 19, "--seed", 3, "--precision", "float32", "--alpha", 0.2),
    )
    done = invoke("cause", "dags", chain, *ALL, *options, "--json", out)
    assert done.exit_code == 0, done.stderr
    expected = causal.score_dags(
        *open_group(chain, list("abc")),
        regression=causal.Splines(n_knots=5, n_folds=2),
        kernels=["laplacian", "gaussian:0.5", "laplacian"],
        estimator=dhsic.NystromMHSIC(30),
        null=dhsic.Multiplier(19),
        precision="float32",
        rng=3,
    )
    found = causal.DAGScores.from_json(out.read_text())
    assert (found.pvalues, found.kernels) == (expected.pvalues, expected.kernels)
    assert (
        f"{len(expected.accepted(0.2))} of 25 graphs are not rejected at level 0.2" in done.stdout
    )


def test_dags__run_on_workers_with_a_journal(invoke: Invoke, chain: str, tmp_path: Path) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "dags.json"
    done = invoke("cause", "dags", chain, *PAIR, "--workers", 1, "--log-json", log, "--json", out)
    assert done.exit_code == 0, done.stderr
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    found = causal.DAGScores.from_json(out.read_text())
    assert lines[-1]["event"] == "result"
    assert lines[-1]["graph"] == str(found.best.dag) == "a -> b"
    assert any(line["event"] == "pass-finished" for line in lines)
    here = causal.score_dags(*open_group(chain, list("ab")), rng=0)
    assert found.pvalues == pytest.approx(here.pvalues)


def test_order__is_search_dag(invoke: Invoke, chain: str, tmp_path: Path) -> None:
    out, plot = tmp_path / "order.json", tmp_path / "order.svg"
    options = ("--alpha", 0.01, "--json", out, "--plot", plot)
    done = invoke("cause", "order", chain, *ALL, *options)
    assert (done.exit_code, done.stderr) == (0, "")
    expected = causal.search_dag(*open_group(chain, list("abc")), alpha=0.01, rng=0)
    found = causal.DAGSearch.from_json(out.read_text())
    assert (found.parents, found.pruning) == (expected.parents, expected.pruning)
    assert found.alpha == 0.01
    assert "a -> b, b -> c" in done.stdout
    assert "<svg" in plot.read_text()


def test_residuals__is_the_test_of_residuals(invoke: Invoke, chain: str, tmp_path: Path) -> None:
    out, plot = tmp_path / "test.json", tmp_path / "test.png"
    variables = ("--variable", "a", "--variable", "c", "--given", "b")
    options = ("--kernel", "gaussian", "--landmarks", 30, "--resamples", 49, "--seed", 1)
    done = invoke("cause", "residuals", chain, *variables, *options, "--json", out, "--plot", plot)
    assert (done.exit_code, done.stderr) == (0, "")
    a, b, c = open_group(chain, list("abc"))
    expected = causal.residual_independence_test(
        a,
        c,
        given=b,
        names=list("acb"),
        kernels="gaussian",
        estimator=dhsic.NystromMHSIC(30),
        n_resamples=49,
        rng=1,
    )
    found = causal.ResidualIndependenceTestResult.from_json(out.read_text())
    assert (found.pvalue, found.given) == (expected.pvalue, ("b",))
    assert "independence of residuals not rejected at level 0.05" in done.stdout
    assert plot.read_bytes().startswith(PNG)


def test_residuals__of_groups_and_series(invoke: Invoke, chain: str, tmp_path: Path) -> None:
    out = tmp_path / "test.json"
    n = zarr.open_group(chain)["a"].shape[0]
    fives = zarr.open_group(chain, mode="a")
    fives.create_array("fives", data=np.arange(n) // 5, overwrite=True)
    variables = ("--variable", "a", "--variable", "c", "--given", "b", "--kernel", "gaussian")
    for asked, words in (
        (("--groups", "fives"), "exact where whole groups of equally many rows"),
        (("--order", "time", "--lag", 5), "asymptotic: right for long series"),
    ):
        options = ("--landmarks", 30, *asked, "--json", out, "--overwrite")
        done = invoke("cause", "residuals", chain, *variables, *options)
        assert (done.exit_code, done.stderr) == (0, "")
        found = causal.ResidualIndependenceTestResult.from_json(out.read_text())
        assert found.null_reason.startswith(words)


def test_direction__is_that_of_the_package(invoke: Invoke, chain: str, tmp_path: Path) -> None:
    out = tmp_path / "direction.json"
    options = ("--criterion", "hsic", "--estimator", "rff-hsic", "--features", 31, "--seed", 2)
    more = ("--kernel", "laplacian", "--max-rows", 90, "--knots", 6, "--threads", 1)
    done = invoke("cause", "direction", chain, *PAIR, *options, *more, "--json", out)
    assert (done.exit_code, done.stderr) == (0, "")
    expected = causal.direction(
        *open_group(chain, list("ab")),
        criterion="hsic",
        estimator=dhsic.RFFHSIC(31),
        kernel="laplacian",
        max_rows=90,
        regression=causal.Splines(n_knots=6),
        rng=2,
    )
    found = causal.CausalDirection.from_json(out.read_text())
    assert (found.score, found.n, found.seed) == (expected.score, 90, 2)
    assert done.stdout.splitlines()[0].split() == ["direction", *found.direction.split()]


def test_direction__takes_nulls_and_landmarks(invoke: Invoke, chain: str, tmp_path: Path) -> None:
    out, log = tmp_path / "direction.json", tmp_path / "log.jsonl"
    options = ("--estimator", "nystrom-m", "--landmarks", 20, "--null", "permutation")
    more = ("--resamples", 19, "--json", out, "--log-json", log)
    assert invoke("cause", "direction", chain, *PAIR, *options, *more).exit_code == 0
    found = causal.CausalDirection.from_json(out.read_text())
    assert (found.estimator, found.null) == ("nystrom-m", "permutation")
    assert (found.backward.pvalue * 20) % 1 == pytest.approx(0.0, abs=1e-9)
    assert json.loads(log.read_text().splitlines()[-1])["direction"] == found.direction


def test_direction__is_planned(invoke: Invoke, chain: str) -> None:
    done = invoke("cause", "direction", chain, *PAIR, "--plan")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.count("regressions") == 2
    assert invoke("cause", "direction", chain, *PAIR, "--calibrate").exit_code == 2
    options = ("--plan", "--time", "90s", "--max-rows", 200)
    assert "200" in invoke("cause", "direction", chain, *PAIR, *options).stdout.split("\n")[0]


def test_direction__runs_on_workers_in_a_time(invoke: Invoke, chain: str, tmp_path: Path) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "direction.json"
    options = ("--workers", 1, "--time", 600, "--log-json", log, "--json", out)
    done = invoke("cause", "direction", chain, *PAIR, *options)
    assert done.exit_code == 0, done.stderr
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert "workers-ready" in events
    assert events.count("pass-finished") == 5
    here = causal.direction(*open_group(chain, list("ab")), rng=0)
    found = causal.CausalDirection.from_json(out.read_text())
    assert found.score == pytest.approx(here.score)


@pytest.mark.parametrize(
    "command",
    [
        ("dags", *PAIR),
        ("order", *PAIR),
        ("residuals", *PAIR, "--given", "c"),
        ("direction", *PAIR, "--max-rows", 100),
    ],
    ids=lambda command: command[0],
)
def test_checkpoints__are_kept_and_listed(
    invoke: Invoke, chain: str, tmp_path: Path, command: tuple[Any, ...]
) -> None:
    name, *options = command
    kept = ("--checkpoint", tmp_path / "kept")
    first = invoke("cause", name, chain, *options, *kept)
    assert first.exit_code == 0, first.stderr
    assert "regressions" in invoke("checkpoints", "list", tmp_path / "kept").stdout
    again = invoke("cause", name, chain, *options, *kept)
    assert again.stdout.splitlines()[0] == first.stdout.splitlines()[0]
    other = invoke("cause", name, chain, *options, *kept, "--seed", 9)
    assert other.exit_code == 2
    assert "is of another run" in other.stderr


def test_checkpoints__of_pairs_are_one_each(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    options = ("--criterion", "hsic", "--checkpoint", tmp_path / "kept")
    assert invoke("cause", "pairs", folder, *options).exit_code == 0
    listed = invoke("checkpoints", "list", tmp_path / "kept").stdout
    assert listed.count("causal direction of") == 4


def test_pairs__are_read_and_scored(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    out, plot = tmp_path / "pairs.json", tmp_path / "roc.png"
    options = ("--criterion", "hsic", "--max-rows", 80, "--seed", 1, "--top", 2)
    done = invoke("cause", "pairs", folder, *options, "--json", out, "--plot", plot)
    assert (done.exit_code, done.stderr) == (0, "")
    read = read_pairs(folder)
    assert [pair.first_is_cause for pair in read] == [True, False, True, False]
    expected = causal.directions(
        {pair.name: (pair.x, pair.y) for pair in read}, criterion="hsic", max_rows=80, rng=1
    )
    found = causal.CausalDirections.from_json(out.read_text())
    assert found.scores.tolist() == expected.scores.tolist()
    assert sum("pair000" in line for line in done.stdout.splitlines()) == 2
    auc = found.roc_curve([True, False, True, False]).auc
    assert f"area {auc:.4f}" in done.stdout
    assert plot.read_bytes().startswith(PNG)


def test_pairs__without_scikit_learn_tell_all_but_the_areas(
    invoke: Invoke, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    done = invoke("cause", "pairs", folder, "--criterion", "hsic", "--max-rows", 80)
    assert done.exit_code == 0
    assert "of the weight of all pairs" in done.stdout
    assert "A ROC curve needs scikit-learn" in done.stdout
    refused = invoke("cause", "pairs", folder, "--plot", tmp_path / "roc.png")
    assert refused.exit_code == 2
    assert "--plot needs scikit-learn" in refused.stderr


def test_pairs__without_known_directions_have_no_areas(
    invoke: Invoke, folder: Path, tmp_path: Path
) -> None:
    for number in (1, 2):
        name = f"pair000{number}.txt"
        (tmp_path / name).write_text((folder / name).read_text())
    done = invoke("cause", "pairs", tmp_path, "--criterion", "hsic", "--log-json", "-")
    assert done.exit_code == 0
    assert "area" not in done.stdout
    assert "pair0001, pair 1 of 2" in done.stderr
    told = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [one["pairs"] for one in told if one["event"] == "result"] == [2]
    refused = invoke("cause", "pairs", tmp_path, "--plot", tmp_path / "roc.png")
    assert refused.exit_code == 2
    assert "known directions of both kinds" in refused.stderr


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "must be a folder with files pair0001.txt"),
        ({"pair0001.txt": "1 2 3\n"}, "must have two columns"),
        ({"pair0001.txt": "1 a\n"}, "must hold numbers in columns"),
        ({"pair0001.txt": "1 2\n", "pairmeta.txt": "0002 1 1 2 2 1\n"}, "none for pair0001.txt"),
        ({"pair0001.txt": "1 2\n", "pairmeta.txt": "0001 1 1 3 3 1\n"}, "columns of the 2"),
        ({"pair0001.txt": "1 2\n", "pairmeta.txt": "0001 1 1 2\n"}, "six numbers a line"),
        ({"pair0001.txt": "1 nan\n2 3\n4 5\n1 2\n"}, "pair 'pair0001': variable 'x2' has NaN"),
    ],
)
def test_pairs__that_cannot_be_read_are_refused(
    invoke: Invoke, tmp_path: Path, files: dict[str, str], message: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = invoke("cause", "pairs", tmp_path)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("dags", ("--variable", "a"), "two or more variables"),
        ("dags", (*PAIR, "--variable", "label"), "'label' holds categories"),
        ("dags", (*PAIR, "--regression", "spline"), "'splines', 'random-forest'"),
        ("dags", (*PAIR, "--regression", "random-forest", "--knots", 5), "--knots goes with"),
        ("dags", (*PAIR, "--folds", 0), "n_folds must be an integer >= 1"),
        ("dags", (*PAIR, "--kernel", "gaussian|laplacian"), "--kernel takes one kernel"),
        ("dags", (*PAIR, "--landmarks", 9, "--estimator", "v-hsic"), "--landmarks goes with"),
        ("dags", (*PAIR, "--plot", "picture.doc"), "ends in a format"),
        ("dags", (*PAIR, "--plot", "one", "--json", "one"), "name the same file"),
        ("dags", (*PAIR, "--alpha", 2), "the level must be greater than 0"),
        ("order", (*PAIR, "--variable", "d"), "needs an array 'd'"),
        ("direction", ALL, "two variables are needed: give --variable twice"),
        (
            "direction",
            (*PAIR, "--criterion", "hsic", "--resamples", 9),
            "--resamples needs --criterion",
        ),
        (
            "direction",
            (*PAIR, "--features", 9),
            "--features goes with --estimator nystrom-hsic or rff-hsic",
        ),
        ("direction", (*PAIR, "--max-rows", 2), "max_rows must be an integer >= 4"),
        ("direction", ("--variable", "a", "--variable", "label"), "'label' holds categories"),
        (
            "residuals",
            (*ALL, "--given", "label"),
            "two variables are needed: give --variable twice",
        ),
        ("residuals", PAIR, "Missing option '--given'"),
        ("residuals", (*PAIR, "--given", "a"), "of different names"),
    ],
)
def test_bad_usage_is_a_line(
    invoke: Invoke, chain: str, command: str, options: tuple[Any, ...], message: str
) -> None:
    done = invoke("cause", command, chain, *options)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_tells_of_every_command(invoke: Invoke) -> None:
    shown = invoke("cause", "--help").stdout
    for command in ("dags", "order", "direction", "residuals", "pairs"):
        assert command in shown
        assert f"dhsic cause {command}" in invoke("cause", command, "--help").stdout


@pytest.mark.parametrize("option", [("--null", "gamma"), ("--resamples", 19)])
def test_direction__refuses_nulls_where_nothing_has_a_pvalue(
    invoke: Invoke, chain: str, option: tuple[str, object]
) -> None:
    done = invoke("cause", "direction", chain, *PAIR, "--criterion", "hsic", *option)
    assert done.exit_code == 2
    assert f"{option[0]} needs --criterion p-value or larger-p-value" in done.stderr
