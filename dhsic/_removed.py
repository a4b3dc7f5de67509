"""Names that were removed, and their replacements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_SIGNS = "random signs were removed: take null='shifts', which is exact and 1.6 to 32 times as fast"
_STOPPING = (
    "permutations that stop were removed: take null='shifts', which is exact and takes less time"
)
_SELECTIONS = "this selection of landmarks was removed: take 'rpcholesky' or 'leverage'"
_CURVES = ("RocCurve", "PrecisionRecallCurve", "roc_curve", "precision_recall_curve")
_DISPLAYS = "take sklearn.metrics of the true directions and the scores"
_RATES = "rates of machines were removed: a plan times a block of the data"

REMOVED: Final[dict[str, str]] = {
    "--calibrate": _RATES,
    "cause conditional": "it is called dhsic cause residuals",
    "--group": "write --column-group NAME=COLUMNS",
    **dict.fromkeys(("row_groups", "--row-groups"), "rows that belong together are groups"),
    "--spec": "write --cluster FILE, whose kind says the queue",
    **dict.fromkeys(("kmeans++", "coherence", "determinant"), _SELECTIONS),
    **dict.fromkeys(("multiplier", "Multiplier", "wild"), _SIGNS),
    "dhsic.FeatureRanking": "it is called ColumnRanking",
    "dhsic.FeatureSelection": "it is called ColumnSelection",
    "dhsic.RankedFeature": "it is called RankedColumn",
    "dhsic.causal.conditional_independence_test": "it is called residual_independence_test",
    **dict.fromkeys((f"dhsic.causal.{name}" for name in _CURVES), _DISPLAYS),
    "dhsic.plots.dependence_matrix": "it is called dependence_heatmap",
    "dhsic.plots.sensitivity_map": "it is called sensitivity_field",
    "method='linear'": (
        "linear selection was removed: take 'lasso', or SelectKBest of scikit-learn with "
        "f_regression or f_classif"
    ),
    **dict.fromkeys(("sequential", "Sequential", "--exceed"), _STOPPING),
    "to_pandas": "take to_frame(), whose columns have the names of tidy tables, as p_value",
    "within='blocks'": "write within='groups', and group_rows= for block_rows=",
}

# Options of single fields that there were, by the texts that have the field now: a command takes
# the first that it has.
_LANDMARKS = "landmarks=n_landmarks pairing selection pool"
_FEATURES = "features=n_features form orthogonal"
_FIELDS: Final = {
    "--estimator nystrom-lancaster": _LANDMARKS,
    "--estimator nystrom-mmd": _LANDMARKS,
    "--estimator nystrom-m": _LANDMARKS,
    "--estimator rff-mmd": _FEATURES,
    "--estimator rff-hsic": _FEATURES,
    "--estimator nfsic": "locations=n_locations training-rows placement regularisation",
    "--estimator block-mmd": "block-rows exponent",
    "--estimator block-hsic": "block-rows exponent",
    "--estimator dcov": "unbiased root",
    "--null permutation": "within group-rows",
    "--null normal": "variance",
    "--null spectral": "method",
    "--order time": "lag period",
    "--regression splines": "knots=n_knots folds=n_folds",
    "--kernel grid": "factors combine aggregate reference-share",
}


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


def removed_option(option: str, takes: Callable[[str, str], bool]) -> str:
    """End of an error message about an option of a single field: the text that has the field.

    Parameters
    ----------
    option : str
        The option that there was, as ``--lag``.
    takes : callable
        Whether a command takes a text: its option, and the name with which the text begins.

    Returns
    -------
    str
        Empty where the command takes no text with the field.

    Examples
    --------
    >>> removed_option("--lag", lambda option, name: option == "--order")
    '; it is a field of texts now: write as --order time:lag=VALUE'
    """
    for text, options in _FIELDS.items():
        fields = dict(one.partition("=")[::2] for one in options.split())
        name = option.removeprefix("--")
        if name in fields and takes(*text.split()):
            field = fields[name] or name.replace("-", "_")
            return f"; it is a field of texts now: write as {text}:{field}=VALUE"
    return ""


def no_attribute(module: str, name: str) -> AttributeError:
    """Make the error of a module that has no attribute of a name."""
    gone = removed(name) or removed(f"{module}.{name}")
    return AttributeError(f"module {module!r} has no attribute {name!r}{gone}")
