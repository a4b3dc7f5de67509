"""The external shuffle: uniform, aligned, and a function of seed and length alone."""

import errno
import itertools
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dhsic.errors import DataError, InvalidArgumentError
from dhsic.io import shuffle
from dhsic.io.shuffle import shuffled


def run(folder, x, seed=0, block_rows=100, expected_bytes=0, **options):
    blocks = (
        {"x": x[i : i + block_rows], "y": -x[i : i + block_rows, :1]}
        for i in range(0, len(x), block_rows)
    )
    parts = list(
        shuffled(blocks, seed=seed, scratch=folder, expected_bytes=expected_bytes, **options)
    )
    return np.concatenate([p["x"] for p in parts]), np.concatenate([p["y"] for p in parts])


def test_shuffled__keeps_every_row_whole(tmp_path):
    x = np.random.default_rng(0).standard_normal((1000, 3))
    got, y = run(tmp_path, x)
    assert not np.array_equal(got, x)
    np.testing.assert_array_equal(got[np.argsort(got[:, 0])], x[np.argsort(x[:, 0])])
    np.testing.assert_array_equal(y, -got[:, :1])


def test_shuffled__keeps_every_bit(tmp_path):
    x = np.array([[-0.0], [5e-324], [np.pi], [1.7976931348623157e308]])
    got, _ = run(tmp_path, x)
    assert sorted(got.view(np.uint64)[:, 0]) == sorted(x.view(np.uint64)[:, 0])


@pytest.mark.parametrize("options", [{"block_rows": 7}, {"expected_bytes": 2**40}])
def test_shuffled__depends_on_seed_and_length_alone(tmp_path, options):
    x = np.arange(500.0)[:, None]
    np.testing.assert_array_equal(run(tmp_path, x, **options)[0], run(tmp_path, x)[0])


def test_shuffled__follows_the_seed(tmp_path):
    x = np.arange(500.0)[:, None]
    assert not np.array_equal(run(tmp_path, x, seed=1)[0], run(tmp_path, x, seed=2)[0])


def test_shuffled__makes_every_order_equally_likely(tmp_path):
    x = np.arange(3.0)[:, None]
    counts = Counter(
        tuple(run(tmp_path, x, seed, block_rows=2)[0][:, 0].tolist()) for seed in range(1200)
    )
    orders = list(itertools.permutations((0.0, 1.0, 2.0)))
    assert stats.chisquare([counts[order] for order in orders]).pvalue > 0.001


def test_shuffled__moves_rows_across_blocks_and_buckets(tmp_path):
    x = np.arange(5000.0)[:, None]
    got, _ = run(tmp_path, x, expected_bytes=2**40)
    correlation = stats.spearmanr(np.arange(5000), got[:, 0]).statistic
    assert abs(correlation) < 4 / np.sqrt(5000)


def test_shuffled__is_independent_of_data_made_with_the_same_seed(tmp_path):
    x = np.random.default_rng(3).random((1000, 1))
    got, _ = run(tmp_path, x, seed=3)
    assert abs(stats.spearmanr(np.arange(1000), got[:, 0]).statistic) < 4 / np.sqrt(1000)


def test_shuffled__removes_its_buckets(tmp_path):
    run(tmp_path, np.zeros((10, 1)))
    assert list(tmp_path.iterdir()) == []


def test_shuffled__counts_the_rows_read(tmp_path):
    seen = []
    run(tmp_path, np.zeros((250, 1)), progress=seen.append)
    assert seen == [100, 200, 250]


def test_shuffled__yields_nothing_for_no_blocks(tmp_path):
    assert list(shuffled([], seed=0, scratch=tmp_path, expected_bytes=0)) == []


@pytest.mark.parametrize("seed", [-1, 1.5, True, "1"])
def test_shuffled__refuses_what_is_no_seed(tmp_path, seed):
    with pytest.raises(InvalidArgumentError, match="shuffle must be an integer >= 0"):
        run(tmp_path, np.zeros((10, 1)), seed=seed)


def test_shuffled__says_when_the_disk_is_full(tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(DataError, match="No space left"):
        run(tmp_path, np.zeros((10, 1)))


def test_shuffled__holds_a_bucket_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(shuffle, "_BUCKET_BYTES", 2**22)
    block = {"x": np.zeros((1000, 160))}  # much beside the table of interned names, when it grows
    total = 100 * block["x"].nbytes
    tracemalloc.start()
    parts = shuffled(itertools.repeat(block, 100), seed=0, scratch=tmp_path, expected_bytes=total)
    rows = sum(len(part["x"]) for part in parts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 100_000
    assert peak < total / 4
