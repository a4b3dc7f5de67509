"""The public names are what they claim to be, and are documented."""

import inspect
import re
from importlib import import_module
from importlib.metadata import version
from operator import attrgetter

import pytest
from numpydoc.validate import validate

import dhsic

PACKAGES = [
    "dhsic",
    *(f"dhsic.{name}" for name in ("analysis", "bench", "causal", "cluster", "integrations")),
    *("dhsic.kernels", "dhsic.report"),
]
DOCUMENTED = [
    f"{package}.{name}"
    for package in PACKAGES
    for name in import_module(package).__all__
    if inspect.isclass(one := getattr(import_module(package), name)) or inspect.isfunction(one)
]
# Made by functions of the package, or protocols that are not made: no parameters of their own.
RESULTS = ("Result", "Estimate", "Curve", "CausalDirection", "CausalDirections", "Regression")
REQUIRED = {"GL08", "SS01", "SS03", "PR01", "PR02", "PR03", "RT01", "GL03", "GL07", "EX01"}


@pytest.mark.parametrize("package", PACKAGES)
def test_all__names_what_is_there_once(package):
    module = import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstring__is_complete(name):
    exempt = {"EX01", "PR01"} if name.endswith(RESULTS) else set()
    if name.endswith("Kernel"):
        exempt = {"EX01"}
    package, _, own = name.rpartition(".")
    if "Yields" in getattr(import_module(package), own).__doc__:
        exempt = {"RT01"}
    found = [(code, text) for code, text in validate(name)["errors"] if code in REQUIRED - exempt]
    assert not found


def test_package__has_its_version_and_no_other_attributes():
    assert dhsic.__version__ == version("dhsic")
    with pytest.raises(AttributeError, match="has no attribute 'independance_test'"):
        dhsic.independance_test  # noqa: B018
    assert set(dir(dhsic)) >= {*dhsic.__all__, "causal"}
    assert [name for name in dir(dhsic) if name[0] == "_"] == ["__version__"]
    assert not {"api", "io", "ranking", "import_module"} & set(dir(dhsic))


@pytest.mark.parametrize("name", ["independence_test", "two_sample_test", "hsic", "plan_matrix"])
def test_missing__data_are_a_type_error_as_in_python(name):
    with pytest.raises(TypeError, match=f"{name}: missing (variables|samples), or data=") as caught:
        getattr(dhsic, name)()
    assert isinstance(caught.value, dhsic.errors.InvalidArgumentError)


GONE = {
    "FeatureRanking": "it is called ColumnRanking",
    "FeatureSelection": "it is called ColumnSelection",
    "RankedFeature": "it is called RankedColumn",
    "Sequential": "permutations that stop were removed",
    "causal.conditional_independence_test": "it is called residual_independence_test",
    "causal.roc_curve": "take sklearn.metrics",
    "plots.dependence_matrix": "it is called dependence_heatmap",
    "plots.sensitivity_map": "it is called sensitivity_field",
}


@pytest.mark.parametrize("name", GONE)
def test_removed_name__is_told_with_what_serves(name):
    import_module("dhsic.plots")
    with pytest.raises(AttributeError, match=f"has no attribute .*; {re.escape(GONE[name])}"):
        attrgetter(name)(dhsic)
