"""Packages that add kernels, nulls and estimators by themselves once they are installed."""

from __future__ import annotations

import warnings

GROUP = "dhsic.plugins"

_LOADED: set[str] = set()


class PluginWarning(UserWarning):
    """An installed package that adds names to dhsic cannot be loaded."""


def load_plugins() -> None:
    """Load the entry points of the group ``dhsic.plugins``, each once.

    Called where a name is not known or all names are listed, so that `import dhsic` looks for none.
    A package says ``[project.entry-points."dhsic.plugins"]`` and a line ``name = "module"``; the
    module calls `dhsic.register`.
    """
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        if point.name in _LOADED:
            continue
        _LOADED.add(point.name)  # before it is loaded, since it may ask for names itself
        try:
            point.load()
        # A plugin that is broken must not keep dhsic from starting.
        except Exception as error:
            msg = (
                f"plugin {point.name!r} must load {point.value!r} to add its names, got "
                f"{type(error).__name__}: {error}: repair or uninstall its package"
            )
            warnings.warn(msg, PluginWarning, stacklevel=2)
