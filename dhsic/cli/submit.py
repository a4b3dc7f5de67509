"""``dhsic submit``: hand a test to a queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from dhsic._progress import progress_bar
from dhsic.cli.run_status import follow
from dhsic.cli.runs import finish, runs_option
from dhsic.cli.table import COMMANDS
from dhsic.cluster import ClusterSpec
from dhsic.cluster.submit import QUEUES, QueueName, RunState, SubmittedRun, runs_folder
from dhsic.cluster.submit.quoting import check_words
from dhsic.errors import InvalidArgumentError
from dhsic.io.urls import is_url

Command = TypeVar("Command", bound=Callable[..., Any])

_SPEC = "the file of --spec says where the test runs"
# Files of a run lie in its folder, and where it runs is in the file: both are not to be said twice.
_RESERVED = {
    "--json": "the result is kept with the run, see 'dhsic result --json'",
    "--log-json": "the events are kept with the run",
    "--report": "it is written on the machine that leads the test; take 'dhsic result --json'",
    "--performance-report": "it would be written on the machine that leads the test",
    **dict.fromkeys(("--threads", "--workers", "--scheduler", "--scheduler-file"), _SPEC),
    **dict.fromkeys(("--tls-ca", "--tls-cert", "--tls-key", "--insecure"), _SPEC),
    **dict.fromkeys(("--cluster", "--memory"), _SPEC),
}

_OPTIONS = (
    click.option(
        "--spec",
        type=click.Path(path_type=Path),
        required=True,
        metavar="CLUSTER.yaml",
        help="Description of the cluster.",
    ),
    runs_option,
    click.option(
        "--render-only", is_flag=True, help="Print what would be submitted, and submit nothing."
    ),
    click.option(
        "--detach",
        is_flag=True,
        help="Print the name of the run and return; otherwise wait for the result.",
    ),
    click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- test DATA ..."),
)


def _queue_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.group(short_help="Hand a test to SLURM or Kubernetes.")
def submit() -> None:
    """Hand a test to a queue, and wait for its result or come back for it.

    A run has a name and a folder, which 'dhsic status', 'dhsic result' and 'dhsic cancel' know.
    """


@submit.command(
    short_help="Submit a test to SLURM.",
    epilog="""\b
Example
  dhsic submit slurm --spec cluster.yaml -- \\
      test songs.zarr --variable features --variable year
""",
    context_settings={"allow_interspersed_args": False},
)
@_queue_options
def slurm(**options: Any) -> None:
    """Submit a job to SLURM that runs a test on workers that are jobs too.

    The test keeps a checkpoint in the folder of the run unless it names another one.
    """
    _submit_to("slurm", **options)


@submit.command(
    short_help="Submit a test to Kubernetes.",
    epilog="""\b
Example
  dhsic submit kubernetes --spec cluster.yaml -- \\
      test s3://bucket/songs.zarr --variable features --variable year
""",
    context_settings={"allow_interspersed_args": False},
)
@_queue_options
def kubernetes(**options: Any) -> None:
    """Submit a DaskJob to Kubernetes, where the Dask operator starts pods for it.

    Data, and a checkpoint where one is wanted, must be URLs that the pods can read.
    """
    _submit_to("kubernetes", **options)


def _submit_to(
    queue_name: QueueName,
    spec: Path,
    runs: Path | None,
    render_only: bool,
    detach: bool,
    command: Sequence[str],
) -> None:
    if render_only and detach:
        msg = "--render-only submits nothing that could be detached: give one of them"
        raise click.UsageError(msg)
    # All is judged before anything is written or submitted.
    cluster = _read_spec(spec, queue_name)
    words, own_checkpoint = _read_command(command, queue_name)
    # A job is killed at its limit of time and queued again, to go on from the folder of the run,
    # which pods do not see.
    checkpoint = queue_name == "slurm" and not own_checkpoint
    queue = QUEUES[queue_name]
    run = queue.prepare(
        SubmittedRun.new(queue_name, words, cluster, runs_folder(runs), checkpoint=checkpoint)
    )
    text = queue.render(run)
    if render_only:
        click.echo(text, nl=False)
        return
    job = _handed_over(run, text)
    if detach:
        click.echo(run.identity)
        return
    # Stdout has the result alone.
    click.echo(f"run {run.identity}, {queue_name} job {job}", err=True)
    try:
        with progress_bar() as bar:
            now = follow(run, bar)
    # Ctrl-C ends the watch and not the run.
    except KeyboardInterrupt:
        click.echo(f"the run goes on: see 'dhsic status {run.identity}'", err=True)
        raise
    finish(run, now)


def _handed_over(run: SubmittedRun, text: str) -> str:
    """Submit a run; nothing is left of one that was not, and no job that has no folder."""
    queue = QUEUES[run.queue]
    # Before the queue is asked, which may start the job at once.
    run.write(text)
    try:
        job = queue.submit(run, text)
    except BaseException:
        run.discard()
        raise
    try:
        run.tell(RunState(job))
    except BaseException:
        # A job that no folder names could not be found again.
        queue.cancel(run, job)
        raise
    return job


def _read_spec(path: Path, queue_name: QueueName) -> ClusterSpec:
    spec = ClusterSpec.read(path)
    if spec.kind != queue_name:
        msg = (
            f"'dhsic submit {queue_name}' needs a cluster of the kind {queue_name}, and {path} has "
            f"the kind {spec.kind}: give another file"
        )
        raise InvalidArgumentError(msg)
    return spec


def _read_command(words: Sequence[str], queue_name: QueueName) -> tuple[tuple[str, ...], bool]:
    """Let the command judge its own options now, and not after hours in a queue."""
    words = check_words(words)
    if words[:1] != ("test",):
        got = f"got {words[0][:80]!r}" if words else "got nothing"
        msg = f"give a test to submit, as -- test DATA --variable x --variable y; {got}"
        raise click.UsageError(msg)
    # With the parser of `test` itself, so that both refuse the same.
    test = COMMANDS["test"]
    context = test.make_context("dhsic test", list(words[1:]))
    options = context.params
    for parameter in test.params:
        _refuse_reserved(context, parameter)
    if queue_name == "kubernetes":
        _check_urls(options)
    with context:
        if not is_url(options["data"]):  # which perhaps only the nodes may read
            # Estimator and null need no data, and were judged already.
            test.judge(options)
    return words, options["checkpoint"] is not None


def _refuse_reserved(context: click.Context, parameter: click.Parameter) -> None:
    """Refuse an option that says what the run itself decides."""
    option = parameter.opts[0]
    given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    if given and option in _RESERVED:
        msg = f"{option} cannot be given to a test that is submitted: {_RESERVED[option]}"
        raise click.UsageError(msg)


def _check_urls(options: dict[str, Any]) -> None:
    for what, name in (("DATA", "data"), ("--checkpoint", "checkpoint")):
        value = options[name]
        if value is not None and not is_url(value):
            msg = (
                f"{what} must be a URL that pods can read, as s3://bucket/songs.zarr; got {value!r}"
            )
            raise click.UsageError(msg)
