"""Results to report, with names that want to be more than text."""

import numpy as np

import dhsic
from dhsic.ranking import RankedFeature
from dhsic.report import MemoryUse, Ranked, Run
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
        where=f"threads {text}",
        memory=[MemoryUse(f"a {text}", 200 * 2**20, 100 * 2**20), MemoryUse("other", 2**20, None)],
    )


def found():
    """A ranking whose last feature is the first in rank."""
    features = [
        RankedFeature(
            name=f"f{k}",
            columns=(k,),
            kernel="gaussian:1.0",
            statistic=float(k),
            standardised=float(k),
            hsic=0.1 * k,
            cka=0.2 * k,
            pvalue=10.0**-k,
            pvalue_bh=2 * 10.0**-k / 8,
            pvalue_by=10.0**-k,
            pvalue_bonferroni=10.0**-k,
            pvalue_holm=4 * 10.0**-k / 8,
            pvalue_max_t=10.0**-k,
        )
        for k in range(4)
    ]
    return dhsic.FeatureRanking(
        features=tuple(features),
        by="pvalue",
        target="year",
        target_kernel="gaussian:2.0",
        n=1000,
        estimator="v-hsic",
        estimator_reason="as asked",
        null="permutation",
        null_reason="quick",
        n_resamples=999,
        landmarks=None,
        precision="float64",
        seed=17,
        passes=(PassSummary("kernel sums", 4, 8000, 0.5),),
        seconds=1.5,
        version="1.2.3",
    )


def mapped(*dims, names=("x", "y"), **options):
    """A sensitivity map of variables of so many columns, of which the last of x matters."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, dims[0]))
    others = [np.sin(2 * x[:, -1:]) + 0.1 * rng.standard_normal((100, d)) for d in dims[1:]]
    return dhsic.sensitivity_map(x, *others, names=names, estimator="rff-hsic", rng=0, **options)


def ranked(names=None, count=6, **changed):
    cka = np.linspace(0.9, 0.05, count)
    p = np.geomspace(1e-9, 0.5, count)
    fields = {
        "target": "year",
        "names": [f"feature {k}" for k in range(count)] if names is None else names,
        "hsic": cka / 10,
        "cka": cka,
        "pvalues": p,
        "adjusted": {"family-wise error": np.minimum(count * p, 1.0), "false discovery rate": p},
        "control": "family-wise error",
        "n": 1000,
        "seed": 17,
        "seconds": 1.5,
        "version": "1.2.3",
        "passes": (PassSummary("kernel sums", 4, 8000, 0.5),),
        "facts": [("kernels", "gaussian")],
    }
    return Ranked(**fields | changed)
