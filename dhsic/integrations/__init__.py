"""Tests and selections where other libraries take them.

`PValue` is the callable that DoWhy takes, `causal_learn_test` and `PgmpyTest` are for PC of
causal-learn and pgmpy; `DependenceSelector` and `dependence_score` are for scikit-learn.
"""

from dhsic.integrations.discovery import PgmpyTest, PValue, causal_learn_test
from dhsic.integrations.scikit_learn import DependenceSelector, dependence_score

__all__ = [
    "DependenceSelector",
    "PValue",
    "PgmpyTest",
    "causal_learn_test",
    "dependence_score",
]
