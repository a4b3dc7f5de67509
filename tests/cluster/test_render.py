"""Job scripts: the whole text, and words that a shell must not read as anything else."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dhsic.cluster import ClusterSpec
from dhsic.cluster.submit import QUEUES, SubmittedRun
from dhsic.cluster.submit.quoting import check_words, container_words, directive
from dhsic.errors import InvalidArgumentError

COMMAND = ("test", "songs of '69.zarr", "--variable", "x=features[:, 0:12]", "--variable", "year")
HOSTILE = [
    "",
    " ",
    "'",
    '"',
    "''\"''",
    "a\nb",
    "\n#SBATCH --uid=0\n",
    "$(touch pwned)",
    "`touch pwned`",
    "${HOME}",
    "$HOME",
    "$",
    "$$",
    "x; touch pwned",
    "x && touch pwned",
    "x\\",
    "\\'",
    "!!",
    "*",
    "~",
    "--",
    "-",
    "--json=/etc/passwd",
    "\r",
    "\t",
    "é ü 中",
    "\x1b[2J",
    "#",
    "a=b",
    "<(touch pwned)",
    "| touch pwned",
    "{a,b}",
]
WORDS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=40
).filter(lambda word: "://" not in word)


def slurm_run(tmp: Path, command: tuple[str, ...] = COMMAND, **jobs: Any) -> SubmittedRun:
    description = {"kind": "slurm", "workers": 4, "memory": "3GiB", "slurm": jobs}
    run = SubmittedRun.new(
        "slurm", command, ClusterSpec.from_dict(description), tmp, checkpoint=True
    )
    run = dataclasses.replace(
        run,
        identity="20260102-030405-abcdef",
        folder=tmp / "20260102-030405-abcdef",
        directory="/home/me/my songs",
    )
    return QUEUES["slurm"].prepare(run)


def test_job_script__is_rendered_in_full() -> None:
    run = slurm_run(
        Path("/home/me/runs"),
        queue="long",
        account="lab",
        walltime="1-02:00:00",
        prologue=["module load python", "source env/bin/activate"],
        directives=["--constraint=avx2"],
        python="/opt/py thon/bin/python",
    )
    assert QUEUES["slurm"].render(run) == (
        "#!/bin/bash\n"
        "#SBATCH --job-name=dhsic-20260102-030405-abcdef\n"
        "#SBATCH --output=/home/me/runs/20260102-030405-abcdef/job.log\n"
        "#SBATCH --open-mode=append\n"
        "#SBATCH --ntasks=1\n"
        "#SBATCH --cpus-per-task=1\n"
        "#SBATCH --mem=4299M\n"
        "#SBATCH --time=1-02:00:00\n"
        "#SBATCH --partition=long\n"
        "#SBATCH --account=lab\n"
        "#SBATCH --signal=B:USR1@60\n"
        "#SBATCH --requeue\n"
        "#SBATCH --constraint=avx2\n"
        "\n"
        "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1\n"
        "cd -- '/home/me/my songs' || exit 1\n"
        "module load python\n"
        "source env/bin/activate\n"
        "'/opt/py thon/bin/python' -m dhsic test"
        " --cluster /home/me/runs/20260102-030405-abcdef/cluster.yaml"
        " --json /home/me/runs/20260102-030405-abcdef/result.json"
        " --log-json /home/me/runs/20260102-030405-abcdef/journal.jsonl"
        " --checkpoint /home/me/runs/20260102-030405-abcdef/checkpoint"
        " 'songs of '\"'\"'69.zarr' --variable 'x=features[:, 0:12]' --variable year &\n"
        "test=$!\n"
        "again() {\n"
        '    kill -TERM "$test"\n'
        '    wait "$test"\n'
        "    code=$?\n"
        "    ((code == 130 && ${SLURM_RESTART_COUNT:-0} < 50)) &&\n"
        '        scontrol requeue "$SLURM_JOB_ID"\n'
        '    exit "$code"\n'
        "}\n"
        "trap again USR1\n"
        "trap : TERM\n"
        'wait "$test"\n'
        "code=$?\n"
        '((code == 143)) && { wait "$test"; code=$?; }\n'
        'exit "$code"\n'
    )


def test_job_script__leaves_out_what_was_not_asked_for(tmp_path: Path) -> None:
    run = dataclasses.replace(slurm_run(tmp_path), checkpoint=False)
    text = QUEUES["slurm"].render(run)
    for word in ("--partition", "--account", "--checkpoint"):
        assert word not in text
    assert f"\n{sys.executable} -m dhsic test " in text


def test_job_script__puts_files_of_workers_into_the_folder_unless_told(tmp_path: Path) -> None:
    jobs = slurm_run(tmp_path).spec.jobs
    assert jobs is not None
    folder = tmp_path / "20260102-030405-abcdef"
    assert jobs.log_directory == str(folder / "workers")
    assert jobs.shared_directory == str(folder)
    told = slurm_run(tmp_path, log_directory="/logs", shared_directory="/shared").spec.jobs
    assert told is not None
    assert (told.log_directory, told.shared_directory) == ("/logs", "/shared")


def test_job_script__calls_workers_after_the_run_unless_told(tmp_path: Path) -> None:
    names = [slurm_run(tmp_path, **given).spec.jobs for given in ({}, {"name": "mine"})]
    found = [jobs.name for jobs in names if jobs is not None]
    assert found == ["dhsic-20260102-030405-abcdef-worker", "mine"]


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program in place of Python that writes down how it was called."""
    path = tmp_path_factory.mktemp("bin") / "it's a $(python)"
    code = "import json, os, sys; print(json.dumps([os.getcwd(), sys.argv[1:]]))"
    path.write_text(f"#!{sys.executable} -I\n{code}\n")
    path.chmod(0o755)
    return path


def executed(script: str, directory: Path) -> tuple[str, list[str]]:
    done = subprocess.run(
        ["bash", "-s"],
        input=script.encode(),
        capture_output=True,
        check=True,
        cwd=directory,
        timeout=30,
    )
    assert done.stderr == b""
    where, words = json.loads(done.stdout)
    return where, words


def check_executed(words: list[str], recorder: Path, tmp: Path) -> None:
    directory = tmp / "a 'b' $(touch pwned)\nc"
    directory.mkdir(exist_ok=True)
    run = slurm_run(tmp / "runs", ("test", *words), python=str(recorder))
    run = dataclasses.replace(run, directory=str(directory))
    where, called = executed(QUEUES["slurm"].render(run), tmp)
    assert where == str(directory)
    assert called[:3] == ["-m", "dhsic", "test"]
    assert called[11:] == words
    assert not list(tmp.rglob("pwned"))


def test_job_script__carries_hostile_words_unchanged(recorder: Path, tmp_path: Path) -> None:
    check_executed(HOSTILE, recorder, tmp_path)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(words=st.lists(WORDS, max_size=5))
def test_job_script__carries_any_words_unchanged(
    words: list[str], recorder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_executed(words, recorder, tmp_path_factory.mktemp("any"))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "a b",
        "a\nb",
        "a\n#SBATCH --uid=0",
        "$(id)",
        "`id`",
        "a;b",
        "a'b",
        'a"b',
        "%j",
        "\\",
        "é",
    ],
)
def test_directive__refuses_what_sbatch_could_read_otherwise(value: str) -> None:
    with pytest.raises(InvalidArgumentError, match="partition of a job must be of letters"):
        directive("partition", value)


def test_job_script__refuses_a_folder_that_no_directive_can_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="--runs must be a path of plain"):
        slurm_run(tmp_path / "my runs")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("a\0b", "must be text"),
        ("\udcff", "must be text"),
        ("s3://key:secret@bucket/x.zarr", r"no password or signature, got 's3://\*\*\*@bucket"),
        ("https://host/x.zarr?X-Amz-Signature=abc", "no password or signature"),
        ("--checkpoint=s3://key:secret@bucket/x", "no password or signature"),
    ],
)
def test_words__that_no_file_may_hold(word: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as raised:
        check_words(("test", word))
    assert "secret" not in str(raised.value)


def expanded(word: str, environment: dict[str, str]) -> str:
    """What Kubernetes makes of a word of a command, after its `expansion.Expand`."""
    out, at = "", 0
    while at < len(word):
        if word[at] != "$" or at + 1 == len(word):
            out += word[at]
            at += 1
            continue
        end = word.find(")", at)
        if word[at + 1] == "$":
            out += "$"
            at += 2
        elif word[at + 1] == "(" and end > 0:
            name = word[at + 2 : end]
            out += environment.get(name, f"$({name})")
            at = end + 1
        else:
            out += word[at : at + 2]
            at += 2
    return out


def test_expansion__is_that_of_kubernetes() -> None:
    environment = {"A": "1"}
    for word, result in {
        "$(A)": "1",
        "$$(A)": "$(A)",
        "$$$(A)": "$1",
        "$(B)": "$(B)",
        "$A": "$A",
        "$": "$",
        "$$": "$",
        "a$(A)b$(A": "a1b$(A",
    }.items():
        assert expanded(word, environment) == result


@given(word=st.text() | st.text(st.sampled_from("$()A")))
def test_container_words__survive_the_expansion(word: str) -> None:
    assert expanded(container_words([word])[0], {"A": "1", "": "2"}) == word
