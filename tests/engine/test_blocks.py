"""Where row blocks start."""

import inspect
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhsic.engine.blocks import BLOCK_BYTES, NonFiniteError, block_bounds
from dhsic.engine.together import read_block
from dhsic.errors import DataError
from dhsic.io.sources import ArraySource

COUNTS = st.integers(1, 10**6)
CHUNKS = st.none() | st.integers(1, 10**5)
OPERATIONS = st.floats(1.0, 1e9)

TICKS = 2e10  # operations of a second


def sizes(bounds):
    return [b - a for a, b in pairwise(bounds)]


@given(COUNTS, st.integers(1, 10**6), CHUNKS, OPERATIONS, st.integers(0, 5000))
def test_block_bounds__cover_the_rows_in_order(n, row_bytes, chunk_rows, operations, multiple):
    bounds = block_bounds(n, row_bytes, chunk_rows, operations / TICKS, multiple)
    assert bounds[0] == 0
    assert bounds[-1] == n
    assert min(sizes(bounds)) > 0
    assert all(type(bound) is int for bound in bounds)


@given(COUNTS, st.integers(1, 10**4), CHUNKS, OPERATIONS, st.integers(1, 5000))
def test_block_bounds__are_multiples(n, row_bytes, chunk_rows, operations, multiple):
    bounds = block_bounds(n, row_bytes, chunk_rows, operations / TICKS, multiple)
    assert [bound for bound in bounds[:-1] if bound % multiple] == []


@given(COUNTS, st.integers(1, 10**6), CHUNKS, OPERATIONS)
def test_block_bounds__hold_8_or_32_mib_at_most_unless_one_row_or_chunk_is_larger(
    n, row_bytes, chunk_rows, operations
):
    bounds = block_bounds(n, row_bytes, chunk_rows, operations / TICKS, 1)
    most = BLOCK_BYTES * (4 if n * row_bytes > 16_384 * BLOCK_BYTES else 1)
    assert max(sizes(bounds)) * row_bytes <= max(most, row_bytes * (chunk_rows or 1))


@given(COUNTS, st.integers(1, 10**5), st.integers(1, 10**5), OPERATIONS)
def test_block_bounds__are_whole_chunks_or_equal_parts_of_one(n, row_bytes, chunk_rows, operations):
    bounds = block_bounds(n, row_bytes, chunk_rows, operations / TICKS, 1)
    first = bounds[1]
    if first >= min(n, chunk_rows):
        assert [bound for bound in bounds[:-1] if bound % chunk_rows] == []
    else:
        inside = [(a // chunk_rows, (b - 1) // chunk_rows) for a, b in pairwise(bounds)]
        assert [pair for pair in inside if pair[0] != pair[1]] == []
        assert max(sizes(bounds)) - min(sizes(bounds)[:-1] or [first]) <= 1
        assert chunk_rows / first < 10


@pytest.mark.parametrize(
    ("n", "row_bytes", "chunk_rows", "operations", "multiple", "expected"),
    [
        (100, 8, None, 1.0, 1, [0, 100]),
        (4096, 8, None, 1.0, 1, [0, 4096]),
        (4097, 8, None, 1.0, 1, [0, 4096, 4097]),
        (32 * 5000, 8, None, 1.0, 1, list(range(0, 160_001, 5000))),
        (10_000, 8, None, 1e9, 1, [0, 4096, 8192, 10_000]),
        (10, 2**22, None, 1.0, 1, [0, 2, 4, 6, 8, 10]),
        (3, 2**24, None, 1.0, 1, [0, 1, 2, 3]),
        (10_000, 8, 1000, 1.0, 1, [0, 4000, 8000, 10_000]),
        (17_000, 8, 8192, 1.0, 1, [0, 8192, 16_384, 17_000]),
        (20_000, 8, 10_000, 1.0, 1, [0, 3333, 6666, 10_000, 13_333, 16_666, 20_000]),
        (10_000, 8, None, 1.0, 1000, [0, 4000, 8000, 10_000]),
        (10_000, 8, None, 1.0, 6000, [0, 6000, 10_000]),
        (10_000, 8, 5000, 1.0, 1500, [0, 4500, 9000, 10_000]),
        (10_000, 8, 100, 1e9, 0, [0, 10_000]),
    ],
)
def test_block_bounds__of_known_cases(n, row_bytes, chunk_rows, operations, multiple, expected):
    assert block_bounds(n, row_bytes, chunk_rows, operations / TICKS, multiple) == expected


def test_block_bounds__know_nothing_of_threads_and_workers():
    assert set(inspect.signature(block_bounds).parameters) == {
        "n",
        "row_bytes",
        "chunk_rows",
        "seconds",
        "row_multiple",
    }


def test_block_bounds__hold_about_a_second_of_work():
    assert block_bounds(10**7, 8, None, 5e6 / TICKS, 1)[1] == 10_000
    assert block_bounds(10**7, 8, None, 5e5 / TICKS, 1)[1] == 100_000


@pytest.mark.parametrize(
    ("n", "row_bytes", "chunk_rows", "operations", "rows"),
    [
        (10**9, 364, None, 1.4e6, 10**9 // 16_384),
        (10**9, 364, 8192, 1.4e6, 7 * 8192),
        (10**9, 364, None, 1e5, 10**9 // 16_384),
        (10**9, 364, None, 1e7, 4 * 5000),  # four seconds of work
        (10**9, 16, None, 1e5 * (1 - 1e-12), 500_000),  # a second of work is more
        (10**10, 364, None, 1.4e6, 32 * 2**20 // 364),
        (10**8, 364, None, 1.4e6, 8 * 2**20 // 364),
    ],
)
def test_block_bounds__are_larger_where_they_would_be_too_many_for_a_scheduler(
    n, row_bytes, chunk_rows, operations, rows
):
    assert block_bounds(n, row_bytes, chunk_rows, operations / TICKS, 1)[1] == rows


def test_read_block__takes_computed_blocks_where_there_is_no_source():
    x, y = np.arange(10.0), np.arange(20.0).reshape(10, 2)
    values = read_block([ArraySource("x", x), None], [(3, 5)], {1: y[3:5]}, True)
    np.testing.assert_array_equal(values[0], [[3.0], [4.0]])
    np.testing.assert_array_equal(values[1], y[3:5])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("computed", [False, True])
def test_read_block__refuses_what_is_not_finite_where_asked(bad, computed):
    x = np.arange(10.0)[:, None]
    x[4] = bad
    source = None if computed else ArraySource("x", x)
    with pytest.raises(
        NonFiniteError, match="NaN or infinity in rows 3 to 5: drop or fill such rows"
    ):
        read_block([source], [(3, 6)], {0: x[3:6]}, True)
    assert issubclass(NonFiniteError, DataError)
    assert len(read_block([source], [(3, 6)], {0: x[3:6]}, False)[0]) == 3
    assert len(read_block([ArraySource("x", x)], [(5, 6)], {}, True)[0]) == 1
