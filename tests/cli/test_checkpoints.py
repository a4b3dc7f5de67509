"""``dhsic test --checkpoint`` and ``dhsic checkpoints``."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from dhsic.cli import main
from dhsic.cli.checkpoints import _age
from dhsic.engine.kept import find_checkpoints, kept_passes
from dhsic.io.folder import Folder
from dhsic.results import IndependenceTestResult
from tests.cli.conftest import Invoke, heed_interrupts

PAIR = ("--variable", "features", "--variable", "year", "--kernel", "gaussian")
QUICK = (*PAIR, "--landmarks", "20", "--resamples", "30", "--null", "multiplier")


@pytest.fixture
def kept(invoke: Invoke, long_data: str, tmp_path: Path) -> Path:
    url = tmp_path / "runs" / "kept"
    assert invoke("test", long_data, *QUICK, "--checkpoint", url).exit_code == 0
    return url


def test_test__goes_on_from_a_checkpoint(
    kept: Path, invoke: Invoke, long_data: str, tmp_path: Path
) -> None:
    files = {path: path.stat().st_mtime_ns for path in kept.rglob("shard-*")}
    out = tmp_path / "out.json"
    done = invoke("test", long_data, *QUICK, "--checkpoint", kept, "--json", out)
    assert (done.exit_code, done.stderr) == (0, "")
    plain = invoke("test", long_data, *QUICK, "--json", tmp_path / "plain.json")
    assert plain.exit_code == 0
    first, second = (
        IndependenceTestResult.from_json(path.read_text())
        for path in (out, tmp_path / "plain.json")
    )
    assert first.statistic == second.statistic
    assert first.null_distribution.tobytes() == second.null_distribution.tobytes()
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("shard-*")} == files


def test_test__names_what_differs_from_the_checkpoint(
    kept: Path, invoke: Invoke, long_data: str
) -> None:
    done = invoke("test", long_data, *QUICK, "--seed", 1, "--checkpoint", kept)
    assert done.exit_code == 2
    assert "seed was 0 there and is 1 now" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_test__refuses_a_checkpoint_before_any_worker_starts(
    invoke: Invoke, long_data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("dhsic.cli.options.Request.client", start)
    done = invoke("test", long_data, *QUICK, "--checkpoint", "s3://me:secret@bucket/kept")
    assert done.exit_code == 2
    assert "checkpoint must be a URL without user name" in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize("threads", [1, 2])
def test_test__of_a_checkpoint_may_have_other_threads_and_memory(
    threads: int, kept: Path, invoke: Invoke, long_data: str
) -> None:
    done = invoke(
        "test", long_data, *QUICK, "--threads", threads, "--memory", "3GB", "--checkpoint", kept
    )
    assert (done.exit_code, done.stderr) == (0, "")


def test_plan__takes_the_option_and_keeps_nothing(
    invoke: Invoke, long_data: str, tmp_path: Path
) -> None:
    done = invoke("plan", long_data, *QUICK, "--checkpoint", tmp_path / "kept")
    assert done.exit_code == 0
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("whole", [True, False], ids=["one", "folder of some"])
def test_list__says_what_is_kept(whole: bool, kept: Path, invoke: Invoke) -> None:
    done = invoke("checkpoints", "list", kept if whole else kept.parent)
    assert (done.exit_code, done.stderr) == (0, "")
    assert str(kept) in done.stdout
    assert "independence test of features, year; 20,000 rows, seed 0, float64" in done.stdout
    sums, null = (line.split() for line in done.stdout.splitlines()[-2:])
    assert sums[:5] == ["kernel", "sums", "5", "of", "5"]
    assert null[:5] == ["multiplier", "null", "5", "of", "5"]
    assert sums[6] == "KiB"


def test_list__counts_what_is_missing(kept: Path, invoke: Invoke) -> None:
    next(kept.rglob("shard-0002")).unlink()
    done = invoke("checkpoints", "list", kept)
    assert "4 of 5" in done.stdout


def test_list__counts_bytes(kept: Path) -> None:
    ((folder, _),) = find_checkpoints(Folder.at(str(kept), "it")).checkpoints
    sizes = [one.size for one in kept_passes(folder)]
    assert sum(sizes) == sum(path.stat().st_size for path in kept.rglob("shard-*"))


@pytest.fixture
def broken(kept: Path) -> list[Path]:
    """Checkpoints beside one that is whole, whose manifests cannot be read."""
    folders = [kept.with_name(name) for name in ("a torn one", "zebra")]
    for folder, text in zip(folders, ("{", '{"format": 2, "run": {}, "token": ""}'), strict=True):
        folder.mkdir()
        (folder / "dhsic-checkpoint.json").write_text(text)
    return folders


def test_list__names_the_broken_after_the_others(
    kept: Path, broken: list[Path], invoke: Invoke
) -> None:
    done = invoke("checkpoints", "list", kept.parent)
    assert done.exit_code == 2
    assert [line for line in done.stdout.splitlines() if not line.startswith(" ")] == [str(kept)]
    assert "5 of 5" in done.stdout
    assert len(done.stderr.splitlines()) == 1
    for folder, found in zip(broken, ("none", "2"), strict=True):
        assert f"checkpoint {folder} must have format 1, got {found}" in done.stderr


def test_clean__leaves_and_names_the_broken(kept: Path, broken: list[Path], invoke: Invoke) -> None:
    done = invoke("checkpoints", "clean", kept.parent, "--yes")
    assert (done.exit_code, done.stdout) == (2, f"removed {kept}\n")
    assert all(f"checkpoint {folder} must have format 1" in done.stderr for folder in broken)
    assert sorted(kept.parent.iterdir()) == broken
    alone = invoke("checkpoints", "clean", kept.parent)
    assert (alone.exit_code, alone.stdout) == (2, "")
    assert str(broken[0]) in alone.stderr


def test_clean__removes_a_checkpoint(kept: Path, invoke: Invoke) -> None:
    (kept / ".x.0123abcd.partial").write_text("half")
    for name in ("begun", "half"):
        (kept / name).mkdir()
    (kept / "half" / ".pass.json.0123abcd.partial").write_text("{")
    done = invoke("checkpoints", "clean", kept, "--yes")
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"removed {kept}\n", "")
    assert not kept.exists()


def test_clean__removes_all_of_a_folder_and_nothing_else(
    kept: Path, invoke: Invoke, long_data: str
) -> None:
    other = kept.with_name("other")
    assert invoke("test", long_data, *QUICK, "--checkpoint", other).exit_code == 0
    foreign = kept.parent / "thesis"
    foreign.mkdir()
    (foreign / "shard-0001").write_text("mine")
    (kept / "notes.txt").write_text("mine")
    inner = next(path for path in other.iterdir() if path.is_dir())
    (inner / "2024").write_text("mine")
    done = invoke("checkpoints", "clean", kept.parent, "--yes")
    assert done.exit_code == 0
    assert done.stdout.count("1 other files are left") == 2
    left = [path for path in kept.parent.rglob("*") if path.is_file()]
    assert sorted(path.name for path in left) == ["2024", "notes.txt", "shard-0001"]


def test_clean__asks_on_a_terminal_only(kept: Path, invoke: Invoke) -> None:
    done = invoke("checkpoints", "clean", kept)
    assert done.exit_code == 2
    assert "add --yes to remove them" in done.stderr
    assert (kept / "dhsic-checkpoint.json").exists()


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 130)])
def test_clean__does_as_it_is_told(
    answer: str, code: int, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dhsic.cli.checkpoints.is_terminal", lambda stream: True)
    done = CliRunner().invoke(main, ["checkpoints", "clean", str(kept)], input=f"{answer}\n")
    assert done.exit_code == code
    assert kept.exists() == (code != 0)


BAD = [
    (("list", "{nothing}"), "there must be a checkpoint"),
    (("clean", "{nothing}", "--yes"), "there must be a checkpoint"),
    (("list", "{data}"), "there must be a checkpoint"),
    (("clean", "{data}", "--yes"), "there must be a checkpoint"),
    (("clean", "{empty}", "--yes"), "there must be a checkpoint"),
    (("clean", "{forged}", "--yes"), "must have format 1"),
    (("list", "{forged}"), "must have format 1"),
    (("clean", "", "--yes"), "must be the path or URL of a folder"),
    (("clean", "s3://me:secret@bucket/x", "--yes"), "without user name"),
    (("list", "nowhere://x"), "a URL must be of a kind"),
    (("list",), "Missing argument 'URL'"),
    (("clean",), "Missing argument 'URL'"),
    (("list", "x", "y"), "unexpected extra argument"),
    (("remove", "x"), "No such command 'remove'"),
    (("clean", "x", "--force"), "No such option"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=[" ".join(bad[0]) for bad in BAD])
def test_checkpoints__bad_usage_is_a_line_and_removes_nothing(
    arguments: tuple[str, ...], words: str, invoke: Invoke, data: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "forged").mkdir()
    (tmp_path / "forged" / "dhsic-checkpoint.json").write_text("[]")
    before = sorted(tmp_path.rglob("*")), len(list(Path(data).rglob("*")))
    places = {name: tmp_path / name for name in ("nothing", "empty", "forged")}
    done = invoke("checkpoints", *(part.format(data=data, **places) for part in arguments))
    assert done.exit_code == 2
    assert words in done.stderr
    assert "secret" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (sorted(tmp_path.rglob("*")), len(list(Path(data).rglob("*")))) == before


def test_age__has_one_unit() -> None:
    assert _age(None) == "unknown"
    assert _age(time.time() + 5) == "now"
    assert _age(time.time() - 61) == "1 minute ago"
    assert _age(time.time() - 3 * 86400 - 5) == "3 days ago"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_test__ended_by_a_signal_leaves_a_checkpoint(
    number: signal.Signals, big: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "dhsic", "test", str(big), *PAIR, "--threads", "1"),
            *("--checkpoint", str(kept)),
            *("--landmarks", "800"),  # so that it lasts long after three blocks
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    try:
        until = time.monotonic() + 120
        while len(list(kept.rglob("shard-*"))) < 3:
            assert time.monotonic() < until, "waited in vain"
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        os.kill(process.pid, number)
        _, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    if number == signal.SIGKILL:
        assert process.returncode == -9
    else:
        assert process.returncode == 130
        assert stderr.strip() == (
            f"dhsic: interrupted; what is done is kept in {kept}: run the same command again"
        )
    ((folder, _),) = find_checkpoints(Folder.at(str(kept), "it")).checkpoints
    assert sum(one.shards for one in kept_passes(folder)) >= 3
