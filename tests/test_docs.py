"""README and pages are true: their code runs, and their links, commands and options exist."""

import importlib
import importlib.util
import inspect
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import dhsic
from dhsic.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NO_PAGES = {"_build", "_generated", "_templates", "examples", "gallery", "generated"}
TEXTS = {
    str(path.relative_to(DOCS)): path.read_text()
    for path in sorted(DOCS.rglob("*"))
    if path.suffix in (".md", ".rst")
    and not {*path.relative_to(DOCS).parts} & NO_PAGES
    and path.name != "sg_execution_times.rst"
}
README = (ROOT / "README.md").read_text()
CELL = re.compile(r"```\{code-cell\} python\n(.*?)```", re.DOTALL)
PUBLIC = ("", "analysis", "bench", "causal", "cluster", "errors", "kernels", "plots", "report")


def code_of(name):
    return "\n".join(CELL.findall(TEXTS[name]))


def shell_lines(text):
    """The commands of a page, one a line."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def executed(code, name):
    names = {}
    with redirect_stdout(StringIO()) as printed:
        exec(compile(code, name, "exec"), names)
    return names, printed.getvalue()


# --- code, by night but for that of the README


def test_readme__code_prints_what_it_says():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (said,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert executed(code, "README.md")[1] == said


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if CELL.search(text)])
def test_pages__code_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    executed(code_of(name), name)


@pytest.mark.nightly
def test_quick_start__answers_from_the_shell_as_from_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, _ = executed(code_of("start.md"), "start.md")
    test, *ranks = (line for line in shell_lines(TEXTS["start.md"]) if " weather.csv" in line)
    printed = CliRunner().invoke(main, shlex.split(test)[1:])
    assert printed.exit_code == 0
    assert "independence rejected at level 0.05" in printed.output
    assert names["result"].pvalue < 0.01
    for rank in ranks:
        assert CliRunner().invoke(main, shlex.split(rank, comments=True)[1:]).exit_code == 0
    assert set(names["ranking"].rejected(0.05, control="max-t")) == {"temperature", "wind"}


@pytest.mark.nightly
def test_coming_from__calls_run():
    rng = np.random.default_rng(0)
    names = {name: rng.standard_normal(60) for name in "xyz"}
    names |= {name: rng.choice(["one", "two"], 60) for name in "ab"}
    found = re.findall(r"`(dhsic\.[^`]+)`", TEXTS["how-to/coming-from.md"])
    calls = [call for call in found if call.count("(") == call.count(")") > 0]
    assert len(calls) > 5
    for call in calls:
        assert eval(call, {"dhsic": dhsic, **names}) is not None, call


# --- commands, options, links


def options_of(words):
    """The options of a command line of a page, and those that the command has."""
    command, found = main, []
    for word in words:
        if word == "--":
            break
        if word.startswith("-"):
            found.append(word)
        elif hasattr(command, "commands"):
            assert word in command.commands, word
            command = command.commands[word]
    return found, {name for option in command.params for name in option.opts}


def test_pages__commands_and_their_options_exist():
    deploy = (ROOT / "deploy" / "README.md").read_text()
    lines = [line for text in (README, deploy, *TEXTS.values()) for line in shell_lines(text)]
    ours = [line.removeprefix("dhsic ") for line in lines if line.startswith("dhsic ")]
    assert len(ours) > 20
    for line in ours:
        before, _, after = line.partition(" -- ")
        for part in filter(None, (before, after)):
            given, known = options_of(shlex.split(part, comments=True))
            assert {*given} <= known, line


def test_readme__set_up_commands_are_two():
    run, check = re.findall(r"```sh\n(.*?)\n```", README, re.DOTALL)[:2]
    assert run.endswith("dhsic demo")
    assert check in (ROOT / ".ci" / "run").read_text()


def links_of(text):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)", prose)
    return [*links, *re.findall(r"```\{(?:figure|image)\} (\S+)", text)]


def test_pages__links_lead_to_files():
    places = [(ROOT, README), *(((DOCS / name).parent, text) for name, text in TEXTS.items())]
    found = [(folder, link) for folder, text in places for link in links_of(text)]
    assert len(found) > 50
    built = "gallery/"
    dead = [link for folder, link in found if built not in link and not (folder / link).exists()]
    assert dead == []


def test_quick_start__names_the_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    section = TEXTS["start.md"].partition("## Extras")[2].partition("## Next")[0]
    assert {*extras} - {"docs", "test"} == {*re.findall(r"`([a-z0-9]+)`", section)}


def in_module(name):
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def test_reference__has_all_that_is_public():
    pattern = r"currentmodule:: (\S+)\n\n\.\. autosummary::\n(?:   :.*\n)+\n((?:   \w+\n?)+)"
    shown = {
        in_module(f"{module}.{name}")
        for place, text in TEXTS.items()
        if place.startswith("reference/")
        for module, names in re.findall(pattern, text)
        for name in names.split()
    }
    public = {
        in_module(f"{module}.{name}")
        for module in (f"dhsic.{part}".rstrip(".") for part in PUBLIC)
        for name in importlib.import_module(module).__all__
    }
    called = {one for one in public if inspect.isclass(one) or inspect.isfunction(one)}
    assert called - {dhsic.errors.require} - shown == set()


# --- parts that are written at build time, and the site


def test_generated__parts_are_those_that_pages_include(tmp_path):
    spec = importlib.util.spec_from_file_location("generated", DOCS / "generated.py")
    generated = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generated)
    generated.write(tmp_path)
    included = re.findall(r"\{include\} (?:\.\./)?_generated/([\w-]+\.md)", "".join(TEXTS.values()))
    assert {*included} == {path.name for path in tmp_path.iterdir()}
    commands, errors = ((tmp_path / f"{name}.md").read_text() for name in ("commands", "errors"))
    assert [name for name in main.commands if f"## dhsic {name}\n" not in commands] == []
    kinds = {*dhsic.errors.__all__} - {"DhsicError", "require"}
    assert [name for name in kinds if f"## {name}\n" not in errors] == []


@pytest.mark.nightly
def test_site__builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx_gallery", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "sphinx", "-W", "-b", "html", "docs", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "gallery" / "index.html").exists()
