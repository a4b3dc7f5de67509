"""Where rows are read that are wanted by number."""

import os
from dataclasses import dataclass

import dask.array as da
import numpy as np
import pytest
import zarr

from dhsic.engine import take
from dhsic.engine.take import count_tasks, take_rows
from dhsic.errors import DataError
from dhsic.io.open import open_variables
from dhsic.io.sources import StoredSource
from tests.engine.toys import on, threads

N, CHUNK = 2000, 100
X = np.random.default_rng(0).standard_normal((N, 3))
FEW = np.array([3, 5, 250, 251, 1999])


@dataclass(frozen=True)
class Witness(StoredSource):
    """Says of every row which process read it, and of how many rows in one go."""

    def take(self, rows):
        return np.column_stack([np.full(len(rows), os.getpid()), np.full(len(rows), len(rows))])


@pytest.fixture
def stored(tmp_path):
    return zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(CHUNK, 3))


@pytest.fixture
def large(monkeypatch):
    """Data of any size are read as if they were large."""
    monkeypatch.setattr(take, "_TASK_BYTES", 1)


@pytest.mark.usefixtures("large")
def test_take_rows__of_a_cluster_is_shared_among_its_workers_chunk_by_chunk(client, stored):
    rows = np.arange(0, N, 10)
    (seen,) = take_rows([Witness("x", stored, CHUNK)], [rows], on(client))
    assert set(seen[:, 0]) == set(client.run(os.getpid).values())
    assert set(seen[:, 1]) == {CHUNK // 10}


@pytest.mark.usefixtures("large")
def test_take_rows__sends_a_large_source_once(client, stored, monkeypatch):
    monkeypatch.setattr(take, "_SMALL", 0)
    (taken,) = take_rows([StoredSource("x", stored, CHUNK)], [FEW], on(client))
    np.testing.assert_array_equal(taken, X[FEW])


@pytest.mark.usefixtures("large")
def test_take_rows__gives_what_is_asked_for_of_every_kind(client, stored):
    data = [X, stored, da.from_array(X, chunks=300), stored]
    rows = [FEW, FEW, FEW[1:], np.arange(N)]
    taken = take_rows(open_variables(data), rows, on(client))
    for values, numbers in zip(taken, rows, strict=True):
        np.testing.assert_array_equal(values, X[numbers])


@pytest.mark.parametrize(
    ("rows", "chunk_rows", "task_bytes", "remote"),
    [
        (FEW, CHUNK, 1, True),
        (FEW, CHUNK, 3 * (CHUNK * 24 + 2**20) // 2, True),  # three chunks make two tasks
        (FEW, CHUNK, 3 * (CHUNK * 24 + 2**20) // 2 + 1, False),
        (np.arange(0, N, 3), CHUNK, 1, False),  # much of what is read would travel
        (np.arange(0, N, 4), CHUNK, 1, True),
        (FEW[:2], CHUNK, 1, False),  # of one chunk
        (FEW, None, 1, False),
    ],
)
def test_take_rows__is_of_workers_where_much_is_read_for_few(
    monkeypatch, client, stored, rows, chunk_rows, task_bytes, remote
):
    monkeypatch.setattr(take, "_TASK_BYTES", task_bytes)
    (seen,) = take_rows([Witness("x", stored, chunk_rows)], [rows], on(client))
    assert (os.getpid() not in seen[:, 0]) is remote
    (seen,) = take_rows([Witness("x", stored, chunk_rows)], [rows], threads(2))
    assert set(seen[:, 0]) == {os.getpid()}


@pytest.mark.parametrize(
    ("chunks", "row_bytes", "threads", "tasks"),
    [
        (1000, 1024, 8, 16),
        (10, 10_240, 8, 10),
        (1000, 1024, 900, 336),
        (1, 10_240, 8, 0),
        (1000, 4, 900, 32),  # each takes a MiB besides
        (60, 4, 900, 0),
    ],
)
def test_count_tasks__are_two_a_thread_of_a_chunk_or_32_mib_at_least(
    chunks, row_bytes, threads, tasks
):
    assert count_tasks(chunks, 10_000, row_bytes, 100, threads) == tasks


@pytest.mark.usefixtures("large")
def test_take_rows__says_what_a_worker_could_not_read(client, stored, tmp_path):
    (tmp_path / "x.zarr" / "c" / "2" / "0").write_bytes(b"garbage")
    with pytest.raises(DataError, match=r"rows 200 to 299 of variable 'x1' cannot be read"):
        take_rows(open_variables([stored, X]), [FEW, FEW], on(client))
