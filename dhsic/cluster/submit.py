"""Render, submit, follow and cancel runs of commands of dhsic, which a queue starts.

A run is one job that leads: it runs the command line and asks for the jobs of its workers. A single
job with scheduler and workers would hold all processors from the first minute to the last, and
would end with its first lost node. Jobs of one worker start in gaps of the queue, come and go with
the work and are replaced when their time is over. Shortly before its own time is over the job that
leads interrupts the command and queues itself again, to go on from the checkpoint.

A sweep is many commands that differ in some values: an array of jobs, each of the size of a worker
and as many at a time as there would be workers. Its jobs ask for no others, which could wait for
ever behind their like.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from dhsic._files import parse_json, write_whole
from dhsic._validation import nearest
from dhsic.cluster.spec import (
    ClusterSpec,
    job_arguments,
    manifests,
    on_node,
    plain_path,
    queue_class,
    refuse,
    yaml_text,
)
from dhsic.errors import ClusterError, InvalidArgumentError
from dhsic.io.urls import redacted

Standing = Literal["not submitted", "waiting", "running", "finished", "failed", "cancelled"]

_FORMAT = 3
_IDENTITY = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
_SECONDS_TO_LEAVE = 60
_SECONDS, _SHOWN, _TAIL = 60.0, 200, 50


_HERE = Path(__file__).parent
QUEUES: dict[str, dict[str, Any]] = yaml.safe_load((_HERE / "queues.yaml").read_text("utf-8"))
_PODS, _INDEX = QUEUES["kubernetes"], "batch.kubernetes.io/job-completion-index"


class Task(NamedTuple):
    """One command of a run.

    Parameters
    ----------
    given : tuple of str
        The words after ``dhsic``, as the user gave them.
    words : tuple of str
        The same with where it runs and what it leaves behind.
    values : tuple of str
        What it differs in from other commands of a sweep.
    folder : Path
        Folder of its files.
    """

    given: tuple[str, ...]
    words: tuple[str, ...]
    values: tuple[str, ...]
    folder: Path

    def code(self) -> int | None:
        """The exit code of a command that ended."""
        # A list is fresh where a shared disk remembers a miss.
        if "exit" not in os.listdir(self.folder):
            return None
        said = (self.folder / "exit").read_text("utf-8").strip()
        return int(said) if said.isdigit() else None


@dataclass(frozen=True)
class SubmittedRun:
    """A command that a queue starts, or a sweep of them.

    Parameters
    ----------
    identity : str
        Name that the user knows it by.
    words : sequence of str
        The words after ``dhsic``.
    depth : int
        How many of them name the command.
    takes : sequence of str
        Options of the command that the run gives it: where it runs, and what it leaves behind.
    each : dict
        Values of each option in which the commands of a sweep differ.
    created : str
        Time of that, in UTC.
    folder : Path
        Folder of its files.
    spec : ClusterSpec
        Where its tasks run.
    """

    identity: str
    words: Sequence[str]
    depth: int
    takes: Sequence[str]
    each: dict[str, list[str]]
    created: str
    folder: Path
    spec: ClusterSpec

    @property
    def name(self) -> str:
        """Its name in the queue."""
        return f"dhsic-{self.identity}"

    @property
    def where(self) -> str:
        """The kind of its queue; processes here lead what runs elsewhere without a queue."""
        return self.spec.kind if self.spec.kind in QUEUES else "local"

    @property
    def script(self) -> Path:
        """File of what the queue was given."""
        return self.folder / ("manifests.yaml" if self.where == "kubernetes" else "job.sh")

    @property
    def led(self) -> bool:
        """Whether its command has workers beside it."""
        return "--cluster" in self.takes and not self.each

    def tasks(self) -> list[Task]:
        """The commands, of which there is one where it is no sweep."""
        pods, found = self.where == "kubernetes", []
        command = self.words[: self.depth]
        for number, values in enumerate(itertools.product(*self.each.values())):
            folder = self.folder / str(number) if self.each else self.folder
            here, base = (Path("/tmp"), Path("/tmp")) if pods else (folder, self.folder)
            ours: dict[str, Any] = {
                "--json": here / "result.json",
                "--log-json": "-" if pods else here / "journal.jsonl",
                "--checkpoint": here / "checkpoint",
            }
            if self.led:
                ours["--cluster"] = base / "cluster.yaml"
            else:
                ours |= {"--threads": self.spec.threads, "--memory": f"{self.spec.memory}B"}
            words = [str(word) for pair in ours.items() if pair[0] in self.takes for word in pair]
            rest, options = list(self.words[self.depth :]), []
            for name, value in zip(self.each, values, strict=True):
                placed = [word.replace(f"{{{name}}}", value) for word in rest]
                # Where the command does not say where a value belongs it is that of an option.
                options += [] if placed != rest else [f"--{name}", value]
                rest = placed
            # Before the words of the user, in which a `--` ends the options.
            given = (*command, *options, *rest)
            found.append(Task(given, (*command, *words, *options, *rest), values, folder))
        return found

    def write(self, text: str) -> None:
        """Make the folder, as a whole or not at all.

        Raises
        ------
        ClusterError
            The disk refuses.
        """
        partial = self.folder.with_name(f".{self.identity}.partial")
        facts = {key: getattr(self, key) for key in _FACTS} | {"format": _FORMAT}
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # For the user alone: commands name data, and the description of a cluster names hosts.
            partial.mkdir(mode=0o700)
            for task in self.tasks() if self.each else ():
                (partial / task.folder.name).mkdir()
            (partial / "cluster.yaml").write_text(yaml_text([self.spec.to_dict()]), "utf-8")
            (partial / self.script.name).write_text(text, "utf-8")
            (partial / "run.json").write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
            # It gets its name when all is written: who lists runs sees no half of one.
            partial.rename(self.folder)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            msg = (
                f"--runs must be a folder that can be written to, got {self.folder.parent}: "
                f"{error.strerror or error}"
            )
            raise ClusterError(msg) from error


def job_in(folder: Path) -> str | None:
    """The queue's name of a job, that of a run or of one task; None before a queue took it."""
    with suppress(FileNotFoundError):
        return (folder / "job").read_text("utf-8").strip()
    return None


_FACTS = ("identity", "words", "depth", "takes", "each", "created")


def new_run(
    words: Sequence[str],
    depth: int,
    takes: Sequence[str],
    each: Mapping[str, list[str]],
    spec: ClusterSpec,
    runs: Path,
) -> SubmittedRun:
    """Name a run, of which nothing is written yet, and all of its cluster that is left open."""
    for word in (*words, *itertools.chain(*each.values())):
        if "\0" in word or word.encode("utf-8", "ignore").decode() != word:
            refuse("a word of a command", "text", word, "rename it")
        if redacted(word) != word:
            requirement = "one with no password or signature, since it is written to files"
            refuse("a word of a command", requirement, word, "use the environment of the job")
    now = datetime.now(UTC)
    # Names sort by time; random digits keep those of one second apart.
    identity = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    created, folder = now.isoformat(timespec="seconds"), runs / identity
    if spec.kind != "kubernetes":
        plain_path("--runs", runs)
    if spec.jobs is not None:
        # Workers have the name and the folder of the run, where no other is given. Nobody sits
        # before it, so that they are waited for as long as the job that leads may last.
        own: dict[str, Any] = {
            "name": f"dhsic-{identity}-worker",
            "log_directory": str(folder / "workers"),
            "shared_directory": str(folder),
        }
        own = {key: value for key, value in own.items() if getattr(spec.jobs, key) is None}
        timeout = spec.timeout or float(spec.jobs.seconds)
        spec = dataclasses.replace(
            spec, jobs=dataclasses.replace(spec.jobs, **own), timeout=timeout
        )
    if spec.kubernetes is not None:
        # Written down now: the user may have changed to another cluster when asking for the result.
        section = spec.kubernetes
        context = section.context or _configured("current-context")
        shown = ("view", "--minify", "--output=jsonpath={.contexts[0].context.namespace}")
        given = () if context is None else (f"--context={context}",)
        namespace = section.namespace or _configured(*shown, *given)
        section = dataclasses.replace(section, context=context, namespace=namespace)
        spec = dataclasses.replace(spec, kubernetes=section)
    return SubmittedRun(identity, words, depth, takes, dict(each), created, folder, spec)


def runs_folder(chosen: Path | None) -> Path:
    """Folder of all runs: the one given, or that of the user's state."""
    if chosen is not None:
        return chosen.absolute()
    state = os.environ.get("XDG_STATE_HOME", "")
    # The specification of these folders says that relative ones are ignored.
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "dhsic" / "runs"


def find_run(runs: Path, identity: str) -> SubmittedRun:
    """Read a run.

    Raises
    ------
    InvalidArgumentError
        There is none of this name.
    ClusterError
        Its folder cannot be read.
    """
    # By the list of names, so that no text of the user becomes part of a path.
    known = _identities(runs)
    if identity not in known:
        there = "see 'dhsic runs'" if known else "there are none yet"
        msg = (
            f"RUN must be a run in {runs}, got {identity[:80]!r}{nearest(identity, known)}; {there}"
        )
        raise InvalidArgumentError(msg)
    return _read_run(runs / identity)


def _read_run(folder: Path) -> SubmittedRun:
    try:
        facts = parse_json((folder / "run.json").read_text("utf-8"))
        if facts.pop("format") != _FORMAT:
            raise ValueError(_FORMAT)
        return SubmittedRun(**facts, folder=folder, spec=ClusterSpec.read(folder / "cluster.yaml"))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        msg = f"run {folder.name} cannot be read: remove {folder} if it is not needed"
        raise ClusterError(msg) from error


def list_runs(runs: Path) -> list[SubmittedRun]:
    """All runs that can be read, the latest first."""
    found = []
    for identity in sorted(_identities(runs), reverse=True):
        # One of an earlier version, or a broken one, does not hide the others.
        with suppress(ClusterError):
            found.append(_read_run(runs / identity))
    return found


def _identities(runs: Path) -> list[str]:
    try:
        return [path.name for path in runs.iterdir() if _IDENTITY.fullmatch(path.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        msg = f"--runs must be a folder that can be read, got {runs}: {error.strerror}"
        raise ClusterError(msg) from error


# --- what a queue is given


def render(run: SubmittedRun) -> str:
    """All that the queue is given: the script of a job, or the manifests of Kubernetes."""
    tasks = run.tasks()
    if run.where == "kubernetes":
        script = _filled("pod.sh", choice=_choice(run, QUEUES[run.where]["index"]))
        role: Literal["leads", "alone"] = "leads" if run.led else "alone"
        return yaml_text(manifests(run.name, run.spec, role, script, len(tasks)))
    queue, jobs = QUEUES[run.where], run.spec.jobs
    python, timer = sys.executable, ""
    # Elsewhere than in a queue it has no time that could be over.
    if jobs is not None and "--checkpoint" in tasks[0].words:
        seconds = jobs.seconds - min(_SECONDS_TO_LEAVE, jobs.seconds // 4)
        timer = f"sleep {seconds} &\ntimer=$!"
    if jobs is not None and jobs.python is not None:
        python = jobs.python
    return _filled(
        "job.sh",
        head=_head(run, queue),
        directory=shlex.quote(os.getcwd()),
        prologue="" if jobs is None else "\n".join(jobs.prologue),
        folder=shlex.quote(str(run.folder)) + ("/$task" if run.each else ""),
        index=queue["index"] if run.each else "",
        choice=_choice(run, "$task"),
        python=on_node(python),
        timer=timer,
        again=queue["again"].format(script=shlex.quote(str(run.script))),
    )


def _filled(name: str, **texts: str) -> str:
    """A script with texts in the place of their names."""
    script = (_HERE / name).read_text("utf-8")
    # At once, since words of the user may look like a name; a line without text goes.
    return re.sub(
        r"@(\w+)@(\n?)", lambda found: texts[found[1]] + found[2] * bool(texts[found[1]]), script
    )


_PRINTED = re.compile(
    r"(.*\n)?=== output ===\n(.*)\n=== result ===\n(.*)\n=== exit (\d+) ===\n*", re.S
)


def _choice(run: SubmittedRun, index: str) -> str:
    """Shell that sets the words of the command, by the number of a task of a sweep."""
    lines = [f"set -- {shlex.join(task.words)}" for task in run.tasks()]
    if not run.each:
        return lines[0]
    cases = [f"{number}) {line} ;;" for number, line in enumerate(lines)]
    return "\n".join([f"case {index} in", *cases, "esac"])


def _head(run: SubmittedRun, queue: dict[str, Any]) -> str:
    """The head that dask-jobqueue writes for a worker, with options of a job that leads."""
    jobs = run.spec.jobs
    if jobs is None:
        return "#!/usr/bin/env bash"
    # The job that leads has a thread; one of a sweep is as large as a worker.
    own = run.spec if run.each else dataclasses.replace(run.spec, threads=1)
    arguments = job_arguments(own, None)
    for name in ("scheduler_options", "silence_logs", "log_directory"):
        arguments.pop(name, None)
    log = plain_path("--runs", run.folder / "job.log")
    arguments["job_name"] = run.name
    arguments["job_extra_directives"] = [
        *(option.format(log=log) for option in queue["head"]),
        *jobs.directives,
    ]
    try:
        job = queue_class(run.where).job_cls("tcp://", name=run.name, **arguments)
    except TypeError as error:
        requirement = f"arguments of dask-jobqueue for {run.where}"
        refuse("options", requirement, dict(jobs.options), str(error))
    return f"{job.shebang}\n{job.job_header}"


# --- asking queues


def submit_run(run: SubmittedRun, text: str) -> str:
    """Hand over what was rendered; nothing is left of a run that was refused.

    Parameters
    ----------
    run : SubmittedRun
        The run, whose folder is made.
    text : str
        As `render` makes it.

    Returns
    -------
    str
        The queue's name of the job.

    Raises
    ------
    ClusterError
        The queue refuses.
    """
    # Before the queue is asked, which may start the job at once.
    run.write(text)
    queue = QUEUES[run.where]
    words = queue["sweep"] if run.each else queue["submit"]
    try:
        count, most = len(run.tasks()), run.spec.bounds.maximum
        # From stdin: a script in a file could change before the queue reads it.
        said = _asked(run, words, given=text, last=count - 1, count=count, most=most)
        if (match := re.search(queue["job"], said)) is None:
            msg = f"{run.where} must answer with the number of a job, got {said[:80]!r}"
            raise ClusterError(msg)
    except BaseException as error:
        try:
            if run.where == "kubernetes" and isinstance(error, ClusterError):
                with suppress(ClusterError):
                    # kubectl applies one object after another: those before the refusal are there.
                    end_job(run, run.name)
        finally:  # also where Ctrl-C ends the wait for kubectl
            shutil.rmtree(run.folder, ignore_errors=True)
        for reason, remedy in queue.get("refused", {}).items():
            if reason in str(error):
                raise ClusterError(remedy) from error
        raise
    job = match[0] or run.name
    try:
        write_whole(run.folder / "job", f"{job}\n")
    except BaseException:
        # A job that no folder names could not be found again.
        end_job(run, job)
        raise
    return job


def _asked(run: SubmittedRun, words: str, job: str = "", given: str = "", **values: Any) -> str:
    """What a program of the queue says."""
    number, _, cluster = job.partition(";")
    texts = {
        "job": number,
        "name": run.name,
        "script": run.script,
        "log": run.folder / "job.log",
        "python": sys.executable,
        "kind": "daskjob" if run.led else "job",
        "kinds": "daskjob,daskautoscaler,networkpolicy" if run.led else "job,networkpolicy",
        **values,
    }
    # Where there are several clusters of SLURM, the name of the job says in which it is.
    place = {"clusters": cluster or None}
    if (section := run.spec.kubernetes) is not None:
        place = {"context": section.context, "namespace": section.namespace}
    chosen = [f"--{name}={value}" for name, value in place.items() if value is not None]
    program, *rest = (word.format(**texts) for word in shlex.split(words))
    return call([program, *chosen, *rest], f"run this where {run.where} is reached", given)


def standings(run: SubmittedRun) -> list[Standing]:
    """Ask the queue, and look at what the commands left behind: where each of them stands."""
    tasks, job = run.tasks(), job_in(run.folder)
    if job is None:
        return ["not submitted" for _ in tasks]
    phase: Standing | Literal["ended"] = "ended"
    # Its own files first: a queue may be silent, and forgets jobs after a while.
    if any(task.code() is None for task in tasks):
        phase = _phase(run, job)
    over: Standing = "cancelled" if (run.folder / "cancelled").exists() else "failed"
    found: list[Standing] = []
    for task in tasks:
        # It may have ended between the first look and the answer.
        if (code := task.code()) is not None:
            interrupted = code in (130, 143)
            found.append(over if interrupted else "failed" if code else "finished")
            continue
        # One of a sweep may have submitted itself as a job of its own.
        own = job_in(task.folder) if run.each else None
        now = phase if own is None else _phase(run, own)
        begun = not run.each or any(task.folder.iterdir())
        found.append(over if now == "ended" else now if begun else "waiting")
    return found


def _phase(run: SubmittedRun, job: str) -> Literal["waiting", "running", "ended"]:
    queue = QUEUES[run.where]
    try:
        said = _asked(run, queue["query"], job)
    except ClusterError as error:
        if re.search(queue["gone"], str(error)):
            return "ended"
        raise
    pattern = queue["state"].replace("{job}", re.escape(job)).replace("{name}", run.identity)
    states = re.findall(pattern, said, re.MULTILINE)
    going = f"{queue['running']}|{queue['waiting']}"
    ended = not any(re.fullmatch(going, state) for state in states)
    # Some jobs of an array may wait while others run.
    if not ended and not run.each and all(re.fullmatch(queue["waiting"], one) for one in states):
        return "waiting"
    # Nobody tells the operator of Kubernetes of a pod that is gone.
    gone = run.where == "kubernetes" and not _keep_printed(run, job, _TAIL if not ended else -1)
    return "ended" if ended or (gone and run.led) else "running"


def cancel_run(run: SubmittedRun, job: str) -> None:
    """End the job and all that it started; what it has done stays in its folder."""
    mark = run.folder / "cancelled"
    mark.touch()  # first, or who follows it sees a failure
    own = (job_in(task.folder) for task in run.tasks() if run.each)
    try:
        for each in (job, *filter(None, own)):
            end_job(run, each)
    # Nothing was cancelled, so that the run is as before.
    except BaseException:
        mark.unlink()
        raise


def end_job(run: SubmittedRun, job: str) -> None:
    """End a job, or remove what it left in the queue."""
    _asked(run, QUEUES[run.where]["cancel"], job)


def call(words: Sequence[str], missing: str, given: str = "") -> str:
    """Run a program and return what it prints.

    Parameters
    ----------
    words : sequence of str
        The program and its arguments.
    missing : str
        Remedy where the program is absent.
    given : str, optional
        Its standard input.

    Returns
    -------
    str
        Its standard output.

    Raises
    ------
    ClusterError
        It is not there, it failed or it did not answer.
    """
    program = words[0]
    try:
        # An empty input, or a program that asks a question would wait for the terminal.
        done = subprocess.run(
            words, input=given, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except OSError as error:
        msg = f"{program} is needed and cannot be started ({error.strerror}): {missing}"
        raise ClusterError(msg) from error
    except subprocess.TimeoutExpired as error:
        msg = f"{program} did not answer within {_SECONDS:g} s: try again later"
        raise ClusterError(msg) from error
    except subprocess.CalledProcessError as error:
        # Some programs state the reason on stdout, and Python in its last line.
        said = " ".join((error.stderr or error.stdout or "no reason given").split())
        msg = f"{program} failed with exit code {error.returncode}: {said[-_SHOWN:]}"
        raise ClusterError(msg) from error
    return done.stdout


# --- pods of Kubernetes


def _configured(*words: str) -> str | None:
    """Configuration of the user; None inside a pod, which has none."""
    with suppress(ClusterError):
        return call(["kubectl", "config", *words], "").strip() or None
    return None


def _pods(run: SubmittedRun, job: str) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = parse_json(_asked(run, _PODS["pods"], job))["items"]
    return pods


def _keep_printed(run: SubmittedRun, job: str, tail: int) -> bool:
    """Put what pods printed where files of other runs are; whether there is a pod that leads."""
    leaders = [(f"{job}-runner", "0", tail)] if run.led else []
    for one in () if run.led else _pods(run, job):
        number = one["metadata"].get("annotations", {})[_INDEX]
        # The result of a task that ended may be longer than the tail, while others still run.
        ended = one.get("status", {}).get("phase") in ("Succeeded", "Failed")
        leaders.append((one["metadata"]["name"], number, -1 if ended else tail))
    tasks, found = run.tasks(), False
    for pod, number, lines_read in leaders:
        task = tasks[int(number)]
        found = True
        if task.code() is not None:
            continue
        try:
            # Kept here, since the log is gone with its pod.
            log = _asked(run, _PODS["log"], pod=pod, tail=lines_read)
        except ClusterError as error:
            if re.search(_PODS["gone"], str(error)):
                found = False
                continue
            raise
        # The last markers count: the command may have printed the same lines, and a pod that was
        # killed half a result.
        match = _PRINTED.fullmatch(log)
        before, output, result, code = match.groups() if match else (log, "", "", "")
        lines = (before or "").splitlines(keepends=True)
        texts = {
            "error.log": "".join(line for line in lines if not line.startswith("{")),
            "journal.jsonl": "".join(line for line in lines if line.startswith("{")),
            "output.txt": output,
            "result.json": result,
            "exit": code,
        }
        for name, text in texts.items():
            if text:
                write_whole(task.folder / name, text)
    return found


def trouble(run: SubmittedRun, *, ended: bool) -> str | None:
    """Look at the pods, as far as the user may: why some do not run, the most important first.

    Parameters
    ----------
    run : SubmittedRun
        The run.
    ended : bool
        Whether it has no result and no job that could give one.

    Returns
    -------
    str or None
        The name of a pod, what is wrong and what to do; None where nothing is known.
    """
    job, pods = job_in(run.folder), []
    if run.where == "kubernetes" and job is not None:
        with suppress(ClusterError):
            pods = _pods(run, job)
            leader = f"{job}-runner"
            if ended and run.led and leader not in (pod["metadata"]["name"] for pod in pods):
                return (
                    f"its pod {leader} is gone, with its node or because somebody deleted it: "
                    f"remove the rest by 'dhsic cancel {run.identity}' and submit again; a test "
                    "with --checkpoint goes on from there"
                )
    roles = [*_PODS["order"], None]

    def place(pod: dict[str, Any]) -> int:
        role = pod["metadata"].get("labels", {}).get("dask.org/component")
        return roles.index(role if role in roles else None)

    # The first remedy is enough: others often follow from it.
    return next(filter(None, map(_trouble_of_pod, sorted(pods, key=place))), None)


def _trouble_of_pod(pod: dict[str, Any]) -> str | None:
    name, status = pod["metadata"]["name"], pod.get("status", {})
    unmet = [one for one in status.get("conditions", []) if one["status"] == "False"]
    containers = [one.get("state", {}) for one in status.get("containerStatuses", [])]
    for place in (status, *unmet, *(state for one in containers for state in one.values())):
        if (reason := place.get("reason")) in _PODS["remedies"]:
            said = " ".join(place.get("message", "").split())[:_SHOWN]
            detail = f" ({said})" if said else ""
            return f"pod {name}: {reason}{detail}: {_PODS['remedies'][reason].format(pod=name)}"
    return None
