"""One job that leads the test and asks SLURM for the jobs of its workers.

A single job with `srun` for scheduler and workers would hold all processors from the first minute
to the last, and would end with its first lost node. Jobs of one worker start in gaps of the queue,
come and go with the work and are replaced when their time is over. Shortly before its own time is
over the job that leads interrupts the test and queues itself again, to go on from the checkpoint.
"""

from __future__ import annotations

import dataclasses
import math
import re
import shlex
import sys

from dhsic.cluster import checks
from dhsic.cluster.sections import JobQueue
from dhsic.cluster.settings import job_limit
from dhsic.cluster.submit.base import Phase
from dhsic.cluster.submit.quoting import directive, shell_line
from dhsic.cluster.submit.runs import SubmittedRun
from dhsic.cluster.submit.tools import call
from dhsic.errors import ClusterError

_MISSING = "run this where SLURM's commands are, such as a login node"
_JOB = re.compile(r"(\d+(?:;[\w.-]+)?)\s*")
# States by what they mean for a run: one that was queued again waits once more.
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SUSPENDED")
_RUNNING = ("RUNNING", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
_GONE = "Invalid job id"
_SECONDS_TO_LEAVE = 60
# A test that gets nowhere must not queue itself for ever.
_MOST_RESTARTS = 50
_INTERRUPTED = 130  # the exit code of dhsic that leaves something to go on with

# A cancelled job sends SIGTERM to the test by itself, and a second one would keep it from cleaning.
_ENDING = f"""\
test=$!
again() {{
    kill -TERM "$test"
    wait "$test"
    code=$?
    ((code == {_INTERRUPTED} && ${{SLURM_RESTART_COUNT:-0}} < {_MOST_RESTARTS})) &&
        scontrol requeue "$SLURM_JOB_ID"
    exit "$code"
}}
trap again USR1
trap : TERM
wait "$test"
code=$?
((code == 143)) && {{ wait "$test"; code=$?; }}
exit "$code"
"""


class SlurmQueue:
    """Runs on SLURM."""

    def prepare(self, run: SubmittedRun) -> SubmittedRun:
        """Let workers have the name and the folder of the run, where no other is given.

        Nobody sits before it, so workers are waited for as long as the job that leads may last.
        """
        jobs = run.spec.jobs
        assert jobs is not None
        checks.plain_path("--runs", run.folder.parent)
        logs = jobs.log_directory or str(run.folder / "workers")
        shared = jobs.shared_directory or str(run.folder)
        name = jobs.name or f"{run.name}-worker"
        jobs = dataclasses.replace(jobs, name=name, log_directory=logs, shared_directory=shared)
        # Workers may wait in the queue for as long as the job that leads lives.
        timeout = run.spec.timeout or float(jobs.seconds)
        return dataclasses.replace(
            run, spec=dataclasses.replace(run.spec, jobs=jobs, timeout=timeout)
        )

    def render(self, run: SubmittedRun) -> str:
        """The script of the job that leads the test."""
        return _job_script(run)

    def submit(self, run: SubmittedRun, text: str) -> str:
        """Hand the script to sbatch."""
        # From stdin: a script in a file could change before the queue reads it.
        said = call(["sbatch", "--parsable"], _MISSING, given=text)
        match = _JOB.fullmatch(said)
        if match is None:
            msg = f"sbatch must answer with the number of a job, got {said[:80]!r}"
            raise ClusterError(msg)
        return match[1]

    def phase(self, run: SubmittedRun, job: str) -> Phase:
        """Ask squeue."""
        number, *options = _job_options(job)
        words = ["squeue", *options, "--noheader", "--format=%T", f"--jobs={number}"]
        try:
            said = call(words, _MISSING).split()
        except ClusterError as error:
            if _GONE in str(error):
                return "ended"
            raise
        # The last word: where there are several clusters, squeue prints a line with the name first.
        state = said[-1] if said else ""
        return "waiting" if state in _WAITING else "running" if state in _RUNNING else "ended"

    def trouble(self, run: SubmittedRun, job: str, phase: Phase) -> str | None:
        """Nothing: a queue of jobs says no more than where they stand."""
        return None

    def cancel(self, run: SubmittedRun, job: str) -> None:
        """End the job that leads; it ends those of its workers."""
        number, *options = _job_options(job)
        call(["scancel", *options, number], _MISSING)

    def clear(self, run: SubmittedRun, job: str) -> bool:
        """Nothing: SLURM forgets jobs by itself."""
        return False


def _job_options(job: str) -> list[str]:
    """The number of a job, and where one of several clusters has it, the option that says which."""
    number, _, cluster = job.partition(";")
    return [number, f"--clusters={cluster}"] if cluster else [number]


def _job_script(run: SubmittedRun) -> str:
    """Render the script of the job that leads a test."""
    jobs = run.spec.jobs
    assert jobs is not None
    python = jobs.python or sys.executable
    parts = [
        "#!/bin/bash",
        *_head(run, jobs),
        "",
        "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1",
        # Where the command was typed, since paths of data may be relative to it.
        f"cd -- {shlex.quote(run.directory)} || exit 1",
        *jobs.prologue,
        f"{shell_line([python, '-m', 'dhsic', *_client_words(run)])} &",
        _ENDING,
    ]
    return "\n".join(parts)


def _client_words(run: SubmittedRun) -> list[str]:
    """The command with where it runs and what it leaves behind; a later `--` ends no option."""
    ours = {"cluster": "cluster.yaml", "json": run.result.name, "log-json": run.journal.name}
    if run.checkpoint:
        ours["checkpoint"] = "checkpoint"
    options = [
        word for name, file in ours.items() for word in (f"--{name}", str(run.folder / file))
    ]
    return [run.command[0], *options, *run.command[1:]]


def _head(run: SubmittedRun, jobs: JobQueue) -> list[str]:
    options: dict[str, object] = {
        "job-name": run.name,
        "output": run.log,
        # A job that was queued again goes on in the same log.
        "open-mode": "append",
        "ntasks": 1,
        "cpus-per-task": 1,
        "mem": f"{math.ceil(job_limit(run.spec.memory) / 2**20)}M",
        "time": jobs.walltime,
        "partition": jobs.queue,
        "account": jobs.account,
        # B: signals the script alone, which ends the test and waits for it.
        "signal": f"B:USR1@{min(_SECONDS_TO_LEAVE, jobs.seconds // 4)}",
    }
    given = [directive(option, value) for option, value in options.items() if value is not None]
    return [*given, "#SBATCH --requeue", *(f"#SBATCH {line}" for line in jobs.directives)]
