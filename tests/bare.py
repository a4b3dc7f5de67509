"""Where only the declared dependencies are installed, all can be imported, and errors name extras.

Run by the Python of an environment that has nothing else, or with `--blocked` of any other, where
what the extras bring cannot be imported then:

    python tests/bare.py
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import subprocess
import sys
import tempfile
from pathlib import Path

OPTIONAL = {
    "adlfs": "azure",
    "aiohttp": "http",
    "bokeh": "report",
    "causallearn": "discovery",
    "dask_gateway": "gateway",
    "dask_jobqueue": "cluster",
    "dask_kubernetes": "kubernetes",
    "gcsfs": "gcs",
    "matplotlib": "plot",
    "networkx": "causal",
    "obstore": "obstore",
    "pandas": "tables",
    "prometheus_client": "metrics",
    "pyarrow": "tables",
    "s3fs": "s3",
    "sklearn": "selection",
    "xarray": "tables",
}


class Absent(importlib.abc.MetaPathFinder):
    """Finds what other finders do, but for what the extras bring."""

    def __init__(self, others):
        self.others = others

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OPTIONAL:
            return None
        found = (other.find_spec(name, path, target) for other in self.others)
        return next((spec for spec in found if spec is not None), None)

    def find_distributions(self, *arguments):
        return importlib.machinery.PathFinder.find_distributions(*arguments)


def import_everything():
    import dhsic

    names = [module.name for module in pkgutil.walk_packages(dhsic.__path__, "dhsic.")]
    for name in names:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    assert all(hasattr(dhsic, name) for name in dhsic.__all__)
    return len(names)


def lacking(folder):
    """What needs an extra, with the extra that its error must name."""
    import numpy as np

    import dhsic
    from dhsic import causal
    from dhsic.cluster import ClusterSpec, Gateway, Kubernetes, connect
    from dhsic.integrations import DependenceSelector, causal_learn_test

    x, y = np.random.default_rng(0).standard_normal((2, 60))
    result = dhsic.independence_test(x, y, rng=0)
    scored = causal.score_dags(x, x**2 + y, rng=0)
    (folder / "table.csv").write_text("a,b\n1,2\n3,4\n")

    def enter(spec):
        with connect(spec):
            pass

    def urls(scheme):
        return lambda: dhsic.independence_test(f"{scheme}://h/x.zarr", f"{scheme}://h/y.zarr")

    pods = Kubernetes(image="dhsic:1")
    gateway = Gateway("https://gateway.example.org")
    return [
        ("plot", result.plot),
        ("tables", result.to_pandas),
        ("tables", lambda: dhsic.independence_test("a", "b", data=str(folder / "table.csv"))),
        ("report", lambda: result.report(folder / "out.html")),
        ("causal", scored.best.dag.to_networkx),
        ("causal", lambda: causal.direction(x, y, regression="random-forest", rng=0)),
        ("selection", lambda: dhsic.select_features(np.c_[x, y], y, 1, method="lasso", rng=0)),
        ("selection", lambda: DependenceSelector(1)),
        ("discovery", causal_learn_test),
        ("kubernetes", lambda: enter(ClusterSpec("kubernetes", 1, insecure=True, kubernetes=pods))),
        ("gateway", lambda: enter(ClusterSpec("gateway", 1, insecure=True, gateway=gateway))),
        ("cluster", lambda: enter(ClusterSpec("slurm", 1))),
        ("s3", urls("s3")),
        ("gcs", urls("gs")),
        ("azure", urls("az")),
        ("http", urls("https")),
    ]


def check_errors():
    from dhsic.errors import MissingDependencyError

    with tempfile.TemporaryDirectory() as folder:
        for extra, call in lacking(Path(folder)):
            said = f"what needs the extra {extra} did without it"
            try:
                call()
            except MissingDependencyError as error:
                said = str(error)
            assert f"pip install 'dhsic[{extra}]'" in said, said


def run_the_demo():
    """On worker processes, as the README does."""
    command = [sys.executable, "-m", "dhsic", "demo", "--rows", "2000", "--features", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "p-value" in done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocked", action="store_true")
    if parser.parse_args().blocked:
        sys.meta_path[:] = [Absent(list(sys.meta_path))]
    else:
        found = [name for name in OPTIONAL if importlib.util.find_spec(name)]
        assert not found, f"the environment has {found}"
        run_the_demo()
    count = import_everything()
    check_errors()
    sys.stdout.write(f"{count} modules imported, errors name their extras\n")


if __name__ == "__main__":
    main()
