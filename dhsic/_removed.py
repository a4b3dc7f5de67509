"""Names that were removed, and what serves instead."""

from __future__ import annotations

from typing import Final

_SIGNS = "random signs were removed: take null='shifts', which is exact and 1.6 to 32 times as fast"
_STOPPING = (
    "permutations that stop were removed: take null='shifts', which is exact and takes less time"
)
_SELECTIONS = "this selection of landmarks was removed: take 'rpcholesky' or 'leverage'"
_RATES = "rates of machines were removed: a plan times a block of the data"

REMOVED: Final[dict[str, str]] = {
    "--calibrate": _RATES,
    "--group": "write --column-group NAME=COLUMNS",
    **dict.fromkeys(("row_groups", "--row-groups"), "rows that belong together are groups"),
    "--spec": "write --cluster FILE, whose kind says the queue",
    **dict.fromkeys(("kmeans++", "coherence", "determinant"), _SELECTIONS),
    **dict.fromkeys(("multiplier", "Multiplier", "wild"), _SIGNS),
    "method='linear'": (
        "linear selection was removed: take 'lasso', or SelectKBest of scikit-learn with "
        "f_regression or f_classif"
    ),
    **dict.fromkeys(("sequential", "Sequential", "--exceed"), _STOPPING),
    "to_pandas": "take to_frame(), whose columns have the names of tidy tables, as p_value",
}

# Options of single fields that there were, by the text that has the field now.
_FIELDS: Final = {
    "--estimator nystrom-m": "landmarks=n_landmarks pairing selection pool",
    "--estimator rff-hsic": "features=n_features form orthogonal",
    "--estimator nfsic": "locations=n_locations training-rows placement regularisation",
    "--estimator block-hsic": "block-rows exponent",
    "--estimator dcov": "unbiased root",
    "--null permutation": "within group-rows",
    "--null normal": "variance",
    "--null spectral": "method",
    "--order time": "lag period",
    "--regression splines": "knots=n_knots folds=n_folds",
    "--kernel grid": "factors combine aggregate reference-share",
}
for _text, _options in _FIELDS.items():
    for _option, _, _field in (one.partition("=") for one in _options.split()):
        _new = f"{_text}:{_field or _option.replace('-', '_')}=VALUE"
        REMOVED[f"--{_option}"] = f"it is a field of texts now: write as {_new}"


def removed(name: str) -> str:
    """End of an error message about an unknown name: what to take, where there was one.

    Examples
    --------
    >>> removed("sequential")
    "; permutations that stop were removed: take null='shifts', which is exact and takes less time"
    >>> removed("sequence")
    ''
    """
    return f"; {REMOVED[name]}" if name in REMOVED else ""
