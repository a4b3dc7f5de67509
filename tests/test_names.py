"""Names as types: a checker of types knows those that a call takes."""

import re
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest

import dhsic
from dhsic.estimators import EstimatorName, NullName
from dhsic.kernels import KernelName

CODE = """\
import numpy as np
import dhsic
from dhsic.estimators import Estimator

x = np.arange(9.0)


def mine(registered: Estimator) -> None:
    dhsic.independence_test(x, x, estimator=registered, kernels="gaussian:0.5+linear")


dhsic.two_sample_test(x, x, estimator="v-mmd", null=dhsic.Permutation(99), progress=True)
"""
WRONG = [
    'dhsic.independence_test(x, x, estimator="nystrom_m")',
    'dhsic.independence_test(x, x, null="perm")',
    'dhsic.rank_features(x, x, by="p")',
    'dhsic.interaction_test(x, x, x, estimator="lancaster")',
    'dhsic.two_sample_test(x, x, estimator="mmd")',
    'dhsic.causal.search_dag(x, x, regression="spline")',
    'dhsic.independence_test(x, x, missing="omit")',
    'dhsic.independence_test(x, x, progress="yes")',
]


def listed(**unknown):
    """The names that an error lists for one that there is not."""
    x = np.arange(9.0)
    with pytest.raises(ValueError, match="'nothing'") as caught:
        dhsic.plan(x, x, **unknown)
    told = re.split(r"must be one of |; choose ", str(caught.value))[1]
    told = re.split(r", got|; got|, or ranks|; it is for", told)[0]
    return set(re.split(", | or ", told.replace("'", "")))


def test_names__are_those_that_errors_list():
    estimators = get_args(EstimatorName)
    assert listed(estimator="nothing") == set(estimators)
    assert listed(kernels="nothing") == set(get_args(KernelName))
    nulls = (listed(estimator=name, null="nothing") for name in estimators)
    assert set().union(*nulls) == set(get_args(NullName))


@pytest.mark.nightly
def test_checker__refuses_names_that_there_are_not(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("\n".join([CODE, *WRONG]) + "\n")
    words = [sys.executable, "-m", "mypy", str(path)]  # with the cache of the check of all files
    done = subprocess.run(words, capture_output=True, text=True)
    first = CODE.count("\n") + 2
    told = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert told == set(range(first, first + len(WRONG))), done.stdout + done.stderr
