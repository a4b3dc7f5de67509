"""The public names are what they claim to be, and are documented."""

import importlib
import inspect
import pkgutil

import pytest
from numpydoc.validate import validate

import dhsic

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(dhsic.__path__, "dhsic.")
    if not module.name.endswith("__main__")
)
PUBLIC = [
    f"{module}.{name}"
    for module in ("dhsic", "dhsic.bench", "dhsic.causal", "dhsic.integrations", "dhsic.kernels")
    for name in importlib.import_module(module).__all__
    if inspect.isclass(getattr(importlib.import_module(module), name))
    or inspect.isfunction(getattr(importlib.import_module(module), name))
]
RESULTS = ("Result", "Estimate", "Curve", "CausalDirection", "CausalDirections")
REQUIRED = {"GL08", "SS01", "SS03", "PR01", "PR02", "PR03", "RT01", "GL03", "GL07", "EX01"}


@pytest.mark.parametrize("name", MODULES)
def test_all__names_what_is_defined(name):
    module = importlib.import_module(name)
    public = getattr(module, "__all__", [])
    assert len(set(public)) == len(public)
    for item in public:
        assert hasattr(module, item)
    defined = {
        item
        for item, value in vars(module).items()
        if getattr(value, "__module__", None) == name
        and not item.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
    }
    assert defined <= set(public), f"{defined - set(public)} of {name} is not in __all__"


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring__is_complete(name):
    exempt = {"EX01", "PR01"} if name.endswith(RESULTS) else set()
    if name.endswith("Kernel"):
        exempt = {"EX01"}
    if name.endswith("Regression"):  # a protocol is not made
        exempt = {"PR01"}
    found = [(code, text) for code, text in validate(name)["errors"] if code in REQUIRED - exempt]
    assert not found


def test_version__is_the_package_s():
    from importlib.metadata import version

    assert dhsic.__version__ == version("dhsic")
