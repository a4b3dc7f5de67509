"""Checkpoints: what goes on, what is refused, what is computed again, and what is removed.

`tests/test_places.py` has that every public function goes on to the same bits after an error.
"""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import dhsic
from dhsic import causal
from dhsic.cli import main
from dhsic.engine.checkpoint import Checkpoint, CheckpointWarning, remove_checkpoint
from dhsic.errors import DataError, DhsicError, InvalidArgumentError
from dhsic.io.urls import Folder
from tests.places import CALLS, Heard, KilledError, answer

N = 300
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
Y = X[:, :1] + RNG.standard_normal((N, 1))


def run(folder, *data, **options):
    asked = {
        "estimator": dhsic.NystromMHSIC(n_landmarks=20),
        "null": dhsic.Permutation(30),
        "kernels": "gaussian",
        "rng": 0,
        "threads": 2,
        "checkpoint": None if folder is None else str(folder),
        **options,
    }
    return dhsic.independence_test(*(data or (X, Y)), **asked)


def shards_of(folder):
    """Files of parts that are done, by the name of their pass."""
    return {
        json.loads(path.read_text())["name"]: sorted(path.parent.glob("shard-*"))
        for path in sorted(Path(folder).glob("*/pass.json"))
    }


def assert_all_is_kept(folder, first, *data, **options):
    again = run(folder, *data, progress=(seen := Heard()), **options)
    assert answer(again) == answer(first)
    assert seen.of("BlockFinished") == []
    assert seen.of("PassStarted")


BY_ROWS = {"null": "gamma"}  # two passes of ten blocks
BY_PAIRS = {"estimator": "v-hsic", "null": "gamma"}  # one pass over pairs of blocks
BY_RESAMPLES = {"estimator": "v-hsic"}  # 30 ranges of resamples
BY_SORTING = {"estimator": "dcov", "kernels": None}


def killed_at(number):
    """Ends a run when so many blocks are done."""
    return Heard(lambda heard, event: len(heard.of("BlockFinished")) == number)


@pytest.mark.parametrize("number", [1, 4, 10, 11, 20])
def test_run__killed_within_a_pass_over_rows_goes_on_to_the_same_bits(number, long, tmp_path):
    whole = run(None, *long, **BY_ROWS)
    with pytest.raises(KilledError):
        run(tmp_path / "kept", *long, progress=killed_at(number), threads=1, **BY_ROWS)
    kept = sum(map(len, shards_of(tmp_path / "kept").values()))
    assert number - 2 <= kept <= number + 2
    seen = Heard()
    assert answer(run(tmp_path / "kept", *long, progress=seen, **BY_ROWS)) == answer(whole)
    assert len(seen.of("BlockFinished")) == 20 - kept
    started = seen.of("PassStarted")
    assert sum(one.resumed_parts for one in started) == kept
    resumed = sum(one.resumed for one in started)
    assert resumed + sum(one.amount for one in seen.of("BlockFinished")) == 2 * 40_000
    assert_all_is_kept(tmp_path / "kept", whole, *long, memory="3GiB", **BY_ROWS)


@pytest.mark.parametrize("threads", [1, 2])
def test_run__that_the_user_interrupts_goes_on_to_the_same_bits(threads, long, tmp_path):
    blocks = iter(range(20))

    def interrupt(event):
        if type(event).__name__ == "BlockFinished" and next(blocks) == 6:
            raise KeyboardInterrupt

    kept = {"threads": threads, **BY_ROWS}
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "kept", *long, progress=interrupt, **kept)
    found = run(tmp_path / "kept", *long, progress=(seen := Heard()), **kept)
    assert answer(found) == answer(run(None, *long, **kept))
    assert len(seen.of("BlockFinished")) < 20


@pytest.mark.parametrize("asked", [BY_RESAMPLES, BY_SORTING], ids=["tiles", "sorting"])
def test_run__killed_within_resamples_goes_on_to_the_same_bits(asked, tmp_path):
    data = X[:, :1], Y
    whole = run(None, *data, **asked)
    with pytest.raises(KilledError):
        run(tmp_path / "kept", *data, progress=killed_at(17), threads=1, **asked)
    seen = Heard()
    assert answer(run(tmp_path / "kept", *data, progress=seen, **asked)) == answer(whole)
    assert 0 < len(seen.of("BlockFinished")) < 30


def test_run__killed_within_a_pass_over_pairs_goes_on_to_the_same_bits(tmp_path):
    rng = np.random.default_rng(1)
    data = [rng.standard_normal((4_000, d)) for d in (3, 1)]
    whole = run(None, *data, **BY_PAIRS)
    with pytest.raises(KilledError):
        run(tmp_path / "kept", *data, progress=killed_at(2), threads=1, **BY_PAIRS)
    seen = Heard()
    assert answer(run(tmp_path / "kept", *data, progress=seen, **BY_PAIRS)) == answer(whole)
    (started,) = seen.of("PassStarted")
    assert 0 < started.resumed_parts < started.parts
    assert started.resumed + sum(one.amount for one in seen.of("BlockFinished")) == started.amount


def altered(data, how):
    return {
        "empty": b"",
        "half": data[: len(data) // 2],
        "short": data[:-1],
        "flipped": data[:300] + bytes([data[300] ^ 4]) + data[301:],
    }[how]


@pytest.mark.parametrize("how", ["empty", "half", "short", "flipped"])
def test_parts__that_are_broken_are_computed_again_and_said(how, long, tmp_path):
    whole = run(tmp_path / "kept", *long, **BY_ROWS)
    shards = shards_of(tmp_path / "kept")["kernel sums"]
    for number in (3, 7):
        shards[number].write_bytes(altered(shards[number].read_bytes(), how))
    seen = Heard()
    with pytest.warns(CheckpointWarning, match="cannot be used and is computed again") as caught:
        again = run(tmp_path / "kept", *long, progress=seen, **BY_ROWS)
    assert answer(again) == answer(whole)
    assert sorted(str(one.message).partition("/shard-")[2][:4] for one in caught) == [
        "0003",
        "0007",
    ]
    assert len(seen.of("BlockFinished")) == 2
    assert [one.name for one in seen.of("PassStarted")].count("kernel sums") == 2
    assert_all_is_kept(tmp_path / "kept", whole, *long, **BY_ROWS)


def test_parts__of_variables_made_on_the_way_are_kept_apart(tmp_path):
    """Residuals of two regressions may meet the same pass: no public call has one at present."""
    whole = Checkpoint.open(Folder.at(str(tmp_path), "it"), {"computes": "a test"})
    several = [whole, *(replace(whole, part=part) for part in ("forward", "backward", (1, 2)))]
    passes = [("sums", 4, 0.5), ("sums", 4, 0.25), ("sums", 5, 0.5), ("means", 4, 0.5)]
    keys = {one.shards(*asked).key for one in several for asked in passes}
    assert len(keys) == len(several) * len(passes)
    again = Checkpoint.open(Folder.at(str(tmp_path), "it"), {"computes": "a test"})
    assert again.shards(*passes[0]).key == whole.shards(*passes[0]).key
    for one in several:
        assert one.keep("residuals", lambda one=one: f"of {one.part}", ()) == f"of {one.part}"


def test_parts__copied_or_renamed_are_not_taken_for_others(long, tmp_path):
    whole = run(tmp_path / "kept", *long, **BY_ROWS)
    first, second = shards_of(tmp_path / "kept")["kernel sums"][:2]
    first.write_bytes(second.read_bytes())
    other = shards_of(tmp_path / "kept")["gamma null"][1]
    other.write_bytes(second.read_bytes())
    with pytest.warns(CheckpointWarning, match="another one") as caught:
        assert answer(run(tmp_path / "kept", *long, **BY_ROWS)) == answer(whole)
    assert len(caught) == 2


def test_parts__half_written_or_foreign_are_no_parts(long, tmp_path):
    whole = run(tmp_path / "kept", *long, **BY_ROWS)
    last = shards_of(tmp_path / "kept")["kernel sums"][-1]
    last.rename(last.with_name(f".{last.name}.0123abcd.partial"))
    for name in ("shard-0010", "shard-9999", "shard-x", "notes.txt"):
        (last.parent / name).write_bytes(b"?")
    seen = Heard()
    assert answer(run(tmp_path / "kept", *long, progress=seen, **BY_ROWS)) == answer(whole)
    assert len(seen.of("BlockFinished")) == 1
    assert not [path for path in last.parent.iterdir() if ".partial" in path.name][1:]


def test_checkpoint__in_an_object_store_goes_on():
    place = "memory://bucket/kept/"
    with pytest.raises(KilledError):
        run(place, progress=killed_at(1))
    whole = run(None)
    assert answer(run(place)) == answer(whole)
    assert_all_is_kept(place, whole)


def test_checkpoint__of_the_same_runs_at_a_time_is_shared(tmp_path):
    whole, found, barrier = answer(run(None, **BY_RESAMPLES)), [], threading.Barrier(4)

    def start():
        barrier.wait(60)
        found.append(answer(run(tmp_path / "kept", threads=1, **BY_RESAMPLES)))

    together = [threading.Thread(target=start) for _ in range(4)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join(200)
    assert found == [whole] * 4
    names = [path.name for path in (tmp_path / "kept").rglob("*")]
    assert not [name for name in names if name.endswith(".partial")]


def test_checkpoint__of_different_runs_at_a_time_is_of_one(tmp_path):
    kept, refused, barrier = [], [], threading.Barrier(4)

    def start(seed):
        barrier.wait(60)
        try:
            kept.append(run(tmp_path / "kept", rng=seed, threads=1).seed)
        except InvalidArgumentError as error:
            refused.append(str(error))

    together = [threading.Thread(target=start, args=(seed,)) for seed in range(4)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join(200)
    assert (len(kept), len(refused)) == (1, 3)
    assert all(f"seed was {kept[0]} there and is" in message for message in refused)


def stored(folder, values, name, **attributes):
    array = zarr.create_array(folder / f"{name}.zarr", data=np.asarray(values))
    array.attrs.update(attributes)
    return str(folder / f"{name}.zarr")


CHANGED = X.copy()
CHANGED[N // 2, 1] += 1e-9
LABELS = RNG.integers(0, 3, N)

DIFFERENCES = [
    ({"rng": 1}, "seed was 0 there and is 1 now"),
    ({"precision": "float32"}, "precision"),
    ({"estimator": dhsic.NystromMHSIC(n_landmarks=21)}, r"estimator\.n_landmarks was 20"),
    ({"estimator": "rff-hsic"}, 'estimator was "NystromMHSIC" there and is "RFFHSIC" now'),
    ({"null": dhsic.Permutation(31)}, r"null\.n_resamples was 30 there and is 31 now"),
    ({"null": dhsic.Shifts(30)}, 'null was "Permutation" there and is "Shifts" now'),
    ({"kernels": "laplacian"}, r'kernels\[0\] was "Gaussian" there and is "Laplacian" now'),
    ({"kernels": ["gaussian", "gaussian:0.5"]}, r"kernels\[1\]\.gamma"),
    ({"kernels": None}, "kernels"),
    ({"names": ("x1", "z")}, r'variables\[1\]\.name was "x2" there and is "z" now'),
    ({"data": (X[:-1], Y[:-1])}, "rows was 300 there and is 299 now"),
    ({"data": (X.astype(np.float32), Y)}, r'variables\[0\]\.dtype was "<f8"'),
    ({"data": (CHANGED, Y)}, r"content\.variable 'x1' was"),
    ({"data": (X, Y, LABELS)}, r"variables_of_kernels|kernels"),
    ({"groups": np.arange(N) // 3}, "is of another run: moves"),
]


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize(("change", "field"), DIFFERENCES, ids=[field for _, field in DIFFERENCES])
def test_checkpoint__of_another_run_is_refused_by_the_field(change, field, tmp_path):
    run(tmp_path / "kept")
    before = sorted(tmp_path.rglob("*"))
    other = {"data": (X, Y), **change}
    data = other.pop("data")
    with pytest.raises(InvalidArgumentError, match=field) as caught:
        run(tmp_path / "kept", *data, **other)
    assert "take another URL, or remove it with 'dhsic checkpoints clean'" in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


GAPPED = np.where(np.arange(N) % 7, Y[:, 0], np.nan)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ({"weights": 1.0 + np.arange(N) % 5}, {"weights": 1.0 + np.arange(N)}, "run: weights"),
        ({"y": GAPPED, "missing": "pairwise"}, {"y": np.nan_to_num(GAPPED)}, "is of another run"),
    ],
)
def test_checkpoint__knows_weights_and_gaps(one, other, told, tmp_path):
    def begin(y=Y, **options):
        dhsic.independence_test(X, y, rng=0, checkpoint=str(tmp_path / "kept"), **options)

    begin(**one)
    with pytest.raises(InvalidArgumentError, match=told):
        begin(**(one | other))


def test_checkpoint__of_another_version_or_question_is_refused(tmp_path):
    run(tmp_path / "kept")
    with pytest.raises(InvalidArgumentError, match="computes was"):
        dhsic.hsic(
            *(X, Y),
            estimator=dhsic.NystromMHSIC(n_landmarks=20),
            rng=0,
            checkpoint=str(tmp_path / "kept"),
        )
    manifest = tmp_path / "kept" / "dhsic-checkpoint.json"
    written = json.loads(manifest.read_text())
    assert written["run"]["computes"] == "independence test"
    assert written["run"]["variables"][0]["shape"] == [N, 3]
    for library in ("dhsic", "numpy"):
        other = written["run"] | {library: "99.0"}
        manifest.write_text(json.dumps(written | {"run": other}))
        with pytest.raises(InvalidArgumentError, match=f'{library} was "99.0" there'):
            run(tmp_path / "kept")


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize(
    "other",
    [
        *({"aggregate": "min-p"}, {"reference_share": 0.25}, {"combine": "matched"}, {"most": 5}),
        {"candidates": dhsic.Candidates("gaussian", (0.5, 2.0))},
    ],
)
def test_checkpoint__of_another_grid_is_refused(other, tmp_path):
    usual = {"candidates": dhsic.Candidates("gaussian", (0.5, 1.0)), "combine": "all"}
    usual |= {"aggregate": "soft"}
    run(tmp_path / "kept", kernels=dhsic.Grid(**usual), estimator="v-hsic")
    with pytest.raises(InvalidArgumentError, match="is of another run"):
        run(tmp_path / "kept", kernels=dhsic.Grid(**(usual | other)), estimator="v-hsic")


def test_checkpoint__sees_categories(tmp_path):
    x, label = stored(tmp_path, X, "x"), stored(tmp_path, LABELS, "label")
    coded = stored(tmp_path, LABELS, "coded", kind="categorical")
    options = {"kernels": ["gaussian", "delta"], "names": ("x", "label")}
    run(tmp_path / "kept", x, label, **options)
    with pytest.raises(InvalidArgumentError, match=r"variables\[1\]\.categorical was false"):
        run(tmp_path / "kept", x, coded, **options)


def chunked(values, place, folder):
    if place == "zarr":
        if folder.exists():
            array = zarr.open_array(folder, mode="r+")
            differs = np.flatnonzero((array[:] != values).any(axis=1))
            array[differs[0] : differs[-1] + 1] = values[differs[0] : differs[-1] + 1]
        else:
            zarr.create_array(folder, data=values, chunks=(4000, 1))
        return str(folder)
    return values if place == "memory" else da.from_array(values, chunks=(7000, 1))


@pytest.mark.parametrize("place", ["memory", "zarr", "dask"])
def test_checkpoint__sees_a_changed_row_of_many(place, tmp_path):
    x, y = np.random.default_rng(1).normal(size=(2, 80_000, 1))
    changed = x.copy()
    changed[77_000] += 1.0
    run(tmp_path / "kept", chunked(x, place, tmp_path / "x"), y, null="shifts")
    with pytest.raises(InvalidArgumentError, match=r"is of another run: \w+\.variable 'x1?' was"):
        run(tmp_path / "kept", chunked(changed, place, tmp_path / "x"), y, null="shifts")


def test_checkpoint__of_dask_arrays_does_not_depend_on_their_chunks(tmp_path):
    first = run(tmp_path / "kept", da.from_array(X, chunks=50), Y)
    assert_all_is_kept(tmp_path / "kept", first, da.from_array(X, chunks=70), Y)


def test_checkpoint__takes_a_generator_in_the_same_state_and_needs_a_seed(tmp_path):
    first = run(tmp_path / "kept", rng=np.random.default_rng(5))
    assert_all_is_kept(tmp_path / "kept", first, rng=np.random.default_rng(5))
    with pytest.raises(InvalidArgumentError, match="rng must be a seed with a checkpoint"):
        run(tmp_path / "new", rng=None)
    with pytest.raises(dhsic.errors.MemoryBudgetError):
        run(tmp_path / "new", memory="1MiB")
    assert not (tmp_path / "new").exists()


BAD = [
    (3, InvalidArgumentError, "must be the path or URL of a folder"),
    ("nowhere://bucket/x", InvalidArgumentError, "a URL must be of a kind"),
    ("s3://bucket/x?token=secret", InvalidArgumentError, "without user name, password or query"),
    ("{file}", InvalidArgumentError, "must be a folder, got the file"),
    ("{full}", InvalidArgumentError, "holds other files"),
    ("{broken}", DataError, "must have format 2, got none"),
    ("{older}", DataError, "must have format 2, got 1: .* take another URL"),
    ("{list}", DataError, "must have format 2, got none"),
    ("{typed}", DataError, "must have format 2, got 2"),
    ("/proc/kept", DataError, "cannot create"),
]


@pytest.fixture
def places(tmp_path):
    """Folders that are no checkpoints."""
    texts = {
        "broken": "{",
        "older": '{"format": 1, "run": {}, "token": ""}',
        "list": "[]",
        "typed": '{"format": 2, "run": {}, "token": 3}',
    }
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "dhsic-checkpoint.json").write_text(text)
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    return {name: tmp_path / name for name in [*texts, "file", "full"]}


@pytest.mark.parametrize(("url", "error", "words"), BAD, ids=[str(bad[0]) for bad in BAD])
def test_checkpoint__that_cannot_be_used_is_an_error_in_a_line(url, error, words, places, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    url = url.format(**places) if isinstance(url, str) else url
    with pytest.raises(error, match=words) as caught:
        run(None, checkpoint=url)
    message = str(caught.value)
    assert "\n" not in message
    assert "secret" not in message
    assert sorted(tmp_path.rglob("*")) == before


@pytest.fixture
def removal():
    """As users have it; other tests look at what is kept."""
    with dask.config.set({"dhsic.keep-checkpoints": False}):
        yield


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# Every public function that takes a checkpoint, once.
ONCE = {call.function: name for name, call in reversed(CALLS.items()) if name != "selection"}


@pytest.mark.filterwarnings("ignore::dhsic.ApproximateNullWarning")
@pytest.mark.parametrize("name", ONCE.values())
def test_checkpoint__stays_where_a_run_is_cut_short_and_goes_with_its_end(name, tmp_path, removal):
    folder, call = tmp_path / "some" / "kept", CALLS[name]
    kept = {"checkpoint": str(folder), "threads": 1}
    with pytest.raises(KilledError):
        call(progress=killed_at(1), **kept)
    assert "dhsic-checkpoint.json" in files(folder)
    closed = [path for path in folder.rglob("*") if path.name == "dhsic-checkpoint.json"]
    assert all(path.parent.stat().st_mode & 0o077 == 0 for path in closed)
    call(**kept)
    assert files(tmp_path) == []
    assert name == "directions" or not folder.exists()


def test_directions__keep_pairs_that_are_done_until_all_are(tmp_path, removal):
    x, y = X[:, 0], Y[:, 0]
    folder, pairs = tmp_path / "kept", {"a": (x, y), "b": (x, np.full(N, np.nan))}
    with pytest.raises(DataError):
        causal.directions(pairs, checkpoint=str(folder), rng=0, threads=1)
    assert (folder / "pair0001" / "dhsic-checkpoint.json").exists()


def test_checkpoint__that_cannot_be_removed_costs_no_answer(tmp_path, monkeypatch, removal):
    expected = run(None).pvalue

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.remove", refuse)
    monkeypatch.setattr("os.unlink", refuse)
    with pytest.warns(CheckpointWarning, match="its checkpoint stays: cannot remove from"):
        found = run(tmp_path / "kept")
    assert found.pvalue == expected


def test_folder__of_the_user_loses_only_what_is_of_the_run(tmp_path, removal):
    folder = tmp_path / "kept"
    with dask.config.set({"dhsic.keep-checkpoints": True}):
        run(folder, **BY_RESAMPLES)
    (mine := folder / "mine").mkdir()
    (one,) = (path.parent for path in folder.glob("*/pass.json"))
    for name in ("thesis.txt", "mine/shard-0001", f"{one.name}/shard-x", f"{one.name}/notes"):
        (folder / name).write_text("mine")
    (folder / ".dhsic-checkpoint.json.0123abcd.partial").write_text("half")
    (one / ".shard-0001.0123abcd.partial").write_text("half")
    (folder / "begun").mkdir()
    run(folder, **BY_RESAMPLES)
    assert files(folder) == sorted(["thesis.txt", "shard-0001", "shard-x", "notes"])
    assert mine.exists()
    assert not (folder / "begun").exists()


def test_checkpoint__removed_during_a_run_is_said(long, tmp_path):
    def remove(heard, event):
        if len(heard.of("BlockFinished")) == 3:
            shutil.rmtree(tmp_path / "kept", ignore_errors=True)

    with pytest.raises(InvalidArgumentError, match="removed during the run, start again"):
        run(tmp_path / "kept", *long, progress=Heard(remove), threads=1, **BY_ROWS)


def test_removal__tells_how_many_other_files_are_left(tmp_path):
    run(tmp_path, estimator="nystrom-m", null="gamma")
    one, other, *_ = sorted(path.parent.name for path in tmp_path.glob("*/pass.json"))
    for name in ("thesis.txt", f"{one}/notes", f"{one}/shard-x", f"{other}/draft"):
        (tmp_path / name).write_text("mine")
    assert remove_checkpoint(Folder.at(str(tmp_path), "it")) == 4
    assert files(tmp_path) == ["draft", "notes", "shard-x", "thesis.txt"]


@pytest.mark.parametrize("stays", [True, False])
def test_commands__remove_a_checkpoint_unless_it_is_to_stay(stays, tmp_path):
    table, folder = tmp_path / "table.csv", tmp_path / "kept"
    np.savetxt(table, np.hstack([X[:, :1], Y]), delimiter=",", header="a,b", comments="")
    words = ["test", str(table), "--variable", "a", "--variable", "b", "--checkpoint", str(folder)]
    with dask.config.set({"dhsic.keep-checkpoints": stays}):
        done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stderr) == (0, "")
    assert folder.exists() is stays


def test_disk__that_is_full_ends_a_run_in_words(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(DhsicError, match=r"cannot write to .* \(No space left on device\)"):
        run(tmp_path / "kept")
