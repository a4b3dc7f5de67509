"""What works without the extras, here where they are kept from being imported.

`.ci/nightly` does the same in an environment that has none of them.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests import bare


def test_package__imports_without_extras_and_errors_name_them():
    command = [sys.executable, "-P", bare.__file__, "--blocked"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "errors name their extras" in done.stdout


def test_extras__of_the_package_are_those_that_are_kept_away():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"])
    assert set(bare.OPTIONAL.values()) <= extras
    together = {"all", "docs", "notebook", "test"}  # each of several others, or of tools
    assert extras - together <= set(bare.OPTIONAL.values())
