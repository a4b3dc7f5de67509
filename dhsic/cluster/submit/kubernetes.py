"""One `DaskJob` of the Dask operator a run: a cluster, and a pod that runs the test on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import suppress

from dhsic._files import parse_json
from dhsic.cluster.sections import Kubernetes
from dhsic.cluster.submit.base import Phase
from dhsic.cluster.submit.manifests import RESULT, job_manifests
from dhsic.cluster.submit.pods import gone, trouble_of_pods
from dhsic.cluster.submit.quoting import yaml_text
from dhsic.cluster.submit.runs import SubmittedRun
from dhsic.cluster.submit.tools import call
from dhsic.errors import ClusterError

_MISSING = "install it and give it the address of the cluster"
_ENDED = ("Successful", "Failed")
_KINDS = "daskjob,daskautoscaler,networkpolicy"
_NO_OPERATOR = "no matches for kind"
_NOT_FOUND = "(NotFound)"
_TAIL = 50


class KubernetesQueue:
    """Runs on Kubernetes."""

    def prepare(self, run: SubmittedRun) -> SubmittedRun:
        """Name the context and the namespace, which may be others by the time of a later call."""
        section = _section_of_run(run)
        # Written down now: the user may have changed to another cluster when asking for the result.
        context = section.context or _configured("current-context")
        shown = ("view", "--minify", "--output=jsonpath={.contexts[0].context.namespace}")
        given = () if context is None else (f"--context={context}",)
        namespace = section.namespace or _configured(*shown, *given)
        section = dataclasses.replace(section, context=context, namespace=namespace)
        return dataclasses.replace(run, spec=dataclasses.replace(run.spec, kubernetes=section))

    def render(self, run: SubmittedRun) -> str:
        """All objects as YAML."""
        return yaml_text(job_manifests(run.name, run.spec, run.command))

    def submit(self, run: SubmittedRun, text: str) -> str:
        """Hand the objects to kubectl; none stays where one is refused."""
        try:
            _kubectl(run, ["apply", "--filename=-"], text)
        except ClusterError as error:
            with suppress(ClusterError):
                # kubectl applies one object after another: those before the refusal are there.
                self.cancel(run, run.name)
            if _NO_OPERATOR in str(error):
                msg = (
                    "the cluster must have the Dask operator and has none: install the chart "
                    "dask-kubernetes-operator first"
                )
                raise ClusterError(msg) from error
            raise
        return run.name

    def phase(self, run: SubmittedRun, job: str) -> Phase:
        """Ask for the job, and keep what its pod printed: all in the end, before that the end."""
        said = _kubectl(run, ["get", "daskjob", job, "--ignore-not-found", "--output=json"])
        if not said.strip():
            return "ended"
        status = parse_json(said).get("status", {}).get("jobStatus", "")
        if status in _ENDED:
            _keep_printed(run, job)
            return "ended"
        if status != "Running":
            return "waiting"
        # Nobody tells the operator of a pod that is gone.
        return "running" if _keep_printed(run, job, f"--tail={_TAIL}") else "ended"

    def trouble(self, run: SubmittedRun, job: str, phase: Phase) -> str | None:
        """Look at the pods, as far as the user may."""
        words = ["get", "pods", f"--selector=dask.org/cluster-name={job}", "--output=json"]
        try:
            pods = parse_json(_kubectl(run, words))["items"]
        except ClusterError:
            return None
        if phase == "ended" and _runner_pod(job) not in (pod["metadata"]["name"] for pod in pods):
            return gone(_runner_pod(job), run.identity)
        return trouble_of_pods(pods)

    def cancel(self, run: SubmittedRun, job: str) -> None:
        """Delete all objects of the run; the operator deletes what it made for them."""
        # Without waiting for pods to end, which may take minutes.
        words = ["delete", _KINDS, "--ignore-not-found", "--wait=false"]
        _kubectl(run, [*words, f"--selector=app.kubernetes.io/instance={job}"])

    def clear(self, run: SubmittedRun, job: str) -> bool:
        """Delete the objects of a run that ended; the result and the log are kept here."""
        self.cancel(run, job)
        return True


def _runner_pod(job: str) -> str:
    """Name of the pod that leads a run."""
    return f"{job}-runner"


def _keep_printed(run: SubmittedRun, job: str, *part: str) -> bool:
    """Put the log, the events and the result where those of other runs are, if there is a pod."""
    try:
        log = _kubectl(run, ["logs", f"pod/{_runner_pod(job)}", "--container=dhsic", *part])
    except ClusterError as error:
        if _NOT_FOUND in str(error):
            return False
        raise
    # Kept here, since the log is gone with its pod.
    run.keep(run.log.name, log)
    # The last marker counts: the command may have printed the same line.
    printed, marker, result = log.rpartition(f"\n{RESULT}\n")
    lines = (printed if marker else log).splitlines(keepends=True)
    run.keep(run.journal.name, "".join(line for line in lines if line.startswith("{")))
    # A pod that was killed may have printed half a result.
    if marker and _is_json(result):
        run.keep(run.result.name, result)
    return True


def _kubectl(run: SubmittedRun, words: Sequence[str], given: str | None = None) -> str:
    section = _section_of_run(run)
    options = {"context": section.context, "namespace": section.namespace}
    chosen = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return call(["kubectl", *chosen, *words], _MISSING, given)


def _configured(*words: str) -> str | None:
    """Configuration of the user; None inside a pod, which has none."""
    with suppress(ClusterError):
        return call(["kubectl", "config", *words], _MISSING).strip() or None
    return None


def _section_of_run(run: SubmittedRun) -> Kubernetes:
    assert run.spec.kubernetes is not None
    return run.spec.kubernetes


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True
