"""Random streams keyed by their purpose, and not by the order of the draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dhsic.errors import InvalidArgumentError

RngLike = (
    int
    | Sequence[int]
    | np.random.SeedSequence
    | np.random.BitGenerator
    | np.random.Generator
    | None
)
"""Seeds and generators that `numpy.random.default_rng` takes."""

# Numbers of streams stay, so that a seed gives the same draws in every version.
PURPOSES: Final = {
    "landmarks": 0,
    "bandwidth": 1,
    "permutation": 3,
    "features": 4,
    "simulation": 5,
    "selection": 6,
    "regression": 7,
    "groups": 8,
    "shifts": 9,
    "neighbours": 10,
    "first rows": 11,
    "folds": 12,
    "jackknife": 13,
}
_WORDS_PER_COUNTER: Final = 4


def resolve_seed(rng: RngLike) -> int:
    """Turn what the user gave into one integer that fixes every draw.

    Parameters
    ----------
    rng : int, sequence of int, SeedSequence, BitGenerator, Generator or None
        A seed; a generator, from which a seed is drawn; or None for a fresh one.

    Returns
    -------
    int
        At least 0.

    Raises
    ------
    InvalidArgumentError
        Negative, or of another type.
    """
    if rng is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return int(rng)
    try:
        if not isinstance(rng, int | np.integer | str):
            return int(np.random.default_rng(rng).integers(2**63))
    except (TypeError, ValueError):
        pass
    msg = (
        "rng must be an integer >= 0, None, a Generator or another argument of "
        f"numpy.random.default_rng, got {rng!r}"
    )
    raise InvalidArgumentError(msg)


def generator(seed: int, purpose: str, *index: int) -> np.random.Generator:
    """Random generator for one purpose and index; the same key gives the same draws."""
    return np.random.Generator(np.random.Philox(_sequence(seed, purpose, *index)))


def random_keys(seed: int, start: int, stop: int, purpose: str, *index: int) -> NDArray[np.uint64]:
    """Draw a number for each of the rows start..stop-1; the rows of the least are a uniform draw.

    The number of a row depends on the seed, the purpose, the index and the row alone.

    Parameters
    ----------
    seed : int
        The seed of the test.
    start, stop : int
        Rows of the whole data set.
    purpose : str
        One of `PURPOSES`.
    *index : int
        Further keys of the draw.

    Returns
    -------
    ndarray of uint64, shape (stop - start,)
    """
    key = _key(seed, purpose, *index)
    # A block of the counter has four words, of which some may be of rows before.
    counter, skipped = divmod(start, _WORDS_PER_COUNTER)
    bits = np.random.Philox(key=key, counter=[counter, 0, 0, 0])
    words: NDArray[np.uint64] = bits.random_raw(skipped + stop - start)[skipped:]
    return words


def random_orders(
    seed: int, numbers: Iterable[int], size: int, purpose: str, *index: int
) -> NDArray[np.intp]:
    """Draw random orders of so many rows, by their numbers.

    An order depends on the seed, the purpose, the index and its number alone: order k owns the
    blocks of the Philox counter whose second word is k.

    Parameters
    ----------
    seed : int
        The seed of the test.
    numbers : iterable of int
        Those of K orders, from 0 to 2^64 - 1.
    size : int
        Rows, b.
    purpose : str
        One of `PURPOSES`.
    *index : int
        Further keys of the draw.

    Returns
    -------
    ndarray of int, shape (K, b)
    """
    bits = np.random.Philox(key=_key(seed, purpose, *index))
    rng, state = np.random.Generator(bits), bits.state
    orders = []
    for number in numbers:
        # A generator for each would take ten times as long as an order of 50 rows.
        state["state"]["counter"][1] = number
        bits.state = state
        orders.append(rng.permutation(size))
    return np.array(orders, np.intp).reshape(-1, size)


def _key(seed: int, purpose: str, *index: int) -> NDArray[np.uint64]:
    """Key of a Philox generator whose counter is set here."""
    words = _sequence(seed, purpose, *index).generate_state(2, np.uint64)
    return words.astype(np.uint64, copy=False)


def _sequence(seed: int, purpose: str, *index: int) -> np.random.SeedSequence:
    # One stream for two variables would let their draws know of each other: with the same rows as
    # landmarks of both, 76 to 100 % of true nulls were rejected.
    return np.random.SeedSequence(seed, spawn_key=(PURPOSES[purpose], *index))
