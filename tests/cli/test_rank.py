"""`dhsic rank` is `rank_features` on zarr data."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import dhsic
from dhsic.cli import main
from dhsic.io.open import open_group
from tests.cli.conftest import Invoke, code_of_page

XZ = ("--features", "x", "--target", "y")
QUICK = ("--landmarks", 40, "--resamples", 49)


def test_prints_the_strongest_and_what_is_found(invoke: Invoke, data: str) -> None:
    more = ("--resamples", 400, "--alpha", 0.01, "--control", "max-t")
    done = invoke("rank", data, *XZ, *QUICK, *more)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "x[0]" in done.stdout
    assert "1 of 3 at level 0.01 by max-t: x[0]" in done.stdout


def test_is_rank_features(invoke: Invoke, data: str, tmp_path: Path) -> None:
    out = tmp_path / "ranking.json"
    done = invoke(
        "rank", data, *XZ, *QUICK, "--json", out, "--seed", 3, "--by", "cka", "--null",
        "permutation", "--within", "groups", "--group-rows", 100, "--kernel", "laplacian",
        "--target-kernel", "imq", "--pairing", "joint", "--precision", "float32",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    found = dhsic.ColumnRanking.from_json(out.read_text())
    expected = dhsic.rank_features(
        *open_group(data, ["x", "y"]),
        by="cka",
        feature_kernels="laplacian",
        target_kernel="imq",
        estimator=dhsic.NystromMHSIC(40, "joint"),
        null=dhsic.Permutation(49, "groups", 100),
        precision="float32",
        rng=3,
    )
    assert (found.features, found.by, found.null) == (expected.features, "cka", "permutation")


def test_groups_and_columns_of_an_array(invoke: Invoke, data: str, tmp_path: Path) -> None:
    out = tmp_path / "ranking.json"
    options = ("--group", "first=0:1", "--group", "both=0,1", "--group", "rest=1:", "--json", out)
    done = invoke("rank", data, "--features", "x[:, 0:2]", "--target", "y", *QUICK, *options)
    assert done.exit_code == 0, done.stderr
    columns = {f["name"]: f["columns"] for f in json.loads(out.read_text())["features"]}
    assert columns == {"first": [0], "both": [0, 1], "rest": [1]}
    named = invoke("rank", data, "--features", "x[:, 1:3]", "--target", "y", *QUICK)
    assert "x[1]" in named.stdout
    assert "x[0]" not in named.stdout


def test_top_and_alpha(invoke: Invoke, data: str) -> None:
    done = invoke("rank", data, *XZ, *QUICK, "--top", 1, "--alpha", 0.9, "--control", "bh")
    table = done.stdout[: done.stdout.index("found")]
    assert sum(f"x[{j}]" in table for j in range(3)) == 1
    assert "at level 0.9 by bh: x[0]" in done.stdout


@pytest.mark.parametrize("name", ["v-hsic", "nystrom-hsic"])
def test_other_estimators(invoke: Invoke, data: str, name: str) -> None:
    done = invoke("rank", data, *XZ, "--estimator", name, "--resamples", 9)
    assert done.exit_code == 0, done.stderr
    assert name in done.stdout


def test_plan_runs_nothing(invoke: Invoke, long_data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dhsic.engine.session.run_pass", lambda *_, **__: pytest.fail("it ran"))
    wanted = ("rank", long_data, "--features", "features", "--target", "year", "--plan")
    for place in ((), ("--workers", 3)):
        done = invoke(*wanted, *place)
        assert (done.exit_code, done.stderr) == (0, "")
        assert "shifts" in done.stdout
        assert "allowed" in done.stdout
        assert "sensitivities" not in done.stdout
    assert "sensitivities" in invoke(*wanted, "--by", "sensitivity").stdout
    assert invoke(*wanted, "--memory", "200MiB").exit_code == 2


def test_journal_has_the_result(invoke: Invoke, data: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert invoke("rank", data, *XZ, *QUICK, "--log-json", log).exit_code == 0
    last = json.loads(log.read_text().splitlines()[-1])
    assert (last["event"], last["features"], last["strongest"]) == ("result", 3, "x[0]")
    assert invoke("rank", data, *XZ, *QUICK, "--log-json", "-").exit_code == 0


def test_rows__are_labelled_and_in_order(invoke: Invoke, data: str, tmp_path: Path) -> None:
    pairs = np.arange(1_225) // 5
    zarr.open_group(data, mode="a").create_array("fives", data=pairs, overwrite=True)
    options = {"estimator": dhsic.NystromMHSIC(40), "n_resamples": 49, "rng": 0}
    ways: list[tuple[tuple[object, ...], dict[str, Any]]] = [
        (("--strata", "label"), {"strata": open_group(data, ["x", "label"])[1]}),
        (("--row-groups", "fives"), {"row_groups": pairs}),
        (("--order", "time", "--lag", 30), {"order": dhsic.TimeOrder(lag=30)}),
    ]
    for number, (asked, rows) in enumerate(ways):
        out, page = tmp_path / f"{number}.json", tmp_path / f"{number}.html"
        done = invoke("rank", data, *XZ, *QUICK, *asked, "--json", out, "--report", page)
        assert done.exit_code == 0, done.stderr
        found = dhsic.ColumnRanking.from_json(out.read_text())
        expected = dhsic.rank_features(*open_group(data, ["x", "y"]), **options, **rows)
        assert (found.features, found.null_reason) == (expected.features, expected.null_reason)
        code: dict[str, Any] = {}
        exec(code_of_page(page), code)
        assert code["ranking"].features == found.features


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--lag", 5), "add --order time"),
        (("--row-groups", "label"), "groups of equally many rows"),
        (("--group", "a"), "--group must be NAME=COLUMNS"),
        (("--group", "a=b"), "by numbers from 0 to 2 or by name; got ['b']"),
        (("--group", "a=0", "--group", "a=1"), "each name once"),
        (("--group", "a=7"), "numbers from 0 to 2"),
        (("--kernel", "gausian"), "did you mean 'gaussian'"),
        (("--landmarks", "many"), "n_landmarks must be"),
        (("--estimator", "v-hsic", "--landmarks", 9), "--landmarks goes with"),
        (("--null", "multiplier", "--within", "all"), "--within goes with"),
        (("--target", "label", "--target-kernel", "imq"), "target 'label' holds categories"),
        (("--features", "gone"), "needs an array 'gone'"),
        (("--performance-report", "/tmp/none/x.html"), "does not exist"),
    ],
)
def test_refuses_in_a_line(
    invoke: Invoke, data: str, options: tuple[object, ...], words: str
) -> None:
    done = invoke("rank", data, *XZ, *options)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_table_is_ranked_whole_but_for_its_target_and_labels(
    invoke: Invoke, tmp_path: Path
) -> None:
    x, y, z = np.random.default_rng(0).standard_normal((3, 60))
    table, out = tmp_path / "table.csv", tmp_path / "ranking.json"
    rows = [f"{a},{b},{c},{'uv'[i % 2]}" for i, (a, b, c) in enumerate(zip(x, y, z, strict=True))]
    table.write_text("\n".join(['"x, of a=b",y,z,site', *rows]))

    def ranked(*options: object) -> set[str]:
        asked = ("--target", "y", *QUICK[2:], "--json", out, "--overwrite", *options)
        done = invoke("rank", table, *asked)
        assert done.exit_code == 0, done.stderr
        return {feature["name"] for feature in json.loads(out.read_text())["features"]}

    assert ranked() == {"x, of a=b", "z", "site"}
    assert ranked("--strata", "site") == {"x, of a=b", "z"}


def test_features_are_needed_where_they_could_be_any(
    invoke: Invoke, data: str, tmp_path: Path
) -> None:
    assert "--features must name the array" in invoke("rank", data, "--target", "y").stderr
    table = tmp_path / "table.csv"
    table.write_text("y\n1\n2\n")
    done = invoke("rank", table, "--target", "y")
    assert "must have columns besides y, got no others" in done.stderr


def test_help_shows_an_example(invoke: Invoke) -> None:
    assert "dhsic rank songs.zarr" in invoke("rank", "--help").stdout
    assert "rank" in main.commands  # type: ignore[attr-defined]
