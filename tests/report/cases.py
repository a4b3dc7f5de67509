"""Results to report, with names that want to be more than text."""

import numpy as np

import dhsic
from dhsic.ranking import RankedColumn
from dhsic.report import MemoryUse, Run
from dhsic.results import PassSummary

EVIL = [
    "<script>window.broken = 1</script>",
    "\"><img src=x onerror='window.broken = 2'>",
    "{{ 7 * 7 }} {% raise %} & ${x}",
    "two\nlines \\ and 'quotes' $\\frac{1}",
    "</title></style><b>ü 漢 \ud800",
]


def independence(names=("height", "weight"), **options):
    x, y = np.random.default_rng(0).standard_normal((2, 200))
    variables = [x, x + 2 * y, *(x * y + k for k in range(len(names) - 2))]
    asked = {"names": names, "estimator": "nystrom-m", "n_resamples": 50, "rng": 0, **options}
    return dhsic.independence_test(*variables, **asked)


def run(text="x"):
    return Run(
        data=f"data {text}",
        command=f"dhsic test {text}",
        python=f"print('{text}')",
        ran_on=f"threads {text}",
        memory=[MemoryUse(f"a {text}", 200 * 2**20, 100 * 2**20), MemoryUse("other", 2**20, None)],
    )


def ranked(names=None, count=6, **changed):
    """A ranking whose last feature is the first in rank."""
    cka = np.linspace(0.9, 0.05, count)
    p = np.geomspace(1e-9, 0.5, count)
    labels = [f"feature {k}" for k in range(count)] if names is None else names
    features = [
        RankedColumn(
            name=labels[k],
            columns=(k,),
            kernel="gaussian:1.0",
            statistic=10.0 * cka[k],
            standardised=10.0 * cka[k],
            hsic=cka[k] / 10,
            cka=cka[k],
            pvalue=p[k],
            pvalue_bh=p[k],
            pvalue_by=p[k],
            pvalue_bonferroni=min(count * p[k], 1.0),
            pvalue_holm=min(count * p[k], 1.0),
            pvalue_max_t=min(2 * p[k], 1.0),
        )
        for k in reversed(range(count))
    ]
    fields = {
        "features": tuple(features),
        "by": "pvalue",
        "target": "year",
        "target_kernel": "gaussian:4.0",
        "n": 1000,
        "estimator": "v-hsic",
        "estimator_reason": "as asked",
        "null": "permutation",
        "null_reason": "quick",
        "n_resamples": 999,
        "landmarks": None,
        "precision": "float64",
        "seed": 17,
        "passes": (PassSummary("kernel sums", 4, 8000, 0.5),),
        "seconds": 1.5,
        "version": "1.2.3",
    }
    return dhsic.ColumnRanking(**fields | changed)


def mapped(*dims, names=("x", "y"), **options):
    """A sensitivity map of variables of so many columns, of which the last of x matters."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, dims[0]))
    others = [np.sin(2 * x[:, -1:]) + 0.1 * rng.standard_normal((100, d)) for d in dims[1:]]
    return dhsic.sensitivity_map(x, *others, names=names, estimator="rff-hsic", rng=0, **options)
