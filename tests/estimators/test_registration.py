"""Kernels, nulls and estimators that are written elsewhere, by name."""

import copy
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

import dhsic
from dhsic import _validation
from dhsic.cli import main
from dhsic.errors import InvalidArgumentError
from dhsic.estimators import (
    ESTIMATORS,
    NULLS,
    VHSIC,
    Estimate,
    Estimator,
    Functions,
    Outcome,
    plan_of,
)
from dhsic.estimators.choose import nulls_of
from dhsic.kernels import Gaussian, Kernel, parse
from dhsic.kernels.wrap import FORMS
from dhsic.nulls import Permutation, Replicates

X, NOISE = np.random.default_rng(0).standard_normal((2, 80))
Y = X + NOISE


@dataclass(frozen=True)
class Sign(Kernel):
    """1 where signs are equal."""

    weight: float = 1.0
    shift: float = 0.0

    name: ClassVar[str] = "sign"

    def tile(self, rows, columns, out, work):
        np.equal(rows[:, :1] > self.shift, columns[:, 0] > self.shift, out=out, casting="unsafe")
        np.multiply(out, self.weight, out=out)


@dataclass(frozen=True)
class Maximum(dhsic.FromReplicates):
    """Whether the statistic is the largest."""

    name: ClassVar[str] = "maximum"

    def distribution(self, values):
        return Replicates(np.full(len(values), values.max()))


@dataclass(frozen=True)
class Shuffled(Permutation):
    """Permutations under another name."""

    n_resamples: int = 49

    name: ClassVar[str] = "shuffled"


@dataclass(frozen=True)
class Correlation(Estimator):
    """n r^2 of the first columns, by all rows at once."""

    name: ClassVar[str] = "correlation"
    most_variables: ClassVar[int | None] = 2
    nulls: ClassVar[object] = "permutation"
    cost: ClassVar[str] = "n log n"

    def choose_null(self, session, n_resamples):
        return Permutation(n_resamples), "exact"

    def plan(self, session, combinations, null):
        return plan_of(session, [], "take fewer rows")

    def estimate(self, session, kernels):
        x, y = (z[:, 0] for z in session.take([np.arange(session.n)] * 2))
        return Estimate(np.corrcoef(x, y)[0, 1] ** 2, tuple(kernels), quantity="r^2")

    def test(self, session, kernels, null):
        x, y = (z[:, 0] for z in session.take([np.arange(session.n)] * 2))
        rng = np.random.default_rng(session.seed)
        drawn = [np.corrcoef(x, rng.permutation(y))[0, 1] ** 2 for _ in range(null.n_resamples)]
        estimate = self.estimate(session, kernels)
        return Outcome(estimate.value, Replicates(np.array(drawn)), estimate)


@dataclass(frozen=True)
class ManyWaves(dhsic.RFFHSIC):
    """Random features, of the kernels of a grid."""

    name: ClassVar[str] = "many-waves"
    tries_grids: ClassVar[bool] = True


def known():
    facts = {name: (nulls_of(cls), cls.most_variables) for name, cls in ESTIMATORS.items()}
    return copy.copy(FORMS), facts, copy.copy(NULLS)


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = known()
    yield
    for cls in (Sign, Maximum, Shuffled, Correlation, ManyWaves):
        if cls.name in {*FORMS, *ESTIMATORS, *NULLS}:
            dhsic.unregister(cls.name)
    assert known() == before


def run(**options):
    return dhsic.independence_test(X, Y, rng=0, threads=1, **options)


def test_kernel__is_read_and_written():
    assert dhsic.register(Sign) is Sign
    assert parse("sign") == Sign()
    assert parse("sign:2:0.5 * gaussian") == Sign(2.0, 0.5) * Gaussian()
    assert Sign(2.0, 0.5).spec() == "sign:2.0:0.5"
    result = run(kernels=["sign", "gaussian"], estimator="v-hsic")
    assert result.pvalue < 0.01
    assert result.variables[0].kernel == "sign:1.0:0.0"
    ranked = dhsic.rank_features(
        np.c_[NOISE, X], Y, feature_kernels="sign", estimator="v-hsic", rng=0
    )
    assert ranked.features[0].pvalue < 0.01
    assert len(dhsic.Candidates(("gaussian", "sign")).scaled) == 5


def test_null__stands_with_what_its_replicates_do():
    dhsic.register(Maximum)
    for cls in ESTIMATORS.values():
        assert (Maximum in nulls_of(cls)) == (Permutation in nulls_of(cls))
    result = run(null="maximum", n_resamples=19)
    assert (result.null, result.pvalue, result.grid) == ("maximum", 1 / 20, None)
    assert run(null=Maximum(39), estimator="dcov").pvalue == 1 / 40
    assert dhsic.plan(X, Y, null="maximum", estimator="auto").n == 80
    assert run(null="maximum", estimator="auto").null == "maximum"
    with pytest.raises(
        InvalidArgumentError, match=r"'maximum' is not available for block-hsic.*it is for nys"
    ):
        run(null="maximum", estimator="block-hsic")
    with pytest.raises(InvalidArgumentError, match="several kernels for a variable need"):
        run(null="maximum", kernels=dhsic.Grid.auto())
    with pytest.raises(InvalidArgumentError, match="replicates that features share"):
        dhsic.rank_features(np.c_[X, NOISE], Y, null="maximum", rng=0)


def test_null__without_a_name_is_a_value():
    assert run(null=Maximum(19)).pvalue == 1 / 20
    with pytest.raises(InvalidArgumentError, match="'maximum' is not available for block-hsic"):
        run(null=Maximum(19), estimator="block-hsic")
    with pytest.raises(InvalidArgumentError, match="n_resamples must be left out where"):
        run(null=Maximum(19), n_resamples=9)
    with pytest.raises(InvalidArgumentError, match="n_resamples must be an integer >= 1, got 0"):
        Maximum(0)


def test_null__of_some_estimators():
    @dhsic.register
    @dataclass(frozen=True)
    class OfTwo(Maximum):
        name: ClassVar[str] = "maximum"
        estimators: ClassVar[object] = ["v-hsic", dhsic.UHSIC]

    assert run(null="maximum", estimator="u-hsic").null == "maximum"
    for null in ("maximum", OfTwo()):
        with pytest.raises(InvalidArgumentError, match="is not available for nystrom-m"):
            run(null=null, estimator="nystrom-m")
        assert run(null=null).estimator == "v-hsic"

    @dhsic.register
    @dataclass(frozen=True)
    class OfAll(OfTwo):
        name: ClassVar[str] = "maximum-of-all"

    assert run(null=OfAll(), estimator="nystrom-m").null == "maximum-of-all"
    dhsic.unregister(OfAll)


def test_null__derived_from_another():
    dhsic.register(Shuffled)
    found = run(null="shuffled", kernels="gaussian")
    usual = run(null=Permutation(49), kernels="gaussian")
    assert (found.null, found.pvalue) == ("shuffled", usual.pvalue)
    assert run(null="shuffled", n_resamples=9).grid is not None
    assert dhsic.rank_features(np.c_[X, NOISE], Y, null="shuffled", rng=0).null == "shuffled"


def test_estimator__by_name_and_by_value():
    assert dhsic.register(Correlation) is Correlation
    assert run(estimator="correlation").pvalue == 0.001
    assert run(estimator=Correlation(), null="permutation", n_resamples=19).pvalue == 0.05
    assert dhsic.hsic(X, Y, estimator="correlation").estimate > 0.3
    assert dhsic.plan(X, Y, estimator="correlation").n == 80
    with pytest.raises(InvalidArgumentError, match="takes at most 2 variables, got 3: take nys"):
        dhsic.independence_test(X, Y, X, estimator="correlation", rng=0)
    with pytest.raises(InvalidArgumentError, match="for correlation; choose auto or permutation"):
        run(estimator="correlation", null="gamma")
    with pytest.raises(InvalidArgumentError, match="several kernels for a variable need"):
        run(estimator="correlation", kernels=dhsic.Grid.auto())
    with pytest.raises(InvalidArgumentError, match="many features against one target need"):
        dhsic.rank_features(np.c_[X, NOISE], Y, estimator="correlation", rng=0)
    with pytest.raises(InvalidArgumentError, match=r"'correlation', got .* mean 'correlation'"):
        run(estimator="corelation")


def test_null__that_is_removed_stands_with_no_estimator():
    dhsic.register(Shuffled)
    dhsic.register(attributes(nulls=["shuffled", "permutation"]))
    dhsic.unregister("shuffled")
    with pytest.raises(InvalidArgumentError, match=r"for correlation; choose auto or permutation$"):
        run(estimator="correlation", null="shuffled")


def test_estimator__of_random_features_tries_kernels_that_have_them():
    dhsic.register(ManyWaves)
    assert run(estimator="many-waves").grid is not None


@pytest.mark.parametrize("estimator_first", [True, False])
def test_estimator__stands_with_nulls_made_of_its_replicates(estimator_first):
    for cls in (Correlation, Maximum) if estimator_first else (Maximum, Correlation):
        dhsic.register(cls)
    assert run(estimator="correlation", null="maximum", n_resamples=19).pvalue == 0.05
    dhsic.unregister("maximum")
    assert nulls_of(Correlation) == (Permutation,)


def test_estimator__without_a_name_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"got Correlation\(\): dhsic.register"):
        run(estimator=Correlation())


def test_command_line__knows_new_names(tmp_path):
    import zarr

    group = zarr.open_group(tmp_path / "pair.zarr", mode="w")
    for name, values in (("x", X), ("y", Y)):
        group.create_array(name, data=values[:, None])
    pair = (str(tmp_path / "pair.zarr"), "--variable", "x", "--variable", "y")

    def invoke(*options):
        return CliRunner().invoke(main, ["test", *pair, *options])

    named = ("--estimator", "correlation", "--null", "maximum", "--kernel", "sign")
    assert "'correlation' is not one of" in invoke(*named).output
    dhsic.register(Correlation)
    dhsic.register(Maximum)
    dhsic.register(Sign)
    done = invoke(*named, "--resamples", "19")
    assert done.exit_code == 0, done.output
    assert "p-value    <= 0.05 (the smallest with 19 replicates" in done.output
    assert "maximum" in done.output
    table = CliRunner().invoke(main, ["methods"]).output
    assert "correlation   n log n  2          permutation maximum" in table
    assert "'corr' is not one of" in invoke("--estimator", "corr").output


@dataclass(frozen=True)
class Bare(Estimator):
    name: ClassVar[str] = "bare"


@dataclass(frozen=True)
class NoFunction(Functions):
    name: ClassVar[str] = "no-function"


def attributes(base=Correlation, **told):
    """A class with some attributes of its own."""
    facts = {"name": base.name, "__annotations__": {}, **told}
    return dataclass(frozen=True)(type("Own", (base,), facts))


@dataclass(frozen=True)
class NoGuess(Correlation):
    name: ClassVar[str] = "no-guess"
    prepare = VHSIC.prepare


class Old:
    """As estimators were written once, with methods alone."""

    name = "old"
    kernel = choose_null = plan = estimate = test = Correlation.estimate


@dataclass(frozen=True)
class NoTile(Kernel):
    name: ClassVar[str] = "no-tile"


@dataclass(frozen=True)
class NoDistribution(dhsic.FromReplicates):
    name: ClassVar[str] = "no-distribution"


class Loose(Sign):
    name: ClassVar[str] = "loose"


@dataclass(frozen=True)
class Unnamed(Sign):
    pass


@dataclass(frozen=True)
class Wanting(Sign):
    needed: float = None
    name: ClassVar[str] = "wanting"

    def __init__(self, needed):
        pass


@dataclass(frozen=True)
class Misspelt(Sign):
    name: ClassVar[str] = "misspelt"

    def spec(self):
        return "gaussian"


def named(text):
    return dataclass(frozen=True)(type("Named", (Sign,), {"name": text, "__annotations__": {}}))


@pytest.mark.parametrize(
    ("cls", "options", "match"),
    [
        (Sign(), {}, r"register needs a class, got Sign\(.*: pass the class"),
        (NoTile, {}, "must have all methods of its base, got NoTile without tile: add them"),
        (NoDistribution, {}, "got NoDistribution without distribution"),
        (Bare, {}, "an estimator must .*, got Bare without guess, prepare: add them"),
        (NoFunction, {}, "an estimator must .*, got NoFunction without function: add them"),
        (Old, {}, "got Old, which .* no base of these: derive from dhsic.estimators.Functions, "),
        (Loose, {}, "must be a frozen dataclass, got Loose, which is not: write @dataclass"),
        (Unnamed, {}, "got None as the attribute name of Unnamed: write name = "),
        (Wanting, {}, "must be made without arguments, got .*: give every field a default"),
        (Misspelt, {}, "must be read from the text that its spec.* got 'gaussian' from Misspelt"),
        *(
            (named(text), {}, "a name must be small letters and digits")
            for text in ("Sign", "a b", "a:b", "a+b", "", "1a", "auto", "none", "columns", "a1e", 7)
        ),
        *(
            (named(text), {}, f"must be free, got {text!r} for Named, which is taken: take another")
            for text in ("gaussian", "gamma", "v-hsic")
        ),
        (Sign, {"cost": "n"}, "has no argument 'cost'; it takes extension"),
        (None, {}, "register needs a class, got None"),
        (attributes(Maximum, estimators="vhsic"), {}, "among .*, got 'vhsic'; did you mean 'v-hs"),
        (
            attributes(Maximum, estimators=[]),
            {},
            "estimators must name one or more of .*; got",
        ),
        (attributes(nulls=[]), {}, "nulls must name one or more of shifts, .*; got none"),
        (attributes(nulls=[VHSIC]), {}, "nulls must be among shifts, .* got 'VHSIC'"),
        (attributes(nulls="chain"), {}, "'chain' must have the methods guess and prepare"),
        (attributes(NoGuess, nulls="chain"), {}, "'chain' must have the methods guess and prepare"),
        *(
            (attributes(most_variables=most), {}, f"must be an integer >= 2, got {most!r}")
            for most in (1, 0, "many")
        ),
    ],
)
def test_register__refuses(cls, options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        dhsic.register(cls, **options)


def test_register__again_needs_unregister():
    dhsic.register(Sign)
    with pytest.raises(InvalidArgumentError, match=r"taken: dhsic.unregister\('sign'\) frees it"):
        dhsic.register(Sign)
    dhsic.unregister("sign")
    dhsic.register(Sign)


@pytest.mark.parametrize("cls", ["gaussian", "nothing", VHSIC, Sign])
def test_unregister__leaves_what_is_not_registered(cls):
    with pytest.raises(InvalidArgumentError, match=r"registered names .*; registered are: none"):
        dhsic.unregister(cls)


@pytest.fixture
def plugins(monkeypatch):
    """Entry points as installed packages would have them."""
    points = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [*points])
    monkeypatch.setattr(_validation, "_LOADED", set())
    return points


def test_plugins__are_loaded_where_a_name_is_not_known(plugins, monkeypatch, tmp_path):
    (tmp_path / "names_of_mine.py").write_text(
        f"import dhsic, {__name__} as tests\n"
        "dhsic.register(tests.Sign)\n"
        "dhsic.register(tests.Maximum)\n"
        "dhsic.register(tests.Correlation)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plugins.append(EntryPoint("mine", "names_of_mine", _validation.GROUP))
    assert run(null="maximum", n_resamples=19).pvalue == 0.05
    assert parse("sign:2") == Sign(2.0)
    assert run(estimator="correlation").estimator == "correlation"


def test_plugins__that_fail_are_told_once(plugins):
    plugins.append(EntryPoint("broken", "no_such_module_at_all", _validation.GROUP))
    with (
        pytest.warns(_validation.PluginWarning, match="'broken' must load .*: repair"),
        pytest.raises(InvalidArgumentError, match="did you mean 'gaussian'"),
    ):
        parse("gausian")
    with pytest.raises(InvalidArgumentError, match="did you mean 'gaussian'"):
        parse("gausian")
