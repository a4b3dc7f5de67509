"""Programs in place of sbatch, squeue, scancel and kubectl, which write down their calls."""

import json
import sys

import pytest

PROGRAM = """#!{python} -I
import json, os, sys
folder, name = {folder!r}, os.path.basename(sys.argv[0])
text = "" if sys.stdin.isatty() else sys.stdin.read()
with open(os.path.join(folder, "calls"), "a") as file:
    file.write(json.dumps([name, sys.argv[1:], text]) + "\\n")
for words, code, out, err in json.load(open(os.path.join(folder, name + ".json"))):
    if all(word in sys.argv[1:] for word in words):
        sys.stdout.write(out)
        sys.stderr.write(err)
        sys.exit(code)
sys.exit("not expected: " + repr(sys.argv))
"""


class Queues:
    """Says what the programs answer, and how they were called."""

    def __init__(self, folder):
        self.folder, self.programs = folder, folder / "bin"
        self.programs.mkdir()

    def answer(self, program, *words, code=0, out="", err=""):
        """Let a program answer calls with these words; the latest answer that fits counts."""
        path = self.programs / program
        path.write_text(PROGRAM.format(python=sys.executable, folder=str(self.folder)))
        path.chmod(0o755)
        answers = self.folder / f"{program}.json"
        before = json.loads(answers.read_text()) if answers.exists() else []
        answers.write_text(json.dumps([[words, code, out, err], *before]))

    def calls(self, program):
        """Arguments and standard input of each call."""
        path = self.folder / "calls"
        heard = map(json.loads, path.read_text().splitlines() if path.exists() else [])
        return [(words, text) for name, words, text in heard if name == program]


@pytest.fixture
def queues(tmp_path_factory, monkeypatch):
    """No other program is on the path but those that a test asks for."""
    queues = Queues(tmp_path_factory.mktemp("queues"))
    monkeypatch.setenv("PATH", str(queues.programs))
    return queues
