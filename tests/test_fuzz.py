"""Nearly valid calls of everything public end in an error of this package, or in finite numbers."""

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz import (
    Samples,
    Words,
    calls,
    check_call,
    check_command,
    command_lines,
    commands,
    public_functions,
)

CALLS = int(os.environ.get("DHSIC_FUZZED_CALLS", "20000"))
FUNCTIONS, COMMANDS = public_functions(), commands()


def settled(count):
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return Samples(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture
def words(samples, monkeypatch):
    monkeypatch.chdir(samples.folder)  # where files of relative names go
    return Words(samples.folder)


def test_every_command__has_valid_words(words):
    assert words.valid.keys() == COMMANDS.keys()


@settled(250)
@given(data=st.data())
def test_functions__refuse_in_words_or_answer(samples, data):
    name, args, kwargs = data.draw(calls(samples, FUNCTIONS))
    check_call(FUNCTIONS[name], args, kwargs)


@settled(120)
@given(data=st.data())
def test_commands__refuse_in_words_or_answer(words, data):
    check_command(*data.draw(command_lines(words, COMMANDS)))


@pytest.mark.nightly
@pytest.mark.timeout(0)
@settled(CALLS * 4 // 5)
@given(data=st.data())
def test_many_calls__refuse_in_words_or_answer(samples, data):
    name, args, kwargs = data.draw(calls(samples, FUNCTIONS))
    check_call(FUNCTIONS[name], args, kwargs)


@pytest.mark.nightly
@pytest.mark.timeout(0)
@settled(CALLS // 5)
@given(data=st.data())
def test_many_commands__refuse_in_words_or_answer(words, data):
    check_command(*data.draw(command_lines(words, COMMANDS)))
