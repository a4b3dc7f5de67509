"""Write a report."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from dhsic._validation import named_arguments
from dhsic.errors import InvalidArgumentError, require
from dhsic.io.whole import write_whole
from dhsic.plots.values import check_level
from dhsic.report.mapped import Mapped, mapped_sections
from dhsic.report.parts import Section
from dhsic.report.ranked import Ranked, ranked_sections
from dhsic.report.run import Run, reproduction, timings
from dhsic.report.tested import tested_sections
from dhsic.results import DependenceEstimate, IndependenceTestResult

__all__ = ["check_report", "write_report"]


def check_report() -> None:
    """Refuse before a run what its report would lack after it.

    Raises
    ------
    MissingDependencyError
        A library of the extra "report" is not installed.
    """
    for module in ("jinja2", "matplotlib"):
        _needed(module)


@named_arguments
def write_report(
    result: IndependenceTestResult | Ranked | Mapped,
    path: str | Path,
    *,
    alpha: float = 0.05,
    run: Run | None = None,
) -> None:
    """Write a result as one HTML file that needs nothing else, with pictures and sortable tables.

    It is written whole or not at all, and has what was found, the data, the method, parameters,
    seed, time and memory, and how to get it again. Names of the data are shown as text, whatever
    they hold.

    Parameters
    ----------
    result : IndependenceTestResult, Ranked or Mapped
        What was found: `Ranked.of` a ranking, `Mapped.of` a sensitivity map.
    path : str or Path
        The file; one that is there is replaced.
    alpha : float, optional
        The level of the decision; a map has none.
    run : Run, optional
        How it came about, as far as the result does not tell.

    Raises
    ------
    InvalidArgumentError
        The level is not between 0 and 1, or the result has no report.
    MissingDependencyError
        A library of the extra "report" is not installed.
    DataError
        The file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dhsic
    >>> x, y = np.random.default_rng(0).standard_normal((2, 100))
    >>> result = dhsic.independence_test(x, y, rng=0, names=["height", "weight"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.html"
    ...     write_report(result, path)
    ...     "Independence not rejected at level 0.05" in path.read_text()
    True
    """
    _check_result(result)
    level, known = check_level(alpha), run or Run()
    if isinstance(result, Ranked):
        title = f"Features by their dependence on {result.target}"
        lead, sections = ranked_sections(result, level)
    elif isinstance(result, Mapped):
        title = f"What the dependence of {_listed(result.found.measured)} rests on"
        lead, sections = mapped_sections(result)
    else:
        title = f"{result.hypothesis.capitalize()} of {_listed(result)}"
        lead, sections = tested_sections(result, level)
    made = result.found.measured if isinstance(result, Mapped) else result
    time = timings(made.passes, made.seconds, made.n, known.memory)
    again = reproduction(known, made.seed, made.version)
    page = _page(title, lead, [*sections, time, again], known)
    # Names may hold what UTF-8 cannot, such as the halves of a broken pair.
    write_whole(Path(path), page.encode("utf-8", "backslashreplace").decode("utf-8"))


def _check_result(result: object) -> None:
    if not isinstance(result, IndependenceTestResult | Ranked | Mapped):
        msg = (
            "a report needs an IndependenceTestResult, Ranked.of a ranking or Mapped.of a "
            f"sensitivity map, got a {type(result).__name__}: wrap what has one of them"
        )
        raise InvalidArgumentError(msg)


def _listed(result: IndependenceTestResult | DependenceEstimate) -> str:
    return ", ".join(v.name for v in result.variables)


def _page(title: str, lead: str, sections: Sequence[Section], run: Run) -> str:
    jinja2 = _needed("jinja2")
    folder = files("dhsic.report")
    script, style = (folder.joinpath(name).read_text("utf-8") for name in ("page.js", "page.css"))
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(folder.joinpath("page.html").read_text("utf-8"))
    page: str = template.render(
        title=title,
        lead=lead,
        sections=sections,
        run=run,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        script=_own(script),
        style=_own(style),
        policy=_policy(script, style),
    )
    return page


def _own(text: str) -> Any:
    """Text of this package, which is no data to escape."""
    return _needed("markupsafe").Markup(text)


def _policy(script: str, style: str) -> str:
    """What a browser may load and run: this script, this style and pictures in the page."""
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
        for text in (script, style)
    ]
    return (
        f"default-src 'none'; img-src data:; script-src 'sha256-{digests[0]}'; "
        f"style-src 'sha256-{digests[1]}'; base-uri 'none'; form-action 'none'"
    )


def _needed(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        missing = require(module, "report", "A report")
        raise missing from error
