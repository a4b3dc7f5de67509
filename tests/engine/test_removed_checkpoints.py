"""Checkpoints are gone when their run is done, and are for their user alone until then."""

import dask
import numpy as np
import pytest
from click.testing import CliRunner

import dhsic
from dhsic import causal
from dhsic.cli import main
from dhsic.engine.checkpoint import CheckpointWarning
from dhsic.engine.events import BlockFinished
from dhsic.errors import DataError
from dhsic.io.folder import Folder

X, Z, NOISE = np.random.default_rng(0).standard_normal((3, 200))
Y = X**2 + NOISE
COLUMNS = np.column_stack([X, Y, Z])
QUICK = {"rng": 0, "threads": 1}
FITTED = dhsic.mean_embedding(X, n_landmarks=10, **QUICK)
# Every public function that takes a checkpoint.
DOORS = {
    "independence_test": lambda **kept: dhsic.independence_test(X, Y, **kept),
    "hsic": lambda **kept: dhsic.hsic(X, Y, **kept),
    "witness_functions": lambda **kept: dhsic.witness_functions(X, Y, **kept),
    "rank_features": lambda **kept: dhsic.rank_features(COLUMNS, Y, **kept),
    "interaction_test": lambda **kept: dhsic.interaction_test(X, Y, Z, **kept),
    "sensitivity_map": lambda **kept: dhsic.sensitivity_map(X, Y, **kept),
    "mean_embedding": lambda **kept: dhsic.mean_embedding(X, n_landmarks=10, **kept),
    "two_sample_test": lambda **kept: dhsic.two_sample_test(X, Y, **kept),
    "dependence_matrix": lambda **kept: dhsic.dependence_matrix(COLUMNS, **kept),
    "conditional": lambda **kept: dhsic.conditional_independence_test(X, Y, given=Z, **kept),
    "residuals": lambda **kept: causal.residual_independence_test(X, Y, given=Z, **kept),
    "direction": lambda **kept: causal.direction(X, Y, **kept),
    "directions": lambda **kept: causal.directions({"a": (X, Y), "b": (Y, X)}, **kept),
    "search_dag": lambda **kept: causal.search_dag(COLUMNS, **kept),
    "score_dags": lambda **kept: causal.score_dags(X, Y, **kept),
    "like": lambda rng, **kept: FITTED.like(Y, **kept),
}


@pytest.fixture(autouse=True)
def removal():
    """As users have it; other tests look at what is kept."""
    with dask.config.set({"dhsic.keep-checkpoints": False}):
        yield


class CutError(Exception):
    pass


def cut(event):
    """A listener that ends a run at its first block."""
    if isinstance(event, BlockFinished):
        raise CutError


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("door", DOORS)
def test_checkpoint__stays_where_a_run_is_cut_short_and_goes_with_its_end(door, tmp_path):
    folder = tmp_path / "some" / "kept"
    kept = {"checkpoint": str(folder), **QUICK}
    with pytest.raises(CutError):
        DOORS[door](progress=cut, **kept)
    assert "dhsic-checkpoint.json" in files(folder)
    closed = [path for path in folder.rglob("*") if path.name == "dhsic-checkpoint.json"]
    assert all(path.parent.stat().st_mode & 0o077 == 0 for path in closed)
    DOORS[door](**kept)
    assert files(tmp_path) == []
    with dask.config.set({"dhsic.keep-checkpoints": True}):
        DOORS[door](**kept)
    assert "dhsic-checkpoint.json" in files(folder)


def test_directions__keep_pairs_that_are_done_until_all_are(tmp_path):
    folder, pairs = tmp_path / "kept", {"a": (X, Y), "b": (X, np.full(200, np.nan))}
    with pytest.raises(DataError):
        causal.directions(pairs, checkpoint=str(folder), **QUICK)
    assert (folder / "pair0001" / "dhsic-checkpoint.json").exists()


def test_checkpoint__that_cannot_be_removed_costs_no_answer(tmp_path, monkeypatch):
    def refused(self, name):
        msg = f"cannot remove from {self}"
        raise DataError(msg)

    monkeypatch.setattr(Folder, "remove", refused)
    with pytest.warns(CheckpointWarning, match="its checkpoint stays: cannot remove from"):
        found = dhsic.independence_test(X, Y, checkpoint=str(tmp_path / "kept"), **QUICK)
    assert found.pvalue == dhsic.independence_test(X, Y, **QUICK).pvalue


def test_folder__of_the_user_loses_only_what_is_of_the_run(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    with dask.config.set({"dhsic.keep-checkpoints": True}):
        dhsic.independence_test(X, Y, checkpoint=str(folder), **QUICK)
    (folder / "thesis.txt").write_text("mine")
    dhsic.independence_test(X, Y, checkpoint=str(folder), **QUICK)
    assert files(folder) == ["thesis.txt"]


@pytest.mark.parametrize("stays", [True, False])
def test_commands__remove_a_checkpoint_unless_it_is_to_stay(stays, tmp_path):
    table, folder = tmp_path / "table.csv", tmp_path / "kept"
    np.savetxt(table, COLUMNS[:, :2], delimiter=",", header="a,b", comments="")
    words = ["test", str(table), "--variable", "a", "--variable", "b", "--checkpoint", str(folder)]
    with dask.config.set({"dhsic.keep-checkpoints": stays}):
        done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stderr) == (0, "")
    assert folder.exists() is stays
