"""The command line: ``dhsic``."""

from dhsic.cli.commands import main

__all__ = ["main"]
