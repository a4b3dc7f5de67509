"""Results as a person reads them: text and HTML of labelled lines."""

from __future__ import annotations

import html
from typing import ClassVar

__all__ = ["Summarised"]


class Summarised:
    """A result that is read line by line, each with a label, as `summary` gives them."""

    _label_width: ClassVar[int] = 0
    _label_gap: ClassVar[int] = 2

    def summary(self) -> list[tuple[str, str]]:
        """Label and text of every line that a person reads."""
        raise NotImplementedError

    def __str__(self) -> str:
        lines = self.summary()
        width = max(self._label_width, *(len(label) for label, _ in lines)) + self._label_gap
        return "\n".join(f"{label:<{width}}{text}" for label, text in lines)

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for label, text in self.summary()
        )
        return f"<table>{cells}</table>"
