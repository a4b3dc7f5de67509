"""The command line: ``dhsic``."""

from dhsic.cli.app import main

__all__ = ["main"]
