"""Where only the declared dependencies are installed, all can be imported, and errors name extras.

Run by the Python of an environment that has nothing else, or with `--blocked` of any other, where
what the extras bring cannot be imported then:

    python -P tests/bare.py
"""

import importlib
import importlib.util
import pkgutil
import subprocess
import sys

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
    "pandas": "tables",
    "prometheus_client": "metrics",
    "pyarrow": "tables",
    "s3fs": "s3",
    "sklearn": "selection",
    "xarray": "tables",
}


def import_everything():
    import dhsic

    for module in pkgutil.walk_packages(dhsic.__path__, "dhsic."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert all(hasattr(dhsic, name) for name in dhsic.__all__)


def calls():
    """What needs an extra, with the extra that its error must name."""
    import numpy as np

    import dhsic
    from dhsic import causal
    from dhsic.cluster import ClusterSpec, Gateway, Kubernetes, connect
    from dhsic.integrations import causal_learn_test

    x, y = np.random.default_rng(0).standard_normal((2, 60))
    result = dhsic.independence_test(x, y, rng=0)
    dag = causal.score_dags(x, x**2 + y, rng=0).best.dag

    def entered(kind, **section):
        return lambda: connect(ClusterSpec(kind, 1, insecure=True, **section)).__enter__()

    def read(*paths, **options):
        return lambda: dhsic.independence_test(*paths, **options)

    return [
        ("plot", result.plot),
        ("tables", result.to_frame),
        ("tables", read("a", "b", data="no.csv")),
        ("report", lambda: result.report("no.html")),
        ("causal", dag.to_networkx),
        ("causal", lambda: causal.direction(x, y, regression="random-forest", rng=0)),
        ("selection", lambda: dhsic.select_features(np.c_[x, y], y, 1, method="lasso", rng=0)),
        ("discovery", causal_learn_test),
        ("kubernetes", entered("kubernetes", kubernetes=Kubernetes(image="dhsic:1"))),
        ("gateway", entered("gateway", gateway=Gateway("https://gateway.example.org"))),
        ("cluster", entered("slurm")),
        ("s3", read("s3://h/x.zarr", "s3://h/y.zarr")),
        ("gcs", read("gs://h/x.zarr", "gs://h/y.zarr")),
        ("azure", read("az://h/x.zarr", "az://h/y.zarr")),
        ("http", read("https://h/x.zarr", "https://h/y.zarr")),
    ]


def check_errors():
    from dhsic.errors import MissingDependencyError

    for extra, call in calls():
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
    assert "p value" in done.stdout


if __name__ == "__main__":
    if sys.argv[1:] == ["--blocked"]:
        sys.modules |= dict.fromkeys(OPTIONAL)  # Python imports none of what is None there
    else:
        found = [name for name in OPTIONAL if importlib.util.find_spec(name)]
        assert not found, f"the environment has {found}"
        run_the_demo()
    import_everything()
    check_errors()
    sys.stdout.write("all modules imported, errors name their extras\n")
