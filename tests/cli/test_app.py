"""What all commands share."""

import logging
import signal

import pytest

import dhsic
from dhsic.cli import interrupts, main
from tests.cli.conftest import Invoke

PAIR = ("--variable", "x", "--variable", "y")


def test_version(invoke: Invoke) -> None:
    assert invoke("--version").stdout == f"dhsic {dhsic.__version__}\n"


def test_help_names_every_command(invoke: Invoke) -> None:
    for arguments in ((), ("--help",), ("-h",)):
        done = invoke(*arguments)
        assert (done.exit_code, done.stderr) == (0, "")
        for name in ("convert", "demo", "generate", "plan", "test"):
            assert f"\n  {name} " in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("name", ["test", "plan", "generate", "demo", "convert table"])
def test_help_of_a_command(invoke: Invoke, name: str) -> None:
    done = invoke(*name.split(), "--help")
    assert done.exit_code == 0
    assert f"Usage: dhsic {name}" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_group_without_a_command_shows_its_help(invoke: Invoke) -> None:
    done = invoke("convert")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "million-song" in done.stderr


@pytest.mark.parametrize("place", [0, 1, 2])
def test_debug_shows_the_traceback_wherever_it_stands(invoke: Invoke, place: int) -> None:
    arguments = ["test", "nowhere.zarr", *PAIR]
    arguments.insert((0, 1, len(arguments))[place], "--debug")
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("dhsic: error: ")


def test_debug_after_the_end_of_options_is_an_argument(invoke: Invoke) -> None:
    done = invoke("test", *PAIR, "--", "--debug")
    assert "Traceback" not in done.stderr
    assert "--debug' is not a readable zarr group" in done.stderr


@pytest.mark.parametrize("debug", [False, True])
def test_a_bug_is_a_line(
    invoke: Invoke, data: str, monkeypatch: pytest.MonkeyPatch, debug: bool
) -> None:
    def broken(*_: object, **__: object) -> None:
        logging.getLogger("distributed").error("noise")
        message = "first\nsecond"
        raise RuntimeError(message)

    monkeypatch.setattr("dhsic.independence_test", broken)
    done = invoke("test", data, *PAIR, *(["--debug"] if debug else []))
    assert (done.exit_code, done.stdout) == (1, "")
    expected = (
        "dhsic: internal error: RuntimeError: first second; run with --debug for the traceback"
    )
    assert done.stderr.splitlines()[-1] == expected
    assert ("Traceback" in done.stderr) == debug == (done.stderr.count("\n") > 1)


def test_an_interrupt_is_a_line(invoke: Invoke, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dhsic.independence_test", interrupted)
    done = invoke("test", data, *PAIR)
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr.strip() == "dhsic: interrupted"


def test_nothing_of_the_process_stays_changed(invoke: Invoke) -> None:
    before = signal.getsignal(signal.SIGTERM), logging.root.manager.disable
    with pytest.raises(SystemExit):
        main(["--version"])
    assert (signal.getsignal(signal.SIGTERM), logging.root.manager.disable) == before
    assert signal.set_wakeup_fd(-1) == -1


def test_termination_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupts._interrupt(signal.SIGTERM, None)
