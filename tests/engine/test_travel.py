"""What travels between processes arrives aligned, since sums of other arrays have other bits."""

import pickle

import numpy as np
import pytest

from dhsic.engine.reduction import Partial
from dhsic.engine.replicates import ReplicateTask
from dhsic.engine.run import Payload, run_chunk
from tests.engine.toys import Gather

X = np.random.default_rng(0).standard_normal((40, 3))


@pytest.mark.parametrize(
    "value",
    [Partial((X, 1), 0.5), Payload(Gather(), (X,), True, None), ReplicateTask(X.sum, None)],
    ids=lambda value: type(value).__name__,
)
def test_arrays__are_inside_what_is_pickled(value):
    beside = []
    data = pickle.dumps(value, protocol=5, buffer_callback=beside.append)
    assert beside == []
    assert type(pickle.loads(data)) is type(value)


def test_chunk__aligns_the_blocks_that_it_is_given():
    buffer = np.empty(X.nbytes + 1, np.uint8)
    unaligned = np.frombuffer(buffer.data, X.dtype, X.size, 1).reshape(X.shape)
    unaligned[...] = X
    assert not unaligned.flags.aligned
    found = []

    class Look(Gather):
        def chunk(self, block):
            found.extend(block.values)
            return super().chunk(block)

    run_chunk(Payload(Look(), (None,), True, None), ((0, 40),), unaligned)
    assert found[0].flags.aligned
    assert found[0].tobytes() == X.tobytes()
