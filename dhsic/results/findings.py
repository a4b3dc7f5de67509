"""The finding, pictures and tables that a report shows of a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Records = Sequence[Mapping[str, Any]]
"""Rows of a table, by the names of its columns."""


class Sketch(NamedTuple):
    """A picture that is drawn when it is asked for."""

    draw: Callable[[Axes], object]
    """Draws it on axes."""
    words: str
    """Its contents in words."""
    size: tuple[float, float] = (7.2, 4.0)
    """Width and height in inches."""

    @classmethod
    def of_bars(cls, draw: Callable[[Axes], object], words: str, count: int) -> Sketch:
        """A picture of so many bars, one below another."""
        return cls(draw, words, (7.2, 1.4 + 0.21 * max(5, count)))


@dataclass(frozen=True)
class Findings:
    """The finding in a sentence, with what shows it.

    Parameters
    ----------
    title : str
        The question, or the subject.
    lead : str
        The finding.
    sketches : sequence of Sketch
        Pictures.
    tables : mapping from str to Records
        Tables by their names.
    notes : sequence of str
        How to read them.
    """

    title: str
    lead: str
    sketches: Sequence[Sketch] = ()
    tables: Mapping[str, Records] = field(default_factory=dict)
    notes: Sequence[str] = ()
