"""Results to report, with names that want to be more than text."""

from dataclasses import replace

import numpy as np

import dhsic
from dhsic.report import MemoryUse, Run

EVIL = [
    "<script>window.broken = 1</script>",
    "\"><img src=x onerror='window.broken = 2'>",
    "{{ 7 * 7 }} {% raise %} & ${x}",
    "two\nlines \\ and 'quotes' $\\frac{1}",
    "</title></style><b>ü 漢 \ud800",
]
RUN = Run(
    data="data <here>",
    command="dhsic test x",
    python="print('x')",
    ran_on="threads x",
    memory=[MemoryUse("a <x>", 200 * 2**20, 100 * 2**20), MemoryUse("other", 2**20, None)],
)


def independence(names=("height", "weight"), **options):
    x, y = np.random.default_rng(0).standard_normal((2, 200))
    variables = [x, x + 2 * y, *(x * y + k for k in range(len(names) - 2))]
    asked = {"names": names, "estimator": "nystrom-m", "n_resamples": 50, "rng": 0, **options}
    return dhsic.independence_test(*variables, **asked)


def ranked(names=None, count=6, target="year", **options):
    """A ranking of columns that depend less and less on the target."""
    rng = np.random.default_rng(1)
    year = rng.standard_normal(150)
    noise = np.geomspace(0.2, 50.0, count) * rng.standard_normal((150, count))
    labels = [f"feature {k}" for k in range(count)] if names is None else names
    found = dhsic.rank_features(year[:, None] + noise, year, names=labels, rng=0, **options)
    return replace(found, target=target)


def mapped(*dims, names=("x", "y"), **options):
    """A sensitivity map of variables of so many columns, of which the last of x matters."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, dims[0]))
    others = [np.sin(2 * x[:, -1:]) + 0.1 * rng.standard_normal((100, d)) for d in dims[1:]]
    return dhsic.sensitivity_map(x, *others, names=names, estimator="rff-hsic", rng=0, **options)
