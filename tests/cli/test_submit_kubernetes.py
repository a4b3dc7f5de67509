"""`dhsic submit kubernetes` and what follows it, with a program in place of kubectl."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dhsic._progress import Bar
from dhsic.cli import run_status
from dhsic.cluster.submit.manifests import RESULT
from dhsic.cluster.submit.pods import trouble_of_pods
from dhsic.results import IndependenceTestResult
from tests.cli.conftest import Invoke
from tests.cli.submissions import (
    IDENTITY,
    KUBERNETES,
    PAIR,
    URL,
    detached,
    ended,
    runs_of,
    said,
    submit,
)
from tests.cli.submissions import here as here
from tests.cli.submissions import queues as queues
from tests.cli.submissions import result_text as result_text
from tests.cli.test_bad_usage import check_refusal
from tests.cluster.queues import Queues


def test_kubernetes__applies_what_it_renders_where_the_file_says(
    invoke: Invoke, here: Path, queues: Queues
) -> None:
    words = ("test", URL, *PAIR)
    printed = submit(invoke, "kubernetes", *words, options=("--render-only",))
    assert (printed.exit_code, printed.stderr) == (0, "")
    queues.answer("kubectl", "apply", out="created\n")
    run = detached(invoke, "kubernetes", *words)
    ((called, given),) = queues.calls("kubectl")
    assert called == ["--context=c", "--namespace=lab", "apply", "--filename=-"]
    assert IDENTITY.sub("ID", given) == IDENTITY.sub("ID", printed.stdout)
    job, _ = yaml.safe_load_all(given)
    assert (job["kind"], job["metadata"]["name"]) == ("DaskJob", f"dhsic-{run}")


def test_kubernetes__remembers_the_context_and_the_namespace_of_the_day(
    invoke: Invoke, here: Path, queues: Queues
) -> None:
    spec = {**KUBERNETES, "kubernetes": {"image": "dhsic:1", "tls_secret": "tls"}}
    (here / "kubernetes.yaml").write_text(yaml.safe_dump(spec))
    queues.answer("kubectl", "config", "current-context", out="monday\n")
    queues.answer("kubectl", "config", "view", "--context=monday", out="mine")
    queues.answer("kubectl", "apply", "--context=monday", "--namespace=mine", out="created\n")
    run = detached(invoke, "kubernetes", "test", URL, *PAIR)
    queues.answer("kubectl", "config", "current-context", out="tuesday\n")
    words = ("get", "daskjob", f"dhsic-{run}", "--context=monday", "--namespace=mine")
    queues.answer("kubectl", *words, out="{}")
    assert "state      waiting" in invoke("status", run).stdout


def daskjob(status: str) -> str:
    return json.dumps({"kind": "DaskJob", "status": {"jobStatus": status}})


def test_kubernetes__follows_the_log_of_the_pod(
    invoke: Invoke, here: Path, queues: Queues, result_text: str
) -> None:
    queues.answer("kubectl", "apply", out="created\n")
    run = detached(invoke, "kubernetes", "test", URL, *PAIR)
    job = f"dhsic-{run}"
    (folder,) = runs_of(here)
    for status, standing in {"JobCreated": "waiting", "ClusterCreated": "waiting"}.items():
        queues.answer("kubectl", "get", "daskjob", job, out=daskjob(status))
        assert f"state      {standing}\n" in invoke("status", run).stdout
    queues.answer("kubectl", "get", "daskjob", job, out=daskjob("Running"))
    log = f"a warning\n{said('kernel sums', 400)}"
    queues.answer("kubectl", "logs", f"pod/{job}-runner", "--container=dhsic", out=log)
    assert "progress   kernel sums, 400 of 1,225 rows\n" in invoke("status", run).stdout
    assert (folder / "job.log").read_text() == log
    torn = f"{log}table\n\n{RESULT}\n{result_text[:100]}"
    queues.answer("kubectl", "logs", out=torn)
    check_refusal(invoke("result", run), "it is running")
    queues.answer("kubectl", "logs", out=f"{log}table\n\n{RESULT}\n{result_text}")
    queues.answer("kubectl", "get", "daskjob", job, out=daskjob("Successful"))
    found = IndependenceTestResult.from_json(invoke("result", run, "--json").stdout)
    assert found.to_json() == IndependenceTestResult.from_json(result_text).to_json()


def test_kubernetes__says_why_a_pod_failed(invoke: Invoke, here: Path, queues: Queues) -> None:
    queues.answer("kubectl", "apply", out="created\n")
    run = detached(invoke, "kubernetes", "test", URL, *PAIR)
    queues.answer("kubectl", "get", out=daskjob("Failed"))
    queues.answer("kubectl", "logs", out=ended("error", message="no such bucket"))
    check_refusal(invoke("result", run), "failed: no such bucket")
    queues.answer("kubectl", "get", out="")
    assert "state      failed" in invoke("status", run).stdout, "somebody deleted it"
    asked = ["get", "daskjob", f"dhsic-{run}", "--ignore-not-found", "--output=json"]
    assert asked in [words[2:] for words, _ in queues.calls("kubectl")]


def test_kubernetes__cancel_deletes_all_objects_of_the_run(
    invoke: Invoke, here: Path, queues: Queues
) -> None:
    queues.answer("kubectl", "apply", out="created\n")
    run = detached(invoke, "kubernetes", "test", URL, *PAIR)
    queues.answer("kubectl", "get", out="{}")
    queues.answer("kubectl", "delete", out="deleted\n")
    assert invoke("cancel", run).exit_code == 0
    words = queues.calls("kubectl")[-1][0]
    assert words[2:] == [
        "delete",
        "daskjob,daskautoscaler,networkpolicy",
        "--ignore-not-found",
        "--wait=false",
        f"--selector=app.kubernetes.io/instance=dhsic-{run}",
    ]


def test_kubernetes__reads_the_end_of_the_log_until_the_run_is_over(
    invoke: Invoke, here: Path, queues: Queues, result_text: str
) -> None:
    queues.answer("kubectl", "apply", out="created\n")
    run = detached(invoke, "kubernetes", "test", URL, *PAIR)
    queues.answer("kubectl", "get", "pods", out='{"items": []}')
    queues.answer("kubectl", "get", "daskjob", out=daskjob("Running"))
    queues.answer("kubectl", "logs", "--tail=50", out=said("kernel sums", 400))
    assert "progress   kernel sums, 400 of 1,225 rows\n" in invoke("status", run).stdout
    whole = f"first\n{said('kernel sums', 400)}table\n\n{RESULT}\n{result_text}"
    queues.answer("kubectl", "logs", out=whole)
    queues.answer("kubectl", "get", "daskjob", out=daskjob("Successful"))
    assert invoke("result", run).exit_code == 0
    (folder,) = runs_of(here)
    assert (folder / "job.log").read_text() == whole


def pod(name: str, component: str, **status: Any) -> dict[str, Any]:
    labels = {"dask.org/component": component}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def state(kind: str, reason: str, message: str = "") -> list[dict[str, Any]]:
    return [{"state": {kind: {"reason": reason, "message": message}}}]


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available:\n3 Insufficient memory.",
}
TROUBLES = {
    "image": (
        {"containerStatuses": state("waiting", "ImagePullBackOff", "no such tag")},
        "ImagePullBackOff (no such tag): name an image that the nodes can pull",
    ),
    "first try": (
        {"containerStatuses": state("waiting", "ErrImagePull")},
        "ErrImagePull: name an image that the nodes can pull",
    ),
    "crash": (
        {"phase": "Running", "containerStatuses": state("waiting", "CrashLoopBackOff")},
        "CrashLoopBackOff: see 'kubectl logs --previous POD'",
    ),
    "secret": (
        {"containerStatuses": state("waiting", "CreateContainerConfigError", "no secret")},
        "(no secret): make the secrets that the file of the cluster names",
    ),
    "no place": (
        {"conditions": [UNSCHEDULABLE]},
        "Unschedulable (0/3 nodes are available: 3 Insufficient memory.): ask for fewer workers",
    ),
    "node": ({"reason": "NodeLost"}, "NodeLost: wait for its node, or cancel the run"),
}


@pytest.mark.parametrize("status", ["ClusterCreated", "Running"])
@pytest.mark.parametrize("case", TROUBLES)
def test_kubernetes__says_what_keeps_a_pod_from_running(
    invoke: Invoke, here: Path, queues: Queues, case: str, status: str
) -> None:
    said, words = TROUBLES[case]
    queues.answer("kubectl", "apply", out="created\n")
    run = detached(invoke, "kubernetes", "test", URL, *PAIR)
    queues.answer("kubectl", "get", "daskjob", out=daskjob(status))
    queues.answer("kubectl", "logs", out="")
    name = f"dhsic-{run}-worker"
    well = pod(f"dhsic-{run}-scheduler", "scheduler", containerStatuses=[{"state": {}}])
    listed = json.dumps({"items": [pod(name, "worker", **said), well]})
    selector = f"--selector=dask.org/cluster-name=dhsic-{run}"
    queues.answer("kubectl", "get", "pods", selector, out=listed)
    line = f"trouble    pod {name}: "
    shown = invoke("status", run).stdout
    assert line in shown
    assert words.replace("POD", name) in shown
    queues.answer("kubectl", "get", "pods", out=json.dumps({"items": [well]}))
    assert "trouble" not in invoke("status", run).stdout
    queues.answer("kubectl", "get", "pods", code=1, err="pods is forbidden\n")
    assert "trouble" not in invoke("status", run).stdout, "not all may list pods"


def test_kubernetes__names_the_trouble_of_the_pod_that_leads_first() -> None:
    status = {"containerStatuses": state("waiting", "ErrImagePull")}
    names = {"b": "worker", "c": "scheduler", "d": "job-runner", "a": "other"}
    pods = [pod(name, component, **status) for name, component in names.items()]
    for first in ("d", "c", "b"):
        found = trouble_of_pods(pods)
        assert found is not None
        assert found.startswith(f"pod {first}: ErrImagePull")
        pods = [one for one in pods if one["metadata"]["name"] != first]


def test_kubernetes__names_the_trouble_to_those_who_wait(
    invoke: Invoke, here: Path, queues: Queues
) -> None:
    queues.answer("kubectl", "apply", out="created\n")
    run = detached(invoke, "kubernetes", "test", URL, *PAIR)
    queues.answer("kubectl", "get", "daskjob", out=daskjob("ClusterCreated"))
    broken = pod("p", "scheduler", containerStatuses=state("waiting", "ErrImagePull"))
    queues.answer("kubectl", "get", "pods", out=json.dumps({"items": [broken]}))
    begun: list[str] = []

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_status, "sleep", stop)
        patch.setattr(Bar, "begin", lambda self, name: begun.append(name))
        assert invoke("result", run, "--wait").exit_code == 130
    assert begun == ["pod p: ErrImagePull: name an image that the nodes can pull"]


@pytest.mark.parametrize("status", ["Running", "Successful", "Failed"])
def test_kubernetes__a_run_whose_pod_is_gone_has_failed(
    invoke: Invoke, here: Path, queues: Queues, status: str
) -> None:
    queues.answer("kubectl", "apply", out="created\n")
    run = detached(invoke, "kubernetes", "test", URL, *PAIR)
    queues.answer("kubectl", "get", "daskjob", out=daskjob(status))
    gone = f'Error from server (NotFound): pods "dhsic-{run}-runner" not found\n'
    queues.answer("kubectl", "logs", code=1, err=gone)
    queues.answer("kubectl", "get", "pods", out='{"items": []}')
    (folder,) = runs_of(here)
    (folder / "journal.jsonl").write_text(said("kernel sums", 400))
    shown = invoke("status", run).stdout
    assert shown.startswith("state      failed\n")
    assert f"its pod dhsic-{run}-runner is gone" in shown
    assert f"'dhsic cancel {run}'" in shown
    queues.answer("kubectl", "logs", code=1, err="Unable to connect to the server\n")
    check_refusal(invoke("status", run), "Unable to connect")


def test_kubernetes__says_that_a_pod_had_too_little_memory(
    invoke: Invoke, here: Path, queues: Queues
) -> None:
    queues.answer("kubectl", "apply", out="created\n")
    run = detached(invoke, "kubernetes", "test", URL, *PAIR)
    queues.answer("kubectl", "get", "daskjob", out=daskjob("Failed"))
    queues.answer("kubectl", "logs", out=said("kernel sums", 400))
    ended = state("terminated", "OOMKilled")
    runner = pod(f"dhsic-{run}-runner", "job-runner", phase="Failed", containerStatuses=ended)
    queues.answer("kubectl", "get", "pods", out=json.dumps({"items": [runner]}))
    shown = invoke("status", run).stdout
    assert f"reason     pod dhsic-{run}-runner: OOMKilled: give the cluster more memory" in shown


@pytest.mark.parametrize("status", ["Successful", "Failed"])
def test_kubernetes__cancel_removes_what_a_run_that_ended_left(
    invoke: Invoke, here: Path, queues: Queues, result_text: str, status: str
) -> None:
    queues.answer("kubectl", "apply", out="created\n")
    run = detached(invoke, "kubernetes", "test", URL, *PAIR)
    queues.answer("kubectl", "get", out=daskjob(status))
    log = f"\n{RESULT}\n{result_text}" if status == "Successful" else ended("error", message="no")
    queues.answer("kubectl", "logs", out=log)
    queues.answer("kubectl", "delete")
    done = invoke("cancel", run)
    standing = "finished" if status == "Successful" else "failed"
    expected = f"{run} is {standing}: removed what it left in kubernetes\n"
    assert (done.exit_code, done.stdout) == (0, expected)
    words = queues.calls("kubectl")[-1][0]
    assert words[2:4] == ["delete", "daskjob,daskautoscaler,networkpolicy"]
    assert words[-1] == f"--selector=app.kubernetes.io/instance=dhsic-{run}"
    queues.answer("kubectl", "get", out="")
    assert f"state      {standing}\n" in invoke("status", run).stdout, "it was not cancelled"
    assert invoke("result", run).exit_code == (0 if standing == "finished" else 2)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('error: no matches for kind "DaskJob" in version "kubernetes.dask.org/v1"', ("operator",)),
        ("error: You must be logged in to the server", ("must be logged in",)),
    ],
)
def test_kubernetes__leaves_nothing_of_what_is_refused(
    invoke: Invoke, here: Path, queues: Queues, said: str, words: tuple[str, ...]
) -> None:
    queues.answer("kubectl", "apply", code=1, err=f"{said}\n")
    queues.answer("kubectl", "delete")
    check_refusal(submit(invoke, "kubernetes", "test", URL, *PAIR), *words)
    assert queues.calls("kubectl")[-1][0][2] == "delete"
    assert not runs_of(here)
