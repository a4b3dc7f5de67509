"""The names of estimators and nulls, as types: an editor completes them, a checker knows them.

Names that `dhsic.register` adds are known when a program runs. Where a checker is to know them too,
pass the class or a value of it in the place of its name.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

EstimatorName: TypeAlias = Literal[
    "auto",
    "nystrom-m",
    "nystrom-hsic",
    "rff-hsic",
    "nfsic",
    "block-hsic",
    "coco",
    "cka",
    "nocco",
    "sub-corr",
    "v-hsic",
    "u-hsic",
    "dcov",
    "dcor",
    "sub-hsic",
]
NullName: TypeAlias = Literal[
    "auto",
    "shifts",
    "chain",
    "permutation",
    "gamma",
    "spectral",
    "normal",
    "chi-square",
]
