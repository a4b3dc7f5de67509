"""The tree of tasks that combine partial results, a few at a time and in their order."""

from __future__ import annotations

import math

FAN_IN = 4

_LARGE_STATE = 2**24  # bytes of a partial result, of which few are to wait for others


def fan_in_of(state_bytes: int) -> int:
    """Partial results of so many bytes that a task combines."""
    # Large states wait in pairs: a wider tree would hold more of them in memory at once.
    return 2 if state_bytes >= _LARGE_STATE else FAN_IN


def combining_tasks(leaves: int, fan_in: int) -> int:
    """Tasks that combine the partial results of so many leaves."""
    tasks = 0
    while leaves > 1:
        leaves = -(-leaves // fan_in)
        tasks += leaves
    return tasks


def most_waiting(leaves: int, fan_in: int) -> int:
    """Most partial results that wait for others, where tasks run one after another.

    Before a leaf comes, the digits of its number to the base of the fan-in count the subtrees of
    every level that are done and wait for the rest of theirs.

    Examples
    --------
    >>> [most_waiting(leaves, 2) for leaves in (1, 2, 4, 5, 8)]
    [0, 1, 2, 2, 3]
    """
    last = leaves - 1
    levels = range(math.ceil(math.log(leaves, fan_in)))
    # The largest sum has the last leaf, or one before it whose number ends in largest digits.
    ends = [last, *(last // fan_in**level * fan_in**level - 1 for level in levels)]
    return max(_digit_sum(end, fan_in) for end in ends if end >= 0)


def _digit_sum(number: int, base: int) -> int:
    return number % base + _digit_sum(number // base, base) if number else 0
