"""The selector is an estimator of scikit-learn, and its score a function of its selectors."""

import numpy as np
import pytest
import scipy.sparse as sp

import dhsic
from dhsic.errors import DataError, InvalidArgumentError, MemoryBudgetError

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from sklearn.base import clone
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dhsic.integrations import DependenceSelector, dependence_score

X = np.random.default_rng(0).standard_normal((200, 5))
Y = X[:, 1] ** 2 + X[:, 3] + 0.3 * np.random.default_rng(1).standard_normal(200)


# The first is about arrays that scikit-learn itself must be told of by an environment variable.
@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix:UserWarning")
@parametrize_with_checks([DependenceSelector(method="linear"), DependenceSelector(threads=1)])
def test_selector__passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", ["pvalue", "cka", "hsic", "forward", "backward", "lasso"])
def test_selector__finds_what_the_package_finds(method):
    found = DependenceSelector(2, method=method, random_state=0).fit(X, Y)
    assert np.flatnonzero(found.support_).tolist() == [1, 3]
    np.testing.assert_array_equal(found.transform(X), X[:, [1, 3]])
    assert np.isfinite(found.scores_[found.support_]).all()
    assert found.n_features_in_ == 5


def test_selector__linear_does_not_see_a_square():
    found = DependenceSelector(1, method="linear", random_state=0).fit(X, Y)
    assert np.flatnonzero(found.support_).tolist() == [3]


def test_selector__ranks_as_rank_features():
    seed = np.random.RandomState(7).randint(2**31)
    expected = dhsic.rank_features(X, Y, rng=seed)
    found = DependenceSelector(random_state=7).fit(X, Y)
    assert found.pvalues_.tolist() == [one.pvalue for one in expected.features]
    assert found.scores_.tolist() == [one.standardised for one in expected.features]
    assert found.support_.sum() == 2  # half of five
    names = [f"x[{j}]" for j in np.flatnonzero(found.support_)]
    assert set(names) == {one.name for one in expected.ranked()[:2]}


def test_alpha__keeps_what_is_rejected():
    few = DependenceSelector(alpha=0.01, control="max-t", random_state=0).fit(X, Y)
    assert np.flatnonzero(few.support_).tolist() == [1, 3]
    none = DependenceSelector(alpha=1e-6, random_state=0).fit(X, Y)
    assert not none.support_.any()


def test_options__reach_what_they_are_for():
    usual = DependenceSelector(2, random_state=0).fit(X, Y)
    other = DependenceSelector(2, random_state=1).fit(X, Y)
    assert usual.scores_.tolist() != other.scores_.tolist()
    landmarks = DependenceSelector(2, estimator=dhsic.NystromMHSIC(5), random_state=0).fit(X, Y)
    assert usual.scores_.tolist() != landmarks.scores_.tolist()
    with pytest.raises(MemoryBudgetError):
        DependenceSelector(2, memory="1MiB").fit(X, Y)
    with pytest.raises(InvalidArgumentError, match="threads"):
        DependenceSelector(2, threads=0).fit(X, Y)


def test_target__of_numbers_as_objects_is_numbers():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150, 4))
    y = x[:, 1] + x[:, 3] ** 2
    for found, expected in zip(
        dependence_score(x, y.astype(object)), dependence_score(x, y), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    gaps = np.where(np.arange(150) < 3, None, np.where(y > 0, "a", "b"))
    with pytest.raises(DataError, match="missing values in 3 rows"):
        DependenceSelector(2).fit(x, gaps)
    with pytest.raises(DataError, match="time"):
        dependence_score(x, np.datetime64("2020-01-01") + np.arange(150))


def test_target__of_categories_is_categories():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    codes = np.random.default_rng(0).permutation([10, 20, 30] * 50)
    x = X[:150] + (codes == 20)[:, None]
    for y in (pd.Series(codes, dtype="category"), pd.Categorical(codes)):
        expected = dependence_score(x, codes.astype(str))
        assert dependence_score(x, y)[0].tolist() == expected[0].tolist()
        scores = DependenceSelector(2, random_state=0).fit(x, y).scores_
        assert scores.tolist() == (
            DependenceSelector(2, random_state=0).fit(x, codes.astype(str)).scores_.tolist()
        )
    table = pd.DataFrame({"a": pd.Categorical(codes), "b": x[:, 0]})
    assert DependenceSelector(1, random_state=0).fit(x, table).support_[0]


def test_score__of_constants_is_behind_that_of_noise():
    x = X.copy()
    x[:, [0, 4]] = 1.0, -3.0
    scores, pvalues = dependence_score(x, Y)
    assert np.isnan(scores).tolist() == [True, False, False, False, True]
    assert scores[2] < 0.0
    assert pvalues[[0, 4]].tolist() == [1.0, 1.0]
    assert SelectKBest(dependence_score, k=3).fit(x, Y).get_support(indices=True).tolist() == [
        1,
        2,
        3,
    ]
    found = DependenceSelector(3, random_state=0).fit(x, Y)
    assert np.flatnonzero(found.support_).tolist() == [1, 2, 3]


def test_sparse__features_are_scored_and_targets_are_refused():
    sparse, y = sp.csc_array(X * (X > 0)), sp.csr_array(Y[:, None])
    expected = SelectKBest(dependence_score, k=2).fit(sparse.toarray(), Y)
    found = SelectKBest(dependence_score, k=2).fit(sparse, Y)
    assert found.scores_.tolist() == expected.scores_.tolist()
    for fit in (dependence_score, DependenceSelector(2).fit):
        with pytest.raises(DataError, match=r"y must be dense, .* \.toarray\(\)"):
            fit(X, y)
    with pytest.raises(DataError, match="numbers that are written as text"):
        dependence_score(X.astype(str) + "u", Y)


def test_refit__keeps_no_pvalues_of_another_method():
    x = np.random.default_rng(0).standard_normal((60, 4))
    selector = DependenceSelector(2, method="pvalue", random_state=0).fit(x, x[:, 0])
    assert len(selector.pvalues_) == 4
    selector.set_params(method="linear").fit(x[:, :3], x[:, 0])
    assert not hasattr(selector, "pvalues_")


def test_pipeline__has_names_and_classes():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(X, columns=list("abcde"))
    labels = np.where(X[:, 3] > 0, "up", "down")
    pipe = make_pipeline(
        StandardScaler(), DependenceSelector(1, random_state=0), LogisticRegression()
    ).set_output(transform="pandas")
    assert pipe.fit(frame, labels).score(frame, labels) > 0.9
    assert pipe[:-1].get_feature_names_out().tolist() == ["d"]
    assert pipe[:-1].transform(frame).columns.tolist() == ["d"]
    assert clone(pipe)[1].get_params()["n_features_to_select"] == 1


def test_score__stands_in_select_k_best():
    best = SelectKBest(dependence_score, k=2).fit(X, Y)
    assert best.get_support(indices=True).tolist() == [1, 3]
    expected = dhsic.rank_features(X, Y, rng=0, null=dhsic.Shifts(2000))
    scores, pvalues = dependence_score(X, Y, rng=0, null=dhsic.Shifts(2000))
    assert scores.tolist() == [one.standardised for one in expected.features]
    assert pvalues.tolist() == [one.pvalue for one in expected.features]
    assert scores.tolist() != best.scores_.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_features_to_select": 6}, "at most the 5 features"),
        ({"n_features_to_select": 0}, "n_features_to_select must be an integer >= 1"),
        ({"method": "pvalu"}, "did you mean 'pvalue'"),
        ({"alpha": 0.1, "method": "forward"}, "alpha goes with a method that ranks"),
        ({"alpha": 0.1, "n_features_to_select": 2}, "drop one of them"),
        ({"alpha": 2.0}, "alpha must be"),
        ({"control": "zzz"}, "control must be one of 'bh'"),
    ],
)
def test_selector__refuses(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        DependenceSelector(**options).fit(X, Y)
