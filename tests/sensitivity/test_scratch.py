"""Gradients of blocks take the memory that plans count for them."""

import tracemalloc

import numpy as np
import pytest

from dhsic.engine.reduction import RowBlock
from dhsic.engine.tiles import Tiling
from dhsic.kernels import Combinations, Gaussian, Laplacian
from dhsic.sensitivity.gradients import TileGradient

ROWS, LANDMARKS = 4096, 8


def beside_the_result(gradient, block):
    """Bytes that a gradient takes at its largest, without those of the result."""
    tracemalloc.start()
    try:
        found = gradient(block)
        return tracemalloc.get_traced_memory()[1] - sum(one.nbytes for one in found)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("columns", [1, 300])
@pytest.mark.parametrize("kernel", [Gaussian(0.1), Laplacian(0.1)], ids=lambda one: one.name)
def test_tile_gradient__takes_its_scratch(rng, kernel, columns):
    x, y = rng.standard_normal((ROWS, columns)), rng.standard_normal((ROWS, 1))
    tiling = Tiling.prepare(
        Combinations.single([kernel, kernel]), [x[:LANDMARKS], y[:LANDMARKS]], np.float64
    )
    joint, marginal = np.ones(LANDMARKS), np.ones((2, LANDMARKS))
    gradient = TileGradient(tiling, joint, marginal, None, (0, 1), (columns, 1))
    block = RowBlock(0, (x, y))
    gradient(block)  # what is imported or kept is there afterwards
    # Threads of other tests may allocate in between: the least of some turns.
    needed = min(beside_the_result(gradient, block) for _ in range(5))
    assert 0.2 * gradient.scratch(ROWS) < needed <= gradient.scratch(ROWS)
