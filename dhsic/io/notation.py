"""Numbers as people write them: a sign between thousands, a decimal comma, a minus of print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

# Signs that look alike and that one key stands for, as spaces that do not break.
_ALIKE = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}
_MINUS = "\u2212"


class Notation(NamedTuple):
    """The signs by which numbers are written: between thousands, if there is one, and decimal."""

    thousands: str | None = None
    decimal: str = "."

    @property
    def signs(self) -> dict[str, str]:
        """Those that are not the usual ones, by the names of their options."""
        return {k: v for k, v in self._asdict().items() if v != USUAL._asdict()[k]}

    @property
    def pattern(self) -> str:
        """A regular expression of numbers, for Python and for Arrow."""
        point = re.escape(self.decimal)
        numbers = rf"(\d+{point}?\d*|{point}\d+)([eE][-+]?\d+)?|(?i:nan|inf|infinity)"
        if self.thousands is not None:
            # No group of thousands begins with 0: "0,126" has a decimal comma.
            numbers += rf"|[1-9]\d{{0,2}}({self._between}\d{{3}})+({point}\d*)?"
        return f"^[-+{_MINUS}]?({numbers})$"

    @property
    def _between(self) -> str:
        sign = self.thousands or ""
        return f"[{re.escape(_ALIKE.get(sign, sign))}]"

    def plain(self, texts: Any) -> Any:
        """Numbers among Arrow's strings as programs write them."""
        import pyarrow.compute as pc

        texts = pc.replace_substring(pc.utf8_trim_whitespace(texts), _MINUS, "-")
        if self.thousands is not None:
            texts = pc.replace_substring_regex(texts, self._between, "")
        return pc.replace_substring(texts, self.decimal, ".")

    def told(self, column: str | None = None) -> str:
        """Options of a command that say so, of a column of text, and arguments of a function."""
        given = ({} if column is None else {"numeric": column}) | self.signs
        words = " ".join(f"--{k} {shlex.quote(v)}" for k, v in given.items())
        arguments = (f"{k}={[v] if k == 'numeric' else v!r}" for k, v in given.items())
        return f"{words} ({', '.join(arguments)})"


USUAL = Notation()
# Those of fewer options first.
_NOTATIONS = [USUAL, Notation(","), Notation(None, ","), Notation(" "), Notation("'")]
_NOTATIONS += [Notation(thousands, ",") for thousands in ". '"]
_PATTERNS = [re.compile(one.pattern, re.ASCII) for one in _NOTATIONS]


def is_number(text: str) -> bool:
    """Whether a text is a number in some notation, also of a currency or of percent."""
    bare = re.sub(r"\s?[%€$£]\s?", "", text).strip()
    return any(one.match(bare) and any(map(str.isdigit, bare)) for one in _PATTERNS)


def notations_of(texts: Sequence[str]) -> list[Notation]:
    """The notations that read most of some texts by fewest options; none where the usual one does.

    Examples
    --------
    >>> notations_of(["1,234", "0,5"])
    [Notation(thousands=None, decimal=',')]
    >>> len(notations_of(["1,234", "2,500"]))  # thousands, or fractions
    2
    """
    read = [sum(one.match(text.strip()) is not None for text in texts) for one in _PATTERNS]
    best = [one for one, count in zip(_NOTATIONS, read, strict=True) if count == max(read) > 0]
    return [one for one in best if 0 < len(one.signs) == len(best[0].signs)]
