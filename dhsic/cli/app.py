"""Define all commands, and the group with its exit codes and errors.

A table has the commands of public functions. Commands that list methods, convert data, show a
demonstration and remove checkpoints follow it, and the group comes last.
"""

from __future__ import annotations

import logging
import re
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn, get_args, get_type_hints

import click
import numpy as np
from click import IntRange

import dhsic
from dhsic._files import NO_STREAM, disk_errors, is_terminal
from dhsic._progress import progress_bar
from dhsic._validation import (
    fields_of_method,
    known_methods,
    load_plugins,
    nearest,
    removed,
    removed_option,
)
from dhsic._version import __version__
from dhsic.causal import CausalDirections
from dhsic.cli.command import (
    FILES,
    INTERNAL,
    INTERRUPTED,
    LEVEL,
    METHODS,
    RESOURCES,
    USAGE,
    Command,
    NewFile,
    Options,
    Request,
    Row,
    arguments_of,
    choices_of,
    first_words,
    in_shell,
    interruptible,
    judge,
    options_of,
    print_columns,
    print_summary,
    read_resources,
    run,
    summary,
)
from dhsic.cli.submit import cancel, result, runs, status, submit
from dhsic.cluster import local_cluster, processors
from dhsic.engine.checkpoint import Manifest, find_checkpoints, kept_passes, remove_checkpoint
from dhsic.engine.units import format_bytes
from dhsic.errors import DataError, DhsicError, brief_message, printable
from dhsic.estimators.choose import ESTIMATORS, nulls_of
from dhsic.interaction import INTERACTION_ESTIMATORS
from dhsic.io.cause_effect_pairs import read_pairs
from dhsic.io.million_song import convert_million_song
from dhsic.io.open import open_group
from dhsic.io.synthetic import generate
from dhsic.io.tables import columns_by_variable, convert_table
from dhsic.io.urls import Folder, redacted
from dhsic.io.zarr_output import WrittenGroup
from dhsic.kernels import Candidates, Grid
from dhsic.kernels.wrap import FORMS
from dhsic.nulls import Control
from dhsic.pairwise import PAIR_COLUMNS
from dhsic.report import texts_of
from dhsic.results import aligned, decision
from dhsic.sensitivity import map_columns
from dhsic.twosample import MMD_ESTIMATORS


class Application(click.Group):
    """A group of commands whose errors are a line on stderr and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run a command and exit."""
        # Click would exit here by itself, with codes and texts of its own.
        del standalone_mode
        arguments = list(sys.argv[1:] if args is None else args)
        # What follows `--` are words of another command, with a --debug of its own.
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        if debug := "--debug" in own:
            arguments.remove("--debug")
        logs = logging.root.manager.disable
        with warnings.catch_warnings():
            # What libraries log of a failure the error tells in words for the user.
            logging.disable(logs if debug else logging.CRITICAL)
            # Not a filter: which warnings are shown, and how often, stays with the user.
            warnings.showwarning = lambda message, *_, **__: _say(f"warning: {message}")
            try:
                with interruptible():
                    # Journals and pages repeat the words of the command, which travel in `obj`.
                    code = super().main(
                        arguments, prog_name, complete_var, False, obj=tuple(arguments), **extra
                    )
            except (Exception, KeyboardInterrupt) as error:
                # Before the error in a line, which then stands last on the screen.
                if debug:
                    traceback.print_exc()
                code = _report(error)
            finally:
                logging.disable(logs)
        sys.exit(code if isinstance(code, int) else 0)


def _report(error: BaseException) -> int:
    """Say on stderr what went wrong, and choose the exit code."""
    # The cause may tell what is kept, as checkpoints do.
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        _say(str(error.__cause__ or error) or "interrupted")
        return INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return USAGE
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        message = error.format_message()
        gone = _gone(error, message)
        # Names that are spelt alike are others than what serves for a removed one.
        if gone not in message:
            message = re.split(r"\.? \(?Did you mean", message)[0].removesuffix(".") + gone
        where = "" if context is None else f" (see '{context.command_path} --help')"
        _say(f"error: {message}{where}")
        return USAGE
    if isinstance(error, DhsicError):
        _say(f"error: {error}")
        return USAGE
    # One line at any rate: an error of a library may have a page of text.
    text = " ".join(str(error).split())[:200]
    _say(f"internal error: {type(error).__name__}: {text}; run with --debug for the traceback")
    return INTERNAL


def _gone(error: click.ClickException, message: str) -> str:
    """End of a message about words that were removed: what the command takes in their place."""
    # Whatever click does not know, a value, an option or a command, it quotes.
    words = re.findall(r"'([^']+)'", message)
    context = getattr(error, "ctx", None)
    if context is None:
        return next(filter(None, map(removed, words)), "")
    # What is missing was perhaps given by an option that was removed.
    if isinstance(error, click.MissingParameter):
        words += [word.partition("=")[0] for word in context.find_root().obj or ()]
    options = {option: one for one in context.command.params for option in one.opts}

    def takes(option: str, name: str) -> bool:
        one: Any = options.get(option)
        several = name == "grid" and "|" in getattr(one, "help", "")
        return several or name in getattr(getattr(one, "type", None), "names", ())

    hints = (
        removed(word) or removed(f"{context.info_name} {word}") or removed_option(word, takes)
        for word in words
        if word not in options
    )
    return next(filter(None, hints), "")


def _say(text: str) -> None:
    # Names of data reach the terminal here, and URLs with passwords the logs of others.
    line = redacted(printable(in_shell(" ".join(f"dhsic: {text}".split()))))
    with suppress(*NO_STREAM):  # nobody hears, as of a service
        click.echo(brief_message(line), err=True)


# --- options of printing and writing


def _top(count: int, what: str) -> click.Option:
    text = f"Number of {what} to print."
    return click.Option(["--top"], type=IntRange(1), metavar="N", default=count, help=text)


def _out(metavar: str, what: str) -> click.Option:
    text = f"Write the {what}, a zarr group."
    return click.Option(["--out", "out_path"], metavar=metavar, help=text)


# What every command that runs may write, and how it reads.
_OUTPUTS: Final = (
    *(
        click.Option(
            [flag, name], type=NewFile(stream=name == "log_path"), metavar=metavar, help=text
        )
        for name, (flag, metavar, text) in FILES.items()
    ),
    click.Option(["--overwrite"], is_flag=True, help="Overwrite output files that exist."),
    click.Option(
        ["--allow-missing-chunks"], is_flag=True, help="Read absent chunks as their fill value."
    ),
)
_LEVEL: Final = click.Option(
    ["--alpha"], type=LEVEL, metavar="LEVEL", default=0.05, help="Level of the decision."
)
_PLAN: Final = click.Option(
    ["--plan", "only_plan"], is_flag=True, help="Print steps, memory and time; run nothing."
)
_EXCLUDE: Final = click.Option(
    ["--exclude"], multiple=True, metavar="COLUMN", help="Leave a column out; may be repeated."
)


# --- ways to print


def _show_test(result: Any, options: Options) -> None:
    decided = f"{result.hypothesis} {decision(result, options['alpha'])}"
    print_summary([*result.summary(), ("decision", decided)])


def _show_summary(result: Any, options: Options) -> None:
    print_summary(result.summary())


def _show_map(result: Any, options: Options) -> None:
    print_summary(result.summary(options["top"]))


def _show_ranking(result: Any, options: Options) -> None:
    print_columns(*result.table(options["top"]))
    alpha, control, top = options["alpha"], options["control"], options["top"]
    # The same level and control as in the table above, of all columns and not only those shown.
    rejected = result.rejected(alpha, control)
    listed = ", ".join(rejected[:top]) + (", ..." if len(rejected) > top else "")
    found = f"{len(rejected):,} of {len(result.features):,} at level {alpha:g} by {control}"
    print_summary([*result.summary(), ("found", f"{found}{f': {listed}' if rejected else ''}")])


def _show_decision(result: Any, options: Options) -> None:
    print_columns(*result.table(options["top"]))
    print_summary(result.summary(options["alpha"]))


def _show_pairs(result: CausalDirections, options: Options) -> None:
    print_columns(*result.table(options["top"]))
    lines = list(result.summary())
    if options["known"] is not None:
        # Weighted, since some pairs of the collection are of the same source.
        share = result.accuracy_curve(*options["known"]).accuracy[-1]
        lines.append(("right", f"{share:.1%} of the weight of all pairs"))
    print_summary(lines)


# --- what is written, and read


def _columns_of_map(request: Request, options: Options) -> Mapping[str, int]:
    # Only variables that are varied have an array in the map.
    dims = {source.name: source.shape[1] for source in request.sources}
    return map_columns({name: d for name, d in dims.items() if name in (options["wrt"] or dims)})


def _read_pairs(options: Options, parameters: Sequence[str]) -> Request:
    cluster, read = read_resources(options), read_pairs(options["data"])
    # True directions and weights, where all are known and any has a weight.
    truth, weights = [pair.first_is_cause for pair in read], [pair.weight for pair in read]
    known = None not in truth and any(weights)
    options["known"] = (np.array(truth), np.array(weights)) if known else None
    # What cannot be drawn is refused before the pairs are regressed.
    if options["plot_path"] is not None and options["known"] is None:
        msg = "--plot needs pairs whose directions are known, got none: drop it"
        raise DataError(msg)
    pairs = {pair.name: (pair.x, pair.y) for pair in read}
    return Request([], [pairs], arguments_of(options, parameters), cluster)


# --- the table


def _test(name: str, function: str, examples: str, title: str = "") -> Row:
    """A test, which is decided at a level."""
    return Row(name, function, _show_test, examples, (_LEVEL,), title=title)


ROWS: Final = (
    _test(
        "plan",
        "dhsic:independence_test",
        "dhsic plan songs.zarr --variable features --variable year",
        title="Print the steps, memory and time of 'dhsic test' with the same options.",
    ),
    _test(
        "test",
        "dhsic:independence_test",
        "dhsic test songs.csv --variable timbre=t1,t2 --variable year\n"
        "dhsic test songs.zarr --variable 'timbre=features[:, 0:12]' \\\n"
        "    --variable year --kernel year=laplacian --null shifts:100000",
    ),
    Row(
        "sensitivity",
        "dhsic:sensitivity_map",
        _show_map,
        "dhsic sensitivity songs.zarr --variable features --variable year \\\n    --out map.zarr",
        (_top(5, "columns of each variable"), _out("MAP.zarr", "map")),
        told=lambda result: {name: getattr(result.measured, name) for name in ("seed", "seconds")},
        columns=_columns_of_map,
        title="Find the columns and rows that a measure of dependence depends on most.",
    ),
    Row(
        "rank",
        "dhsic:rank_features",
        _show_ranking,
        "dhsic rank weather.csv --target ozone\n"
        "dhsic rank songs.zarr --features features --target year \\\n"
        "    --column-group timbre=0:12 --column-group covariances=12:90 --control max-t",
        (
            _LEVEL,
            click.Option(
                ["--control"],
                type=click.Choice(get_args(Control)),
                default="bh",
                help="Correction for many tests; bh and by: false discovery rate.",
            ),
            _top(20, "features"),
            _EXCLUDE,
        ),
        told=lambda result: {
            "features": len(result.features),
            "strongest": result.ranked()[0].name,
        },
    ),
    Row(
        "matrix",
        "dhsic:dependence_matrix",
        _show_decision,
        "dhsic matrix weather.csv --plot matrix.png\n"
        "dhsic matrix genes.parquet --null martingale --out pairs.zarr",
        (_LEVEL, _top(20, "pairs"), _EXCLUDE, _out("PAIRS.zarr", "pairs")),
        columns=lambda request, options: PAIR_COLUMNS,
    ),
    Row(
        "lags",
        "dhsic:lag_scan",
        _show_decision,
        "dhsic lags weather.csv --variable wind --variable waves --lags 0:25 --plot lags.png",
        (_LEVEL, _top(20, "lags")),
    ),
    _test(
        "two-sample",
        "dhsic:two_sample_test",
        "dhsic two-sample people.csv --sample pay --between sex\n"
        "dhsic two-sample songs.zarr --sample old=timbre60 --sample new=timbre00",
    ),
    _test(
        "interaction",
        "dhsic:interaction_test",
        "dhsic interaction songs.zarr --variable 'mean=features[:, 0:12]' \\\n"
        "    --variable 'rest=features[:, 12:]' --variable year",
    ),
    _test(
        "conditional",
        "dhsic:conditional_independence_test",
        "dhsic conditional flights.csv --variable delay --variable length \\\n"
        "    --given carrier --given month --method strata",
    ),
    Row(
        "difference",
        "dhsic:dependence_difference",
        _show_summary,
        "dhsic difference weather.csv --variable wind --variable rain --variable ozone",
    ),
    Row(
        "cause dags",
        "dhsic.causal:score_dags",
        _show_decision,
        "dhsic cause dags weather.zarr --variable altitude --variable temperature \\\n"
        "    --variable sunshine --plot dags.png",
        (_LEVEL, _top(10, "graphs")),
        told=lambda result: {"graph": str(result.best.dag), "pvalue": result.best.pvalue},
    ),
    Row(
        "cause order",
        "dhsic.causal:search_dag",
        _show_summary,
        "dhsic cause order songs.zarr --variable a --variable b --variable c",
        told=lambda result: {"graph": str(result.dag)},
    ),
    Row(
        "cause direction",
        "dhsic.causal:direction",
        _show_summary,
        "dhsic cause direction weather.zarr --variable altitude \\\n    --variable temperature",
        told=lambda result: {"score": result.score},
    ),
    Row(
        "cause pairs",
        "dhsic.causal:directions",
        _show_pairs,
        "dhsic cause pairs tuebingen --regression random-forest \\\n"
        "    --criterion sensitivity --plot accuracy.png",
        (_top(20, "pairs"),),
        told=lambda result: {"pairs": len(result.pairs)},
        read=_read_pairs,
        draw=lambda result, options: result.accuracy_curve(*options["known"]).plot(),
        title="Infer the cause in each of the pairs in FOLDER, and score the accuracy.",
        options_from="dhsic.causal:direction",
        without=("x", "missing"),
        defaults={"max_rows": 2000},
    ),
    _test(
        "cause residuals",
        "dhsic.causal:residual_independence_test",
        "dhsic cause residuals weather.zarr --variable temperature \\\n"
        "    --variable sunshine --given altitude",
    ),
)


def command_of(row: Row) -> Command:
    """The command of a row, with the options of its function."""
    function = resolve_name(row.function)
    documented = resolve_name(row.options_from) if row.options_from else function
    called = list(options_of(documented, row.without, row.defaults))
    row = replace(row, parameters=[str(option.name) for option in called])
    has_plan = "planner" in vars(function) and row.name != "plan"
    planned = [_PLAN] if has_plan else []
    pairs = row.read is _read_pairs
    data = click.Argument(["data"], metavar="FOLDER" if pairs else "DATA")
    outputs = [one for one in _OUTPUTS if not (pairs and one.name == "page_path")]
    title = row.title or summary(function)
    examples = textwrap.indent(row.examples, "  ")

    command = Command(
        row.name.split()[-1],
        callback=lambda **options: run(row, options),
        params=[data, *called, *row.more, *planned, *RESOURCES, *outputs],
        help=title,
        short_help=title,
        epilog=f"\b\nExamples\n{examples}" if examples else None,
    )
    command.judge = partial(judge, row)
    return command


COMMANDS: Final = {row.name: command_of(row) for row in ROWS}


# --- what methods there are


_OTHER_TESTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "two-sample": MMD_ESTIMATORS,
    "interaction": INTERACTION_ESTIMATORS,
}
_WIDTH = 45  # of the nulls beside the longest name, in a terminal of 80 columns


def _fields_of(name: str, maker: Any) -> list[tuple[str, str, str]]:
    """Every field of a text with its default, or the words that it may be, and its meaning."""
    cls, hints = maker.func if isinstance(maker, partial) else maker, {}
    with suppress(NameError):  # a plugin may have annotations for a checker alone
        hints = get_type_hints(cls)
    rows = _fields_of("", Candidates) if cls is Grid else []
    for field, default in fields_of_method(maker).items():
        if field == "candidates" or (name in FORMS and field not in FORMS[name][1]):
            continue
        words = sorted(choices_of(hints.get(field)), key=lambda word: word != default)
        shown = "|".join(words) or ("" if default is None else str(default))
        rows.append((field, shown, first_words(cls, field)))
    return rows


@click.command("methods", short_help="List kernels, estimators, nulls and their fields.")
@click.argument("name", required=False)
def methods(name: str | None) -> None:
    """List estimators, null distributions, kernels, orders and regressions, or the fields of NAME.

    A text has a name and fields, in their order or by name: as shifts:100000, and as
    nystrom-m:n_landmarks=2000,pairing=joint. Of several words the first is the default.
    """
    load_plugins()
    makers: dict[str, tuple[str, Any]] = {
        one: (argument, maker)
        for argument in METHODS
        for one, maker in known_methods(argument).items()
    }
    makers |= {one: ("kernel", build) for one, (build, _) in FORMS.items()}
    makers["grid"] = ("kernel", Grid)
    if name is None:
        blocks = {"estimators of other tests": {t: " ".join(k) for t, k in _OTHER_TESTS.items()}}
        for one, (argument, maker) in makers.items():
            # The first of several words is the default.
            fields = (
                f"{field}={shown.split('|')[0]}" for field, shown, _ in _fields_of(one, maker)
            )
            text = ", ".join(field.removesuffix("=") for field in fields)
            blocks.setdefault(argument, {})[one] = text
        del blocks["estimator"]  # which the table has
        # For every estimator what it costs, what it takes, and which nulls stand with it.
        table = [("estimator", "time", "variables", "nulls")]
        for one, cls in ESTIMATORS.items():
            most = "2+" if cls.most_variables is None else str(cls.most_variables)
            nulls = " ".join(null.name for null in nulls_of(cls))
            first, *others = textwrap.wrap(nulls, _WIDTH, break_on_hyphens=False) or [""]
            table += [(one, cls.cost, most, first), *(("", "", "", more) for more in others)]
        click.echo("\n".join(aligned(table)))
        for title, rows in blocks.items():
            click.echo(f"\n{title}")
            click.echo("\n".join(aligned((f"  {one}", text) for one, text in rows.items())))
        return
    if name not in makers:
        msg = f"NAME must be one of {', '.join(makers)}; got {name!r}{nearest(name, makers)}"
        raise click.UsageError(msg)
    argument, maker = makers[name]
    head = summary(maker.func if isinstance(maker, partial) else maker)
    if name in FORMS:
        fixed = getattr(maker, "keywords", {}).items()
        head = " ".join([head, *(f"{field}={value}" for field, value in fixed)])
    for test, names in _OTHER_TESTS.items():
        if name in names:
            argument, head = f"estimator of 'dhsic {test}'", f"it has the fields of {maker.name}."
    click.echo(f"{name}, {argument}: {head}")
    for line in aligned((f"  {field}", *others) for field, *others in _fields_of(name, maker)):
        click.echo(line)


# --- make zarr groups


_LABELS = 4
_ENDS: Final = ("source", "destination")


def _writes(write: Callable[..., WrittenGroup], what: str) -> Callable[..., None]:
    """A command that writes a zarr group and says what was written."""

    def command(**options: Any) -> None:
        if "variables" in options:
            options["variables"] = columns_by_variable(options["variables"], named=True)
        with progress_bar() as bar:
            bar.begin(what, options.get("rows"))
            written = write(progress=bar.at, **options)
        shapes = ", ".join(f"{name} {rows:,} x {d:,}" for name, (rows, d) in written.shapes.items())
        # Rows that were left out change the population, and are told each time.
        dropped = f"; {written.dropped:,} rows left out" if written.dropped else ""
        click.echo(printable(f"wrote {written.path}: {shapes}{dropped}"))
        # What was read of every column, and what it became.
        rows = []
        for column in written.columns:
            labels = column.categories
            more = ", ..." if len(labels) > _LABELS else ""
            told = f"{len(labels):,}: {', '.join(labels[:_LABELS])}{more}" if labels else ""
            read_as = "numbers" if column.kind == "numeric" else "labels"
            # A value that was rejected was there and was no number; a missing one was not there.
            counts = (f"{column.missing:,}", f"{column.rejected:,}")
            rows.append((column.name, column.variable, column.type, read_as, *counts, told))
        if rows:
            header = ("column", "array", "type", "read as", "missing", "rejected", "categories")
            print_columns(header, rows)

    return command


_TO: Final = click.Argument(["destination"], metavar="OUT.zarr")
generate_command = Command(
    "generate",
    callback=_writes(generate, "generating"),
    params=[
        _TO,
        *options_of(generate, ("destination", "dtype")),
        click.Option(
            ["--dtype"],
            type=click.Choice(["float32", "float64"]),
            default="float32",
            help="Floating-point type of the stored values.",
        ),
    ],
    help=summary(generate),
    epilog="\b\nExample\n  dhsic generate songs.zarr --rows 1000000 --dependence 0.5",
)
_million_song = Command(
    "million-song",
    callback=_writes(convert_million_song, "converting"),
    params=[
        click.Argument(["source"], metavar="YearPredictionMSD.txt"),
        _TO,
        *options_of(convert_million_song, _ENDS),
    ],
    help=summary(convert_million_song),
    epilog="\b\nExample\n  dhsic convert million-song YearPredictionMSD.txt songs.zarr --shuffle 0",
)
_table = Command(
    "table",
    callback=_writes(convert_table, "converting"),
    params=[
        click.Argument(["source"], metavar="IN.csv|IN.parquet"),
        _TO,
        click.Option(
            ["--variable", "variables"],
            multiple=True,
            required=True,
            metavar="NAME=COL,COL,...",
            help="An array and its columns; quote a name with a comma. May be repeated.",
        ),
        *options_of(convert_table, (*_ENDS, "variables")),
    ],
    help=f"{summary(convert_table)} Prints the type and labels of every column.",
    epilog="\b\nExample\n"
    "  dhsic convert table weather.csv weather.zarr \\\n"
    "      --variable air=o3,no2 --variable wind=direction --missing drop",
)
convert = click.Group(
    "convert", commands=[_million_song, _table], help="Convert a table to a zarr group."
)


# --- data with and without dependence, tested


_ALPHA = 0.05
_CASES = {"dependent": 0.3, "independent": 0.0}


@click.command(short_help="Generate data with and without dependence, and test both.")
@click.option("--rows", type=IntRange(4), metavar="N", default=100_000, help="Number of rows.")
@click.option("--features", type=IntRange(1), metavar="D", default=90, help="Number of features.")
@click.option("--seed", type=IntRange(0), metavar="K", default=0, help="Seed of data and tests.")
@click.option("--keep", type=Path, metavar="DIR", help="Keep the data in this folder.")
@click.option("--overwrite", is_flag=True, help="Overwrite data that exist in this folder.")
def demo(rows: int, features: int, seed: int, keep: Path | None, overwrite: bool) -> None:
    """Generate two data sets and test them on worker processes of this machine.

    In one the year depends on the features, in the other it does not; all else is the same.
    """
    workers = processors()
    with ExitStack() as stack:
        # A temporary folder goes also where a test fails or is interrupted.
        folder = keep or Path(stack.enter_context(TemporaryDirectory(prefix="dhsic-demo-")))
        with disk_errors(folder):
            folder.mkdir(exist_ok=True)
        # Said once the folder is there: what is refused prints nothing but why.
        click.echo(f"{rows:,} rows, {features:,} features and a year; worker processes: {workers}")
        bar = stack.enter_context(progress_bar())
        # Both sets have one seed, so that they differ in the dependence alone.
        groups = {name: folder / f"{name}.zarr" for name in _CASES}
        for name, path in groups.items():
            bar.begin(f"generating {name} data", rows)
            generate(
                path,
                rows=rows,
                features=features,
                dependence=_CASES[name],
                seed=seed,
                overwrite=overwrite,
                progress=bar.at,
            )
        # Processes take seconds to import what they run, in which nothing else is heard.
        bar.begin("starting workers")
        names, results = ["features", "year"], {}
        with local_cluster(workers) as client:
            for name, path in groups.items():
                results[name] = dhsic.independence_test(
                    *open_group(str(path), names),
                    names=names,
                    rng=seed,
                    # The data are float32 as well.
                    precision="float32",
                    client=client,
                    progress=bar.hear,
                )
    records = [
        {"data": name, **one.records()[0], "independence": decision(one, _ALPHA)}
        for name, one in results.items()
    ]
    shown = ("data", "method", "statistic", "p_value", "seconds", "independence")
    print_columns(*texts_of(records, shown))
    if keep is not None:
        click.echo(
            f"\nTry: dhsic test {keep / 'dependent.zarr'} --variable features --variable year"
        )


# --- what interrupted runs have left, and its removal


_WHAT = "the URL of checkpoints"


@click.group(short_help="List or remove checkpoints of tests.")
def checkpoints() -> None:
    """List or remove the checkpoints that 'dhsic test --checkpoint URL' keeps."""


@checkpoints.command("list")
@click.argument("url")
def list_checkpoints(url: str) -> None:
    """List the checkpoint at URL, or those in the folder there.

    A line for each pass: how many of its parts are kept, their size and the time of the last. Those
    that cannot be read are named at the end.
    """
    found, broken = find_checkpoints(Folder.at(url, _WHAT))
    for folder, manifest in found:
        click.echo(click.style(str(folder), bold=True))
        click.echo(f"  {_manifest_line(manifest)}")
        passes = kept_passes(folder)
        rows = [
            (
                f"  {kept.name}",
                f"{kept.shards} of {kept.of}",
                format_bytes(kept.size),
                "unknown"
                if kept.modified is None
                else f"{datetime.fromtimestamp(kept.modified):%F %T}",
            )
            for kept in passes
        ]
        if rows:
            print_columns(("  pass", "parts", "size", "last written"), rows)
    # Those that can be read were shown first: one that is broken hides none of them.
    _refuse(broken)


@checkpoints.command()
@click.argument("url")
@click.option("--yes", is_flag=True, help="Remove without asking.")
def clean(url: str, yes: bool) -> None:
    # Listed first, so that the question names all that would go.
    """Remove the checkpoint at URL, or those in the folder there.

    Only folders with the manifest of a checkpoint are touched, and in them only its files. A run
    that uses one must have ended.
    """
    found, broken = find_checkpoints(Folder.at(url, _WHAT))
    if found and not yes:
        for folder, manifest in found:
            click.echo(f"{folder}: {_manifest_line(manifest)}")
        # A question to nobody would hang a batch job.
        if not is_terminal(sys.stdin):
            msg = "there is no terminal to confirm on: add --yes to remove them"
            raise click.UsageError(msg)
        click.confirm("Remove?", abort=True)
    for folder, _ in found:
        left = remove_checkpoint(folder)
        # Only files that a checkpoint writes are removed: the folder may be the user's.
        other = f"; {left} other files are left" if left else ""
        click.echo(f"removed {folder}{other}")
    _refuse(broken)


def _refuse(broken: list[DataError]) -> None:
    if broken:
        raise DataError("; ".join(map(str, broken)))


def _manifest_line(manifest: Manifest) -> str:
    """The run of a manifest, in a line."""
    run: dict[str, Any] = manifest.run
    # The manifest is that of any version, whose fields may be others.
    try:
        names = ", ".join(str(variable["name"]) for variable in run["variables"])
        said = f"{run['computes']} of {names}; {run['rows']:,} rows, seed {run['seed']}"
        return f"{said}, {run['precision']}, dhsic {run['dhsic']}"
    except (KeyError, TypeError, ValueError):
        return "a run that this version cannot describe"


# --- the group


_EPILOG = """\b
Start with
  dhsic demo
and then, on your own table,
  dhsic test songs.csv --variable timbre=t1,t2,t3 --variable year
or, where it does not fit the memory,
  dhsic convert table songs.csv songs.zarr \\
      --variable timbre=t1,t2,t3 --variable year=year
  dhsic plan songs.zarr --variable timbre --variable year
  dhsic test songs.zarr --variable timbre --variable year

\b
Exit codes: 0 the command ran, whatever a test decided; 1 internal error;
2 bad usage or bad data; 130 interrupted.
"""


@click.group(
    "dhsic",
    cls=Application,
    epilog=_EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="dhsic", message="%(prog)s %(version)s")
@click.option(
    "--debug", is_flag=True, expose_value=False, help="Show tracebacks; may stand anywhere."
)
@click.pass_context
def main(context: click.Context) -> None:
    """Test whether variables are independent, with kernels, on data of any length.

    DATA is a zarr group of row-aligned arrays, or a CSV or Parquet file that fits in memory.
    'generate' and 'convert' make zarr groups. 'plan' prints the cost of a test, 'test' runs it, and
    'submit' sends it to a queue. 'rank' ranks many columns by their dependence on a target,
    'matrix' compares all pairs, 'difference' tells on which of two variables a third depends more,
    'sensitivity' maps a measure to rows and columns, 'two-sample' compares samples, 'interaction'
    tests three variables, 'conditional' tests two given others, and 'cause' infers causes.
    'methods' lists the texts of kernels, estimators and nulls.
    """
    # Help, and the exit code of success: nothing was asked for.
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


cause = click.Group(
    "cause",
    commands=[command for name, command in COMMANDS.items() if " " in name],
    short_help="Infer causes from independent residuals.",
    help="Infer causes from independent residuals.\n\n"
    "The regression of a variable on its causes leaves residuals that are independent of them; in "
    "the other direction residuals and variables usually depend on each other. The methods assume "
    "smooth functions, additive noise and no hidden common cause. P-values are approximate, "
    "because residuals are estimated.",
)
_tables = [command for name, command in COMMANDS.items() if " " not in name]

# In the order of the help: make data, test them, look closer, then clusters and what they leave.
for _command in (
    *(generate_command, convert, *_tables, cause, methods, demo),
    *(submit, runs, status, result, cancel, checkpoints),
):
    main.add_command(_command)
