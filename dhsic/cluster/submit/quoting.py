"""Words of a user on their way into scripts and manifests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

import yaml

from dhsic.errors import InvalidArgumentError
from dhsic.io.urls import redacted

_VALUE = re.compile(r"[A-Za-z0-9_.,:@/+=\[\]-]+")


def check_words(words: Sequence[str]) -> tuple[str, ...]:
    """Refuse words that no command line can carry, or that carry a secret into files."""
    for number, word in enumerate(words, start=1):
        if "\0" in word or not _is_text(word):
            msg = f"a command must be text, and word {number} of it is {word!r}: rename it"
            raise InvalidArgumentError(msg)
        if redacted(word) != word:
            msg = (
                f"a command is written to files and must hold no password or signature, got "
                f"{redacted(word)[:80]!r} with one: use the environment of the job"
            )
            raise InvalidArgumentError(msg)
    return tuple(words)


def shell_line(words: Sequence[str]) -> str:
    """A line that a shell reads as exactly these words."""
    return shlex.join(words)


def directive(option: str, value: Any) -> str:
    """A line of the head of a job script, which no shell reads and no quoting protects."""
    text = str(value)
    if not _VALUE.fullmatch(text):
        msg = (
            f"{option} of a job must be of letters, digits and _.,:@/+=[]-, got {text[:80]!r}: "
            "choose another"
        )
        raise InvalidArgumentError(msg)
    return f"#SBATCH --{option}={text}"


def container_words(words: Sequence[str]) -> list[str]:
    """Words of a container's command, in which Kubernetes replaces ``$(NAME)``."""
    # `$$` is how Kubernetes writes a dollar sign.
    return [word.replace("$", "$$") for word in words]


def yaml_text(documents: Sequence[Any]) -> str:
    """Documents as YAML that every reader takes for the same values."""
    return yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=10**6
    )


class _Dumper(yaml.SafeDumper):
    """Without anchors, and with text of several lines as a block, for those who read it."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> Any:
    # Scripts are read by people: a block keeps their lines.
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
