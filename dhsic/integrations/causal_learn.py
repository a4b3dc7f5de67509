"""Tests for causal-learn's constraint-based searches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dhsic.errors import InvalidArgumentError, require
from dhsic.integrations.pvalue import PValue

_NAME = "dhsic"


def causal_learn_test(test: PValue | None = None) -> str:
    """Register a test with causal-learn, and return the name that its searches take.

    Parameters
    ----------
    test : PValue, optional
        The test; `PValue()` where not given. A later call with another test replaces it.

    Returns
    -------
    str
        The value of `indep_test` of ``pc`` and other searches, which compute every p-value once.

    Raises
    ------
    MissingDependencyError
        causal-learn is not installed.
    InvalidArgumentError
        Raised by a search whose ``cache_path`` holds p-values of another test.

    References
    ----------
    .. [1] Y. Zheng et al. Causal-learn: causal discovery in Python. JMLR 25(60), 2024.

    Examples
    --------
    ::

        from causallearn.search.ConstraintBased.PC import pc
        from dhsic.integrations import causal_learn_test
        graph = pc(data, 0.01, causal_learn_test())
    """
    try:
        from causallearn.utils.cit import CIT_Base, register_ci_test
    except ImportError as error:
        missing = require("causal-learn", "discovery", "causal_learn_test")
        raise missing from error
    pvalue = PValue() if test is None else test

    class Test(CIT_Base):  # type: ignore[misc]  # causal-learn has no types
        """A test by the numbers of columns."""

        def __init__(self, data: Any, **options: Any) -> None:
            super().__init__(data, **options)
            made_by = self.pvalue_cache.get("method_name"), self.pvalue_cache.get("parameters_hash")
            # causal-learn's own check lets any cache on the disk pass.
            if made_by != (None, None) and made_by != (_NAME, _options_of(pvalue)):
                msg = (
                    f"cache_path must be of a new cache, or of one of the same test, got one made "
                    f"by {made_by[0]!r} with {made_by[1]!r}: take another path"
                )
                raise InvalidArgumentError(msg)
            self.check_cache_method_consistent(_NAME, _options_of(pvalue))

        def __call__(self, X: Any, Y: Any, condition_set: Any = None) -> float:
            """The p-value, computed once."""
            x, y, given, key = self.get_formatted_XYZ_and_cachekey(X, Y, condition_set)
            if key not in self.pvalue_cache:
                values = (self.data[:, columns] for columns in (x, y, given))
                self.pvalue_cache[key] = pvalue(*values)
            kept: float = self.pvalue_cache[key]
            return kept

    register_ci_test(_NAME, Test)
    return _NAME


def _options_of(pvalue: PValue) -> str:
    """The options that p-values follow from."""
    return repr(replace(pvalue, client=None, threads=None))
