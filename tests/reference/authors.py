"""Values of the papers' authors' code, for tests/test_reference.py.

    python -m tests.reference.authors NYSTROEM KERPY > tests/reference/authors.csv

NYSTROEM is a checkout of github.com/FlopsKa/nystroem-mhsic (Kalinke and Szabo 2023; 40141eb),
KERPY one of github.com/oxcsml/kerpy (Zhang et al. 2018; 50b1759).
"""

# ruff: noqa: T201
import sys
import time
from unittest.mock import MagicMock

import numpy as np

from tests.test_reference import GAMMAS, ROWS, W, X, Y, Z


class Chosen:
    """In the place of a generator: the rows that are landmarks."""

    def __init__(self, rows):
        self.rows = rows

    def choice(self, _, size, replace):
        return self.rows[:size]

    def integers(self, _, size):
        return self.rows[:size]


def nystroem(folder):
    sys.path.insert(0, folder)
    for name in ("fsic", "fsic.data", "fsic.kernel", "fsic.indtest"):  # which needs Theano
        sys.modules[name] = MagicMock()
    from nystroemmhsic.estimators import HSIC, HSICNy, LargeScaleHSICNy
    from nystroemmhsic.kernels import RBF

    kernels = [RBF(gamma) for gamma in GAMMAS]
    data = [X, Y, Z, W]
    yield "HSIC of two", HSIC(kernels).hsic(X, Y)
    yield "HSIC of four", HSIC(kernels).mw_hsic(data)
    for m, words in ((2, "two"), (3, "three"), (4, "four")):
        theirs = HSICNy(kernels[:m], len(ROWS), reg_lambda=1e-12)
        theirs.rng = Chosen(ROWS)
        yield f"HSICNy of {words}", theirs.mw_hsic(data[:m])
    theirs = LargeScaleHSICNy(*kernels[:2], len(ROWS), reg_lambda=1e-12)
    theirs.rng = Chosen(ROWS)
    yield "LargeScaleHSICNy", theirs.hsic(X, Y)


def kerpy(folder):
    sys.path.insert(0, folder)
    time.clock = time.perf_counter  # of Python 2, as the next
    sys.modules["numpy.lib.index_tricks"] = np
    from independence_testing.HSICTestObject import HSICTestObject as Theirs
    from kerpy.GaussianKernel import GaussianKernel

    grams = [GaussianKernel(sigma).kernel(x) for sigma, x in ((0.8, X), (0.7, Y))]
    yield "HSIC_V_statistic", Theirs.HSIC_V_statistic(*(k.copy() for k in grams))
    yield "HSIC_U_statistic", Theirs.HSIC_U_statistic(*(k.copy() for k in grams))
    yield "dCor_HSIC_statistic", Theirs.dCor_HSIC_statistic(*(k.copy() for k in grams))


if __name__ == "__main__":
    print("name,value")
    for name, value in (*nystroem(sys.argv[1]), *kerpy(sys.argv[2])):
        print(f"{name},{float(np.squeeze(value))!r}")
