"""Names as types: those of the registries, which a checker of types knows."""

import subprocess
import sys
from typing import get_args

import numpy as np
import pytest

import dhsic
from dhsic.causal.regression import REGRESSIONS, RegressionName
from dhsic.causal.scoring import MeasureName
from dhsic.estimators import EstimatorName, NullName
from dhsic.estimators.registry import ESTIMATORS, NULLS
from dhsic.interaction.lancaster import (
    INTERACTION_ESTIMATORS,
    InteractionEstimator,
    InteractionNull,
)
from dhsic.kernels import KernelName, parse
from dhsic.kernels.registry import FORMS
from dhsic.pairwise.matrix import PairNullName
from dhsic.twosample.compare import MMDName
from dhsic.twosample.naming import MMD_ESTIMATORS

CODE = """\
import numpy as np
import dhsic
from dhsic.estimators import Estimator

x = np.arange(9.0)


def mine(registered: Estimator) -> None:
    dhsic.independence_test(x, x, estimator=registered, kernels="gaussian:0.5+linear")


dhsic.independence_test(x, x, estimator="nystrom-m", null="gamma", kernels="gaussian")
dhsic.two_sample_test(x, x, estimator="v-mmd", null=dhsic.Permutation(99), progress=True)
dhsic.causal.score_dags(x, x, estimator="v-hsic", regression="splines", missing="drop")
"""
WRONG = [
    'dhsic.independence_test(x, x, estimator="nystrom_m")',
    'dhsic.independence_test(x, x, null="perm")',
    'dhsic.hsic(x, x, estimator="hsic")',
    'dhsic.rank_features(x, x, by="p")',
    'dhsic.interaction_test(x, x, x, estimator="lancaster")',
    'dhsic.dependence_matrix(x, x, null="gamma")',
    'dhsic.two_sample_test(x, x, estimator="mmd")',
    'dhsic.causal.search_dag(x, x, regression="spline")',
    'dhsic.independence_test(x, x, missing="omit")',
    'dhsic.independence_test(x, x, progress="yes")',
]


@pytest.mark.parametrize(
    ("names", "known"),
    [
        (
            EstimatorName,
            ("auto", *(n for n in ESTIMATORS if ESTIMATORS[n].__module__[:5] == "dhsic")),
        ),
        (NullName, ("auto", *(n for n in NULLS if NULLS[n].__module__[:5] == "dhsic"))),
        (KernelName, FORMS),
        (MMDName, ("auto", *MMD_ESTIMATORS)),
        (RegressionName, REGRESSIONS),
    ],
)
def test_names__are_those_of_the_registry(names, known):
    assert sorted(get_args(names)) == sorted(known)


def test_names_of_fewer__are_taken():
    x, y, z = np.random.default_rng(0).standard_normal((3, 30))
    assert set(get_args(InteractionEstimator)) >= set(INTERACTION_ESTIMATORS)
    for name in get_args(InteractionEstimator):
        dhsic.plan_interaction(x, y, z, estimator=name, threads=1)
    for name in get_args(InteractionNull):
        dhsic.plan_interaction(x, y, z, estimator="nystrom-lancaster", null=name, threads=1)
    for name in get_args(PairNullName):
        dhsic.dependence_matrix(x, y, null=name, rng=0)
    for name in get_args(MeasureName):
        dhsic.causal.score_dags(x, y, estimator=name, rng=0)
    assert all(parse(name) for name in get_args(KernelName))


def test_checker__refuses_names_that_there_are_not(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("\n".join([CODE, *WRONG]) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(path)],  # with the cache of the check of all files
        capture_output=True,
        text=True,
    )
    first = CODE.count("\n") + 2
    told = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert told == set(range(first, first + len(WRONG))), done.stdout + done.stderr
