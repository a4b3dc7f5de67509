"""By night: a cluster whose servers speak TLS, and those that it does not let in."""

import dataclasses
import json

import pytest
from click.testing import CliRunner
from distributed import LocalCluster, Security

import dhsic
from dhsic.cli import main
from dhsic.cluster import ClusterSpec, SchedulerAt, connect
from dhsic.errors import InvalidArgumentError
from dhsic.io.synthetic import generate
from dhsic.results import IndependenceTestResult
from tests.cluster.certificates import make_tls
from tests.cluster.quiet import OPTIONS, X, Y, quiet_result, same_bits

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory):
    """Address, scheduler file and certificates of a cluster whose servers speak TLS."""
    folder = tmp_path_factory.mktemp("tls")
    tls = make_tls(folder)
    roles = ("scheduler", "worker", "client")
    files = {f"tls_{role}_{part}": getattr(tls, part) for role in roles for part in ("cert", "key")}
    security = Security(tls_ca_file=tls.ca, require_encryption=True, **files)
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        host="127.0.0.1",
        protocol="tls://",
        security=security,
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        worker_dashboard_address="127.0.0.1:0",
    ) as cluster:
        file = folder / "scheduler.json"
        file.write_text(json.dumps({"address": cluster.scheduler_address}))
        yield cluster.scheduler_address, file, tls


@pytest.mark.parametrize("way", ["address", "file", "spec"])
def test_connect__gives_the_bits_of_a_quiet_run_over_tls(encrypted, way):
    address, file, tls = encrypted
    spec = ClusterSpec("scheduler", scheduler=SchedulerAt(address), tls=tls)
    ways = {"address": (address, {"tls": tls}), "file": (file, {"tls": tls}), "spec": (spec, {})}
    where, options = ways[way]
    with connect(where, **options) as client:
        assert len(client.nthreads()) == 2
        assert all(one.startswith("tls://") for one in client.nthreads())
        found = dhsic.independence_test(X, Y, client=client, **OPTIONS)
    assert same_bits(found, quiet_result())


def test_command__runs_over_tls_with_certificates_from_options_or_environment(encrypted, tmp_path):
    address, file, tls = encrypted
    data, results = str(tmp_path / "d.zarr"), []
    generate(data, rows=3000, features=2, dependence=0.5)
    files = {"ca": tls.ca, "cert": tls.cert, "key": tls.key}
    options = [word for name, path in files.items() for word in (f"--tls-{name}", path)]
    environment = {f"DHSIC_TLS_{name.upper()}": path for name, path in files.items()}
    ways = [(["--scheduler", address, *options], {}), (["--scheduler-file", file], environment)]
    for number, (where, variables) in enumerate([*ways, (["--threads", "1"], {})]):
        out = tmp_path / f"{number}.json"
        words = ["test", data, "--variable", "features", "--variable", "year"]
        words += ["--estimator", "nystrom-m:20", "--kernel", "gaussian", "--json", str(out)]
        done = CliRunner().invoke(main, [*words, *map(str, where)], env=variables)
        assert done.exit_code == 0, done.stderr
        results.append(IndependenceTestResult.from_json(out.read_text()))
    assert results[0].statistic == results[1].statistic == results[2].statistic


def refusal(where, tls=None, timeout=60.0):
    with pytest.raises(InvalidArgumentError) as caught, connect(where, tls=tls, timeout=timeout):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_connect__says_whose_certificate_is_refused(encrypted, tmp_path):
    (address, _, tls), strangers = encrypted, make_tls(tmp_path / "strangers")
    assert "its certificate is refused (" in refusal(address, strangers)
    for ours in (strangers, make_tls(tmp_path / "old", expired=True)):
        said = refusal(address, dataclasses.replace(ours, ca=tls.ca))
        assert "it refuses our certificate" in said
    said = refusal(address.replace("tls://", "tcp://"), timeout=5.0)
    assert "it speaks TLS: write tls:// and give certificates" in said
