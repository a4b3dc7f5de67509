"""What `dhsic submit` would hand to a queue, and words that a shell must not read otherwise."""

import re
from pathlib import Path

import yaml
from click.testing import CliRunner

from dhsic.cli import main

URL = "s3://bucket/songs of '69.zarr"
PAIR = ("--variable", "x=features[:, 0:12]", "--variable", "year")
HOSTILE = [
    *("", " ", "'", '"', "''\"''", "a\nb", "\n#SBATCH --uid=0\n", "\r", "\t", "é ü 中"),
    *("$(touch pwned)", "`touch pwned`", "${HOME}", "$HOME", "$", "$$", "a$", "$(", "$(HOME)"),
    *("x; touch pwned", "x && touch pwned", "| touch pwned", "<(touch pwned)", "x\\", "\\'"),
    *("!!", "*", "~", "--", "-", "--json=/etc/passwd", "#", "a=b", "{a,b}", "$$(HOME)"),
]


def submitted(description, folder, *words, runs="/home/me/runs", each=()):
    """The command `dhsic submit --render-only`, of a test of data at a URL."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / "cluster.yaml"
    spec.write_text(yaml.safe_dump(description))
    options = ["--cluster", str(spec), "--runs", str(runs), "--render-only"]
    options += [f"--each={values}" for values in each]
    return CliRunner().invoke(main, ["submit", *options, "--", "test", URL, *PAIR, *words])


def rendered(description, folder, *words, **options):
    """The text, in which the run is called ID."""
    done = submitted(description, folder, *words, **options)
    assert done.exit_code == 0, done.stderr
    return re.sub(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}", "ID", done.stdout)


def job_script(folder, *words, kind="slurm", each=(), runs="/home/me/runs", **section):
    description = {"kind": kind, "workers": 4, "memory": "3GiB", kind: section}
    return rendered(description, Path(folder), *words, runs=runs, each=each)


def expanded(word, environment):
    """What Kubernetes makes of a word of a command, after its `expansion.Expand`."""

    def value(found):
        return "$" if found[0] == "$$" else environment.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, word)
