"""The pages are true: their code runs, their links lead somewhere, their figures are measured."""

import ast
import importlib
import importlib.util
import inspect
import re
import shlex
import sys
import tomllib
from contextlib import redirect_stdout
from html import unescape
from io import StringIO
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from click.testing import CliRunner

import dhsic
from benchmarks.__main__ import SMALL
from dhsic.cli import main
from dhsic.engine.plan import SPREAD
from dhsic.estimators import TABLE

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
NO_PAGES = {"_build", "_generated", "_templates", "examples", "gallery", "generated"}
PAGES = sorted(
    path
    for path in DOCS.rglob("*")
    if path.suffix in (".md", ".rst")
    and not {*path.relative_to(DOCS).parts} & NO_PAGES
    and path.name != "sg_execution_times.rst"
)
TEXTS = {str(path.relative_to(DOCS)): path.read_text() for path in PAGES}
CELL = re.compile(r"```\{code-cell\} python\n(.*?)```", re.DOTALL)
WRITTEN = [name for name, text in TEXTS.items() if name.endswith(".md")]


def load_generated():
    spec = importlib.util.spec_from_file_location("generated", DOCS / "generated.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generated = load_generated()
table = generated.table


def shell_lines(text):
    """The commands of a page, one a line."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if CELL.search(text)])
def test_pages__code_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(CELL.findall(TEXTS[name]))
    with redirect_stdout(StringIO()):
        exec(compile(code, name, "exec"), {})


def test_quick_start__answers_from_the_shell_as_from_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = TEXTS["start.md"]
    names = {}
    with redirect_stdout(StringIO()):
        exec(compile("\n".join(CELL.findall(text)), "start.md", "exec"), names)
    test, *ranks = (line for line in shell_lines(text) if " weather.csv" in line)
    printed = CliRunner().invoke(main, shlex.split(test)[1:])
    assert printed.exit_code == 0
    assert "independence rejected at level 0.05" in printed.output
    assert names["result"].pvalue < 0.01
    assert len(ranks) == 2
    for rank in ranks:
        assert CliRunner().invoke(main, shlex.split(rank, comments=True)[1:]).exit_code == 0
    assert set(names["ranking"].rejected(0.05, control="max-t")) == {"temperature", "wind"}


def test_quick_start__converts_a_file_with_another_separator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{k};{(k - 100) ** 2}\n" for k in range(200))
    Path("data.csv").write_text(f"Age;Pay\n{rows}")
    lines = [line for line in shell_lines(TEXTS["start.md"]) if " data." in line]
    assert len(lines) == 2
    for line in lines:
        printed = CliRunner().invoke(main, shlex.split(line)[1:])
        assert printed.exit_code == 0, printed.output
    assert "independence rejected at level 0.05" in printed.output


def test_quick_start__names_the_extras():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    section = TEXTS["start.md"].partition("## Extras")[2].partition("## Next")[0]
    assert {*extras} - {"docs", "test"} == {*re.findall(r"`([a-z0-9]+)`", section)}
    (every,) = extras["all"]
    listed = re.search(r"\| `all` \| (.*) \|", section)[1]
    assert re.findall(r"\w+", every.removeprefix("dhsic")) == re.findall(r"\w+", listed)


@pytest.mark.parametrize(
    "command",
    sorted(
        {
            found[1]
            for text in TEXTS.values()
            for line in shell_lines(text)
            for found in [re.match(r"dhsic ([a-z-]+)", line)]
            if found
        }
    ),
)
def test_pages__commands_exist(command):
    assert CliRunner().invoke(main, [command, "--help"]).exit_code == 0


def options_of(words):
    """The options of a command line of a page, and those that the command has."""
    command, found = main, []
    for word in words:
        if word == "--":
            break
        if word.startswith("-"):
            found.append(word)
        elif hasattr(command, "commands") and word in command.commands:
            command = command.commands[word]
    return found, {name for option in command.params for name in option.opts}


@pytest.mark.parametrize(
    "line", [line for text in TEXTS.values() for line in shell_lines(text) if line[:6] == "dhsic "]
)
def test_pages__options_exist(line):
    before, _, after = line.removeprefix("dhsic ").partition(" -- ")
    for part in filter(None, (before, after)):
        given, known = options_of(shlex.split(part))
        assert {*given} <= known


@pytest.mark.parametrize("name", WRITTEN)
def test_pages__links_lead_to_files(name):
    folder = (DOCS / name).parent
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", TEXTS[name], flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)", prose)
    pictures = re.findall(r"```\{(?:figure|image)\} (\S+)", TEXTS[name])
    for link in [*links, *pictures]:
        if "gallery/" not in link:  # built
            assert (folder / link).exists(), link


def test_pages__are_listed():
    listed = {"index"}
    for name, text in TEXTS.items():
        for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
            entries = [line for line in block.splitlines() if line and line[0] != ":"]
            for entry in entries:
                place = (DOCS / name).parent / entry
                listed.add(str(place.resolve().relative_to(DOCS)))
    pages = {name.rpartition(".")[0] for name in TEXTS}
    assert pages <= listed
    assert listed - pages == {"gallery/index"}


@pytest.mark.parametrize(
    "module",
    [
        *("dhsic", "dhsic.analysis", "dhsic.bench", "dhsic.causal", "dhsic.cluster"),
        *("dhsic.errors", "dhsic.kernels", "dhsic.plots", "dhsic.report"),
    ],
)
def test_reference__has_all_that_is_public(module):
    listed = {
        f"{part}.{name}"
        for place, text in TEXTS.items()
        if place.startswith("reference/")
        for part, names in re.findall(
            r"currentmodule:: (\S+)\n\n\.\. autosummary::\n(?:   :.*\n)+\n((?:   \w+\n?)+)", text
        )
        for name in names.split()
    }
    found = importlib.import_module(module)
    public = {
        getattr(found, name)
        for name in found.__all__
        if inspect.isclass(getattr(found, name)) or inspect.isfunction(getattr(found, name))
    } - {dhsic.errors.require}
    shown = {
        getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])
        for name in listed
    }
    assert public <= shown


def test_pages__no_sentence_begins_with_what_or_of():
    for name in WRITTEN:
        prose = re.sub(r"```.*?```", "", TEXTS[name], flags=re.DOTALL)
        assert not re.findall(r"(?:^|[.!?:]\s+|\n\n|\| )(?:What|Of)\b[^|\n]*", prose), name


CALLS = [
    call
    for call in re.findall(r"`(dhsic\.[^`]+)`", TEXTS["how-to/coming-from.md"])
    if call.count("(") == call.count(")") > 0
]


@pytest.mark.parametrize("call", CALLS)
def test_coming_from__calls_run(call):
    rng = np.random.default_rng(0)
    names = {name: rng.standard_normal(60) for name in "xyz"}
    names |= {name: rng.choice(["one", "two"], 60) for name in "ab"}
    assert eval(call, {"dhsic": dhsic, **names}) is not None


@pytest.mark.parametrize("name", sorted(path.name for path in (DOCS / "examples").glob("*.py")))
def test_gallery__scripts_are_short_and_begin_with_a_title(name):
    text = (DOCS / "examples" / name).read_text()
    title, line = ast.get_docstring(ast.parse(text)).splitlines()[:2]
    assert len(text.splitlines()) <= 28
    assert line == "=" * len(title)


def test_generated__parts_are_those_that_pages_include():
    included = {
        name
        for text in TEXTS.values()
        for name in re.findall(r"\{include\} (?:\.\./)?_generated/([\w-]+)\.md", text)
    }
    assert included == {*generated.PARTS}


def test_generated__tables_show_every_table_with_its_command(tmp_path):
    generated.write(tmp_path)
    text = (tmp_path / "tables.md").read_text()
    for path in RESULTS.glob("*.csv"):
        assert re.search(rf"^## {path.stem}\n\n.+`python -m benchmarks run \w+", text, re.MULTILINE)


def test_generated__errors_have_their_messages(tmp_path):
    page = generated.errors_page()
    for name in dhsic.errors.__all__:
        if name not in ("DhsicError", "require"):
            assert f"## {name}\n" in page
    for name in generated.CALLS:
        assert f"{name}: " in page


def test_generated__conditional_level_is_of_all_its_data():
    page = generated.conditional_level()
    for data in generated.HELD_TWICE:
        assert f"| {data}, 300 x " in page
    rows = [r for r in table("conditional_level.csv") if r["data"] in generated.HELD_TWICE]
    unwarned = [r for r in rows if r["test"] == "dhsic" and float(r["rejected unwarned"]) > 0.05]
    # Shares are of few data sets, so that chance may take them above 5 %, but not far.
    assert all(float(r["low"]) < 0.05 for r in unwarned if r["warned"] == "0")


def test_generated__commands_are_all():
    text = generated.commands()
    for name in main.commands:
        assert f"## dhsic {name}\n" in text


EVIDENCE = TEXTS["evidence.md"]


def test_evidence__tables_have_a_command_and_a_file():
    listed = re.findall(r"`python -m benchmarks run (\w+)[^`]*`[^|]* \| `(\w+\.csv)`", EVIDENCE)
    assert len(listed) > 40
    for script, name in listed:
        assert script in SMALL
        assert (RESULTS / name).exists()


def test_evidence__figures_in_short_name_benchmarks():
    table = EVIDENCE.split("## Figures in short")[1].split("Processor time is")[0]
    named = [re.findall(r"`(\w+)[^`]*`", line.split("|")[-2]) for line in table.splitlines()[4:-1]]
    assert len(named) > 10
    for names in named:
        assert names
        assert set(names) <= set(SMALL)


def test_evidence__level_is_that_of_the_table():
    rows = table("level_default.csv")
    rates = [100 * float(row["5%"]) for row in rows]
    cells = {tuple(row[key] for key in ("function", "kind", "M", "n")) for row in rows}
    said = f"{min(rates):.1f} to {max(rates):.1f} % in {len(cells)} cells, nearly all at default"
    assert said in EVIDENCE
    assert {row["ok"] for row in rows} == {"True"}


def test_results__level_of_the_family_is_that_of_the_table():
    rates = [100 * float(row["5%"]) for row in table("level.csv")]
    said = f"reject {min(rates):.1f} to {max(rates):.1f} % of independent data sets of 200 to 2,000"
    assert said in (RESULTS / "README.md").read_text()


def test_conditional__level_is_that_of_the_table():
    rows = [r for r in table("conditional_level.csv") if (r["test"], r["effect"]) == ("dhsic", "0")]
    # Those within strata are of the exact test.
    rates = {
        n: [100 * float(r["rejected"]) for r in rows if r["n"] == n and r["data"] != "categories"]
        for n in ("200", "1000", "10000")
    }
    said = [f"{min(one):.0f} to {max(one):.0f} % of" for one in rates.values()]
    text = f"{said[0]} true nulls of 200 rows, {said[1]} 1,000 and {said[2]} 10,000"
    page = " ".join(TEXTS["guide/conditional.md"].split())
    assert text in page
    shown = [r for r in rows if r["n"] in rates and r["data"] != "categories"]
    large = [r for r in shown if int(r["runs"]) >= 300]  # others are beside slower tests
    assert f"of {min(int(r['runs']) for r in large)} data sets or more each" in page
    assert all(float(r["low"]) < 0.05 for r in large)
    means = [
        100
        * np.average([float(r["rejected"]) for r in some], weights=[int(r["runs"]) for r in some])
        for some in ([r for r in large if r["n"] == n] for n in rates)
    ]
    assert "together gave {:.1f}, {:.1f} and {:.1f} %".format(*means) in page


def test_libraries__search_of_a_million_rows_is_that_of_the_table():
    rows = [r for r in table("pc_graph.csv") if r["n"] == "1000000"]
    own, other = (next(r for r in rows if r["test"] == name) for name in ("dhsic", "fisherz"))
    page = " ".join(TEXTS["how-to/other-libraries.md"].split())
    minutes, size = float(own["seconds"]) / 60, float(own["peak MiB"])
    assert f"{minutes:.0f} minutes of processor time and {size:.0f} MiB" in page
    assert f"{own['tests']} tests, of which {own['of all rows']} were of all rows" in page
    assert f"missed {other['missing']} edges and drew {other['extra']} that are not there" in page
    assert {own[key] for key in ("missing", "extra", "turned")} == {"0"}


def test_evidence__power_of_the_default_is_that_of_the_table():
    rows = [r for r in table("exact_power.csv") if r["n"] == "200" and r["method"] != "chain"]
    two = [r for r in rows if not re.search(r" of [34]$", r["data"])]
    powers = {(r["data"], r["method"]): 100 * float(r["power"]) for r in two}
    kinds = {kind for kind, _ in powers}
    most = max(abs(powers[kind, "default"] - powers[kind, "permutation"]) for kind in kinds)
    said = f"within {most:.0f} points of the power of 499 permutations on {len(kinds)} kinds"
    assert said in EVIDENCE


def test_evidence__cost_of_the_default_beside_one_kernel_is_that_of_the_table():
    rows = table("default_cost.csv")
    few, many = (
        [float(row["over one kernel"]) for row in rows if (int(row["n"]) == 1000) == is_few]
        for is_few in (True, False)
    )
    (largest,) = (r for r in rows if (r["n"], r["columns"]) == ("1000000", "90+1"))
    assert f"{min(few):.1f} to {max(few):.1f} times the time of one kernel at 1,000" in EVIDENCE
    assert f"{min(many):.1f} to {max(many):.1f} times from 10,000 to 1,000,000" in EVIDENCE
    seconds = float(largest["seconds"])
    assert f"{seconds:.0f} s of the processor for 1,000,000 x 90 + 1" in EVIDENCE


def test_evidence__cost_of_the_default_is_that_of_the_table():
    seconds = {(r["case"], r["null"]): float(r["seconds"]) for r in table("exact_cost.csv")}

    def times(case, null):
        return seconds[case, null] / seconds[case, "default"]

    one, many = (1 / times(f"nystrom-m, {k}", "multiplier") for k in ("one kernel", "16 kernels"))
    assert f"{one:.1f} and {many:.1f} of the time of 250 random signs" in EVIDENCE
    permuted = times("v-hsic, 16 kernels", "permutation")
    assert f"250 permutations: {permuted:.0f} times as long" in EVIDENCE


def test_evidence__seconds_of_plans_are_those_of_the_table():
    rows = table("plan_seconds.csv")
    times = [float(r["processor s"]) / float(r["planned processor s"]) for r in rows]
    for threads, words in (("1", "one thread"), ("2", "two")):
        own = [one for one, r in zip(times, rows, strict=True) if r["threads"] == threads]
        near = sum(0.75 <= 1 / one <= 1.25 for one in own)
        assert f"{near} of {len(own)} on {words}" in EVIDENCE
    low, high = np.quantile(times, [0.05, 0.95])
    said = f"{low:.2f} to {high:.2f} times as long"
    assert f"nine of ten take {said}" in EVIDENCE
    assert f"nine of ten runs take {said}" in TEXTS["guide/exactness.md"]
    assert (round(low, 2), round(high, 2)) == SPREAD


def test_evidence__bytes_of_plans_are_those_of_the_table():
    used = [float(r["peak MiB"]) / float(r["planned MiB"]) for r in table("plan_seconds.csv")]
    said = f"{min(used):.2f} to {max(used):.2f}"
    near = sum(0.9 <= share <= 1.1 for share in used)
    assert f"{said} of the bytes, {near} of {len(used)} within 10 %" in EVIDENCE
    resources = TEXTS["guide/resources.md"]
    assert f"In {len(used)} plans that were run the process took {said} of the bytes" in resources
    assert f"\n{near} times within a tenth" in resources


def test_evidence__billions_of_rows_are_those_of_the_table():
    seconds = {
        (r["method"], r["workers"]): f"{float(r['elapsed s']):,.0f}"
        for r in table("extrapolated.csv")
        if r["n"] == "1000000000"
    }
    default, signs = (
        [seconds[method, workers] for workers in ("10", "100", "1000")]
        for method in ("the default", "2000 landmarks, 250 signs")
    )
    said = f"the default: {default[0]} s on 10 workers, {default[1]} on 100, {default[2]} on"
    assert said in EVIDENCE
    assert f"250 signs: {signs[0]}, {signs[1]} and {signs[2]} s" in EVIDENCE


def test_dependent_air__figures_are_those_of_the_table():
    rates = {
        (row["data"], row["argument"]): [
            f"{100 * float(row[key]):.0f} %" for key in ("rejected", "controls rejected")
        ]
        for row in generated.table("dependent_air.csv")
    }
    places, wind, air, changes = (
        {way: both for (data, way), both in rates.items() if data == name}
        for name in dict.fromkeys(data for data, _ in rates)
    )
    nothing, order = "nothing: independent draws", "order='time', lag and period of a day"
    joint = "all stations, groups= stations with order='time'"
    told = [
        f"rejects {places[nothing][1]} of the controls",
        f"drawn by this assumption: it rejects {places['strata=, 10 bands of altitude'][1]}",
        f"limit law. It rejects {places['given= altitude'][1]} of the controls",
        f"rejects {wind[nothing][1]} of the controls of particles",
        f"nothing else: {wind['strata=, hours of the day'][1]} of the controls",
        f"remedy either, with {wind['given= hour and day'][1]}",
        f"and {wind['groups=, days'][1]} of the controls are rejected",
        f"blocks of five days leave {wind['groups=, five days'][1]}",
        f"hour of the day: {wind[order][1]}. It still finds {wind[order][0]} of the real pairs",
        f"that they share: {wind[joint][1]}",
        f"remove it: {air[order][1]} of the controls are rejected in the order of time",
        f"{air[joint][1]} of all stations, and {air['groups=, five days'][1]} by blocks of five",
        f"before, {changes[order][1]} of the controls are rejected of a station by itself",
        f"and {changes[joint][1]} of all stations together",
        f"still {changes[order][0]} and {changes[joint][0]} of the real pairs",
    ]
    text = " ".join(TEXTS["how-to/dependent-air.md"].split())
    assert [one for one in told if one not in text] == []
    assert wind[f"all stations, {nothing}"][1] == "100 %"
    # Both tests of places that keep to altitude reject for the real pair.
    assert {places[way][0] for way in ("strata=, 10 bands of altitude", "given= altitude")} == {
        "100 %"
    }


def test_choosing__table_of_the_family_is_the_registry():
    rows = [
        f"{entry.cost} | {'2' if entry.most_variables else '2 or more'} | "
        + ", ".join(null.name for null in entry.nulls)
        for entry in TABLE
    ]
    choosing = TEXTS["guide/choosing.md"]
    found = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| (.*) \|$", choosing, re.MULTILINE)
    assert found == [(e.estimator.name, row) for e, row in zip(TABLE, rows, strict=True)]


def dead_links(site):
    """Links and pictures of pages that lead to no file, or to no place in it."""
    # Pages of the theme, and of Sphinx about the code, are not ours.
    own = [path for path in site.rglob("*.html") if not {"_static", "_modules"} & {*path.parts}]
    pages = {path: path.read_text() for path in own}
    places = {
        path: {unescape(name) for name in re.findall(r'\b(?:id|name)="([^"]+)"', text)}
        for path, text in pages.items()
    }
    dead = []
    for path, text in pages.items():
        for link in re.findall(r'\b(?:href|src)="([^"]+)"', text):
            target = urlsplit(unescape(link))
            if target.scheme or target.netloc:
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            named = file not in places or target.fragment in ("", *places[file])
            if not (file.exists() and named):
                dead.append(f"{path.relative_to(site)}: {link}")
    return sorted(dead)


def test_dead_links__are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#x">1</a> <a href="#z">2</a> <p id="y">')
    (tmp_path / "b.html").write_text('<p id="x"> <a href="a.html#y">3</a> <img src="c.png">')
    assert dead_links(tmp_path) == ["a.html: #z", "b.html: c.png"]


@pytest.mark.nightly
def test_site__builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx_gallery", reason="the extra docs is not installed")
    import subprocess

    command = [sys.executable, "-m", "sphinx", "-W", "-b", "html", "docs", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "gallery" / "index.html").exists()
    assert dead_links(tmp_path / "site") == []
