"""Replicates that are interrupted go on where they stopped."""

import numpy as np
import pytest

from tests.engine.kept import NoLuckError, Squares, mapped, opened, shard_files
from tests.engine.toys import bits, on, threads


@pytest.mark.parametrize("start", [0, 3, 50, 96])
def test_run_map__goes_on_after_an_error(start, squares, folder):
    Squares.failing.append(start)
    with pytest.raises(NoLuckError):
        mapped(squares, opened(folder))
    kept = {int(path.name[-4:]) for path in shard_files(folder)}
    assert len(kept) == len(Squares.calls)
    Squares.calls.clear()
    Squares.failing.clear()
    events = []
    values = mapped(squares, opened(folder), listener=events.append)
    assert np.concatenate(values).tolist() == [float(b**2) for b in range(100)]
    assert len(Squares.calls) == 32 - len(kept)
    assert events[0].resumed == 100 - sum(map(len, Squares.calls))
    assert events[0].resumed_parts == len(kept)


def test_run_map__keeps_each_function_and_number_apart(squares, folder):
    checkpoint = opened(folder)
    for function, number in [(squares, 100), (Squares(2.0), 100), (squares, 96)]:
        Squares.calls.clear()
        values = mapped(function, checkpoint, number=number)
        assert values[-1][-1] == function.scale * (number - 1) ** 2
        assert len(Squares.calls) == 32


def test_run_map__on_a_client_goes_on(client, squares, folder):
    first = mapped(squares, opened(folder), on(client))
    Squares.failing.extend(range(100))
    assert bits(mapped(squares, opened(folder), threads(2))) == bits(first)


def test_run_map__keeps_nothing_of_a_function_that_fields_do_not_say(folder):
    offset = 7
    for _ in range(2):
        values = mapped(lambda numbers: [n + offset for n in numbers], opened(folder), number=2)
        assert values == [[7], [8]]
    assert shard_files(folder) == []
