"""Selection: what is found, by the definitions, with every option."""

import functools

import numpy as np
import pytest
from sklearn.linear_model import Lasso

import dhsic
from dhsic._random import generator
from dhsic.engine.reduction import RowBlock
from dhsic.errors import (
    DataError,
    InvalidArgumentError,
    MemoryBudgetError,
    MissingDependencyError,
)
from dhsic.kernels import Combinations, Delta, Gaussian, Linear, OnColumns
from dhsic.ranking.greedy import backward, forward
from dhsic.ranking.lasso import LassoPass, LassoSums, lasso_path
from dhsic.ranking.linear import ClassPass, LinearPass, class_scores
from dhsic.ranking.rank import open_columns
from tests import oracles as gram_oracles
from tests.ranking import oracles


def make(n=400, d=6, seed=0):
    """Column 1 matters, 5 is nearly a copy of it, 2 and 3 matter together."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x[:, 5] = x[:, 1] + 0.1 * rng.standard_normal(n)
    y = x[:, 1] + 2 * x[:, 2] * x[:, 3] + 0.3 * rng.standard_normal(n)
    return x, y


def additive(n=400, d=8, seed=0):
    """Columns 1, 4 and 6 matter; of fewer columns the first d of 1, 4, 6 and 0."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, max(d, 7)))
    y = x[:, 1] + np.abs(x[:, 4]) + np.sin(2 * x[:, 6]) + 0.2 * rng.standard_normal(n)
    return (x if d >= 7 else x[:, [1, 4, 6, 0][:d]]), y


def weights(subsets):
    """A measure with a known best set: 3, then 1; 0 and 2 help only together."""
    worth = {0: 0.0, 1: 2.0, 2: 0.0, 3: 5.0}
    return np.array([sum(worth[j] for j in s) + 10.0 * ({0, 2} <= set(s)) for s in subsets])


def test_forward__takes_the_best_step_by_step():
    assert forward(weights, 4, 2) == ((3, 1), [5.0, 7.0])
    chosen, values = forward(weights, 4, 4)
    assert set(chosen) == {0, 1, 2, 3}
    assert values[-1] == 17.0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_backward__keeps_what_matters_only_together(share):
    chosen, _ = backward(weights, 4, 3, share)
    assert set(chosen) == {0, 2, 3}


def test_backward__drops_the_share_and_never_more_than_it_may():
    sizes = []

    def measure(subsets):
        sizes.append(len(subsets))
        return np.array([-sum(subset) for subset in subsets], float)

    # The dependence is largest without the largest numbers.
    assert sorted(backward(measure, 10, 4, 0.5)[0]) == [0, 1, 2, 3]
    assert sizes == [10, 5, 4]
    assert backward(lambda s: np.zeros(len(s)), 1, 1, 0.0) == ((0,), [0.0])


@pytest.mark.parametrize("estimator", ["nystrom-m", "v-hsic"])
@pytest.mark.parametrize("criterion", ["cka", "hsic"])
def test_backward__finds_an_interaction(estimator, criterion):
    x, y = make(300)
    found = dhsic.select_features(
        x, y, 3, method="backward", criterion=criterion, estimator=estimator, rng=0
    )
    assert {"x[2]", "x[3]"} < set(found.names)


@pytest.mark.parametrize("method", ["forward", "backward", "lasso"])
def test_select__finds_what_matters(method):
    x, y = additive()
    found = dhsic.select_features(x, y, 3, method=method, rng=0)
    assert set(found.names) == {"x[1]", "x[4]", "x[6]"}
    assert found.columns == tuple((int(name[2]),) for name in found.names)
    assert (found.method, found.n, found.n_features) == (method, 400, 8)


def test_forward__is_greedy_in_cka_of_v_hsic():
    x, y = additive(120, 4)
    found = dhsic.select_features(x, y, 2, estimator="v-hsic", rng=0)
    scaled = x / x.std(axis=0)
    target = Gaussian().fit(y[:, None])(y[:, None])

    def cka(columns):
        values = scaled[:, columns]
        return oracles.cka(Gaussian().fit(values)(values), target)

    first = max(range(4), key=lambda j: cka([j]))
    second = max((j for j in range(4) if j != first), key=lambda j: cka([first, j]))
    assert found.columns == ((first,), (second,))
    np.testing.assert_allclose(found.scores, [cka([first]), cka([first, second])], rtol=1e-9)


@pytest.mark.parametrize("method", ["forward", "backward", "linear", "lasso"])
def test_select__takes_no_notice_of_units(method):
    x, y = additive(200)
    found = [
        dhsic.select_features(data, y, 2, method=method, rng=0).names
        for data in (x, x * 10.0 ** np.arange(-4, 4) + 3.0)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("unit", [1e90, 1e-90])
def test_linear__scores_do_not_depend_on_the_units_of_features(unit):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 4))
    y = x[:, 2] + 0.3 * rng.standard_normal(200)
    plain, large = (
        dhsic.select_features(scale * x, scale**0.5 * y, 2, method="linear", rng=0)
        for scale in (1.0, unit)
    )
    assert large.columns == plain.columns
    np.testing.assert_allclose(np.array(large.scores) / unit, plain.scores, rtol=1e-9)


def test_linear__is_hsic_with_linear_kernels():
    x, y = additive(100)
    found = dhsic.select_features(x, y, 8, method="linear", rng=0)
    h = np.eye(100) - 0.01
    for (j,), score in zip(found.columns, found.scores, strict=True):
        unit = x[:, j] / x[:, j].std()
        hsic = np.trace(np.outer(unit, unit) @ h @ np.outer(y, y) @ h) / 100**2
        assert score == pytest.approx(hsic, rel=1e-9)
    assert list(found.scores) == sorted(found.scores, reverse=True)
    assert found.names[0] == "x[1]"


def test_linear__of_classes_is_hsic_with_the_delta_kernel():
    x, y = additive(150)
    labels = np.digitize(y, [-0.5, 0.5, 1.5])
    found = dhsic.select_features(x, labels, 8, method="linear", target_kernel="delta", rng=0)
    same = (labels[:, None] == labels).astype(float)
    for (j,), score in zip(found.columns, found.scores, strict=True):
        unit = (x[:, j] - x[:, j].mean()) / x[:, j].std()
        assert score == pytest.approx(gram_oracles.v_hsic([np.outer(unit, unit), same]), rel=1e-8)


def test_linear__of_two_classes_is_the_difference_of_their_means():
    """Gretton (2020), section 5, for features in units of their standard deviation."""
    x, y = additive(150)
    labels = (y > 1.0).astype(int)
    found = dhsic.select_features(x, labels, 8, method="linear", target_kernel="delta", rng=0)
    unit = x / x.std(axis=0)
    steps = (unit[labels == 1].mean(axis=0) - unit[labels == 0].mean(axis=0)) ** 2
    shares = labels.mean() * (1 - labels.mean())
    expected = 2 * shares**2 * steps
    order = [columns[0] for columns in found.columns]
    np.testing.assert_allclose(found.scores, expected[order], rtol=1e-9)
    assert order == np.argsort(-steps).tolist()


def test_linear__of_more_classes_than_planned_says_what_to_do():
    rows = np.arange(1025.0)
    with pytest.raises(DataError, match=r"at most 1,024 classes, got 1,025 and more: take target"):
        dhsic.select_features(rows, rows, 1, method="linear", target_kernel="delta", rng=0)


def test_lasso__plans_for_all_columns_of_the_target():
    kernels = Combinations.against([Gaussian(gamma=1.0)] * 2, Gaussian(gamma=1.0))
    narrow, wide = (LassoPass(kernels, (2, q), 20, 3, 0).footprint(4096) for q in (2, 102))
    assert wide.scratch - narrow.scratch == 2 * 8 * 4096 * 100


@pytest.mark.parametrize("kernel", ["linear", "delta"])
def test_linear__merges_blocks_without_loss(kernel):
    x, y = additive(20_000, 7)
    x += 1e6
    y = np.round(y) if kernel == "delta" else y
    options = {"method": "linear", "target_kernel": kernel, "rng": 0}
    found = dhsic.select_features(x, y, 7, **options)
    shifted = dhsic.select_features(x - 1e6, y, 7, **options)
    assert found.names == shifted.names
    np.testing.assert_allclose(found.scores, shifted.scores, rtol=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "delta"])
@pytest.mark.parametrize("value", [0.1, 1e6 + 0.1])
def test_linear__of_a_constant_is_exactly_none(kernel, value):
    rng = np.random.default_rng(0)
    y = np.sort(rng.standard_normal((1000, 1)), axis=0)
    y = np.digitize(y, [-0.5, 0.7]).astype(float) if kernel == "delta" else y
    x = np.column_stack([np.full(1000, value), rng.standard_normal(1000)])
    reduction = ClassPass(2) if kernel == "delta" else LinearPass(2, 1)
    cuts = [slice(0, 333), slice(333, 340), slice(340, 1000)]
    blocks = [reduction.chunk(RowBlock(at.start, (x[at], y[at]))) for at in cuts]
    moments = functools.reduce(reduction.combine, blocks)
    scores = class_scores(moments) if kernel == "delta" else moments.scores
    assert scores[0] == 0.0
    assert scores[1] > 0.0


def lasso_sums(x, y, block_rows, n_permutations, seed=0):
    session = open_columns(x, y, seed, "float64", None, 1, "2GiB")
    kernels = [OnColumns(Gaussian(gamma=0.5), (j,)) for j in range(x.shape[1])]
    combinations = Combinations.against(kernels, Gaussian(gamma=0.3))
    return session.run(LassoPass(combinations, session.dims, block_rows, n_permutations, seed))


def test_class_pass__plans_as_many_classes_as_it_takes():
    reduction = ClassPass(3)
    y = np.arange(1025.0)[:, None]
    x = np.repeat(y, 3, axis=1)
    found = reduction.chunk(RowBlock(0, (x[:-1], y[:-1])))
    assert reduction.footprint(1024).state == sum(one.nbytes for one in found)
    with pytest.raises(DataError, match="at most 1,024 classes, got 1,025"):
        reduction.chunk(RowBlock(0, (x, y)))


def test_lasso__sums_are_those_of_centred_blocks():
    x, y = additive(50, 3)
    sums = lasso_sums(x, y, 20, 2)
    orders = generator(0, "permutation", 0).permuted(
        np.broadcast_to(np.arange(50), (2, 1, 50)), axis=-1
    )[:, 0]
    grams = [gram_oracles.gaussian_gram(x[:, [j]], x[:, [j]], 0.5) for j in range(3)]
    target = gram_oracles.gaussian_gram(y[:, None], y[:, None], 0.3)
    np.testing.assert_allclose(
        sums.products, oracles.lasso_products(grams, target, orders, 20), rtol=1e-9
    )
    assert sums.blocks == 4


def test_lasso__path_is_that_of_the_solver():
    x, y = additive(300, 8)
    sums = lasso_sums(x, y, 20, 3)
    found = lasso_path(sums, 3)
    assert np.count_nonzero(found) == 3
    gram, target = sums.products[:-1, :-1] / sums.blocks, sums.products[:-1, -1] / sums.blocks
    # Rows whose normal equations these are; the penalty from the conditions of optimality.
    root = np.linalg.cholesky(gram)
    penalty = float((target - gram @ found)[found > 0].mean())
    solved = Lasso(
        penalty / 8, positive=True, fit_intercept=False, tol=1e-12, max_iter=100_000
    ).fit(root.T, np.linalg.solve(root, target))
    np.testing.assert_allclose(found, solved.coef_, atol=1e-6)


def test_lasso__selects_more_than_500():
    products = np.eye(602)
    products[-1, :-1] = products[:-1, -1] = np.linspace(0.01, 0.02, 601)
    assert np.count_nonzero(lasso_path(LassoSums(products, 1.0), 600)) == 600


def test_lasso__leaves_out_copies():
    x, y = additive()
    x[:, 7] = x[:, 1]
    found = dhsic.select_features(x, y, 3, method="lasso", rng=0)
    assert len({"x[1]", "x[7]"} & set(found.names)) == 1


def test_lasso__selects_fewer_where_no_more_help():
    x, y = additive(100, 3)
    x[:, 0] = 1.0 + 1e-3 * np.round(x[:, 0])
    found = dhsic.select_features(np.repeat(x[:, [1]], 3, axis=1), y, 3, method="lasso", rng=0)
    assert len(found.names) < 3


def test_lasso__options_change_what_they_say():
    x, y = additive(100)
    base = {"method": "lasso", "rng": 0}
    first = dhsic.select_features(x, y, 3, **base)
    for changed in ({"block_rows": 10}, {"n_permutations": 1}, {"rng": 1}):
        assert dhsic.select_features(x, y, 3, **base | changed).scores != first.scores


def test_lasso__says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.linear_model", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'dhsic\[selection\]'"):
        dhsic.select_features(*additive(60), 2, method="lasso", rng=0)


@pytest.mark.parametrize("method", ["forward", "backward", "linear", "lasso"])
def test_groups__are_selected_whole(method):
    x, y = additive(200)
    groups = {"first": [0, 1], "second": [2, 3], "third": [4, 5, 6]}
    found = dhsic.select_features(x, y, 2, method=method, groups=groups, rng=0)
    assert "second" not in found.names or method == "linear"
    assert set(found.columns) <= {(0, 1), (2, 3), (4, 5, 6)}


def test_kernels__are_those_asked_for():
    x, y = additive(150)
    base = dhsic.select_features(x, y, 2, rng=0).scores
    assert dhsic.select_features(x, y, 2, rng=0, feature_kernel="laplacian").scores != base
    assert dhsic.select_features(x, y, 2, rng=0, target_kernel="laplacian").scores != base
    assert dhsic.select_features(x, y, 2, rng=0, criterion="hsic").scores != base
    assert dhsic.select_features(x, y, 2, rng=0, precision="float32").scores != base
    names = [f"c{j}" for j in range(8)]
    assert dhsic.select_features(x, y, 1, rng=0, names=names).names == ("c1",)


def test_select__is_the_same_on_workers(client):
    x, y = additive(4200, 3)  # two row blocks
    options = {"method": "lasso", "rng": 0, "n_permutations": 1}
    there, here = (dhsic.select_features(x, y, 2, client=c, **options) for c in (client, None))
    assert (there.names, there.scores) == (here.names, here.scores)


def test_json__comes_back_equal():
    found = dhsic.select_features(*additive(60), 2, method="linear", rng=0)
    assert dhsic.ColumnSelection.from_json(found.to_json()) == found
    with pytest.raises(InvalidArgumentError, match="must be the JSON of a ColumnSelection"):
        dhsic.ColumnSelection.from_json("{}")
    assert "x[1]" in str(found)
    assert "<table>" in found._repr_html_()


BAD = [
    ({"k": 0}, "k must be an integer >= 1"),
    ({"k": 9}, "k must be at most the number of features, 8; got 9"),
    ({"method": "ahead"}, "method must be one of"),
    ({"criterion": "pvalue"}, "criterion must be one of"),
    ({"share": 1.0}, "share must be from 0 to below 1"),
    ({"block_rows": 1}, "block_rows must be an integer >= 2"),
    ({"n_permutations": 0}, "n_permutations must be an integer >= 1"),
    ({"estimator": "coco"}, "need estimator 'nystrom-m', 'nystrom-hsic', 'v-hsic' or 'auto'"),
    ({"method": "linear", "target_kernel": "gaussian"}, "needs target_kernel 'linear' or 'delta'"),
]


@pytest.mark.parametrize(("options", "words"), BAD, ids=lambda x: str(x)[:40])
def test_select__refuses_what_it_cannot_use(options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        dhsic.select_features(*additive(60), **{"k": 2, "rng": 0, **options})


def test_select__refuses_more_memory_than_allowed():
    x, y = np.random.default_rng(0).standard_normal((2, 50, 1))
    wide = np.repeat(x, 2000, axis=1) + np.arange(2000)
    with pytest.raises(MemoryBudgetError, match="fewer features"):
        dhsic.select_features(wide, y, 2, method="lasso", rng=0, memory="350MiB")


def test_linear__refuses_classes_of_several_columns():
    x, y = additive(60)
    with pytest.raises(InvalidArgumentError, match="needs a target of one column, got 2"):
        dhsic.select_features(
            x, np.round(np.column_stack([y, y])), 2, method="linear", target_kernel=Delta()
        )
    both = dhsic.select_features(
        x, np.column_stack([y, y]), 1, method="linear", target_kernel=Linear()
    )
    one = dhsic.select_features(x, y, 1, method="linear")
    assert both.scores[0] == pytest.approx(2 * one.scores[0])


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("method", ["forward", "backward", "lasso"])
def test_select__takes_columns_too_rare_for_the_rows_that_set_bandwidths(method, scale):
    n = 3000
    rng = np.random.default_rng(5)
    x = np.zeros((n, 3))
    x[-3:, 0], x[:, 1], x[-3:, 2] = scale, rng.standard_normal(n), [1.0, 2.0, 3.0]
    y = x[:, 1] + rng.standard_normal(n)
    found = dhsic.select_features(
        x, y, 1, method=method, estimator=dhsic.NystromMHSIC(40), rng=1, n_permutations=1
    )
    assert found.names == ("x[1]",)
    assert np.isfinite(found.scores).all()
