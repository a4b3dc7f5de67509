"""The selector is an estimator of scikit-learn, and its score a function of its selectors."""

import numpy as np
import pandas as pd
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
CODES = np.random.default_rng(0).permutation([10, 20, 30] * 50)


# The first is about arrays that scikit-learn itself must be told of by an environment variable.
@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix:UserWarning")
@parametrize_with_checks([DependenceSelector(threads=1)])
def test_selector__passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", ["pvalue", "cka", "hsic", "forward", "backward", "lasso"])
def test_selector__finds_what_the_package_finds(method):
    found = DependenceSelector(2, method=method, random_state=0).fit(X, Y)
    assert np.flatnonzero(found.support_).tolist() == [1, 3]
    np.testing.assert_array_equal(found.transform(X), X[:, [1, 3]])
    assert np.isfinite(found.scores_[found.support_]).all()
    again = found.set_params(method="forward", n_features_to_select=1).fit(X, Y)
    assert again.support_.sum() == 1
    assert not hasattr(again, "pvalues_")


def test_selector__ranks_as_rank_features():
    seed = np.random.RandomState(7).randint(2**31)
    expected = dhsic.rank_features(X, Y, rng=seed)
    found = DependenceSelector(random_state=7).fit(X, Y)
    assert found.pvalues_.tolist() == [one.pvalue for one in expected.features]
    assert found.scores_.tolist() == [one.standardised for one in expected.features]
    assert found.support_.sum() == 2  # half of five


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"alpha": 0.01, "control": "max-t"}, [1, 3]),
        ({"alpha": 1e-6}, []),
        ({"n_features_to_select": 2, "estimator": dhsic.NystromMHSIC(5)}, [1, 3]),
    ],
)
def test_options__reach_what_they_are_for(options, kept):
    found = DependenceSelector(random_state=0, **options).fit(X, Y)
    assert np.flatnonzero(found.support_).tolist() == kept
    usual = DependenceSelector(random_state=0).fit(X, Y)
    assert (found.scores_.tolist() != usual.scores_.tolist()) == ("estimator" in options)


@pytest.mark.parametrize(
    "labels", [pd.Series(CODES, dtype="category"), pd.Categorical(CODES), CODES.astype(object)]
)
def test_target__of_any_form_has_its_kind(labels):
    x = X[:150] + (CODES == 20)[:, None]
    same = CODES if labels.dtype == object else CODES.astype(str)
    expected = dependence_score(x, same)
    assert dependence_score(x, labels)[0].tolist() == expected[0].tolist()
    scores = DependenceSelector(2, random_state=0).fit(x, labels).scores_
    assert scores.tolist() == DependenceSelector(2, random_state=0).fit(x, same).scores_.tolist()


def test_score__of_constants_is_behind_that_of_noise():
    x = X.copy()
    x[:, [0, 4]] = 1.0, -3.0
    scores, pvalues = dependence_score(x, Y)
    assert np.isnan(scores).tolist() == [True, False, False, False, True]
    assert scores[2] < 0.0
    assert pvalues[[0, 4]].tolist() == [1.0, 1.0]
    for selector in (SelectKBest(dependence_score, k=3), DependenceSelector(3, random_state=0)):
        assert selector.fit(x, Y).get_support(indices=True).tolist() == [1, 2, 3]


def test_score__is_that_of_rank_features_for_sparse_features_too():
    sparse = X * (X > 0)
    null = dhsic.Shifts(2000)
    expected = dhsic.rank_features(sparse, Y, rng=0, null=null)
    target = sp.csr_array(Y[:, None])
    scores, pvalues = dependence_score(sp.csc_array(sparse), target, rng=0, null=null)
    assert scores.tolist() == [one.standardised for one in expected.features]
    assert pvalues.tolist() == [one.pvalue for one in expected.features]


def test_pipeline__has_names_and_classes():
    frame = pd.DataFrame(X, columns=list("abcde"))
    labels = np.where(X[:, 3] > 0, "up", "down")
    pipe = make_pipeline(
        StandardScaler(), DependenceSelector(1, random_state=0), LogisticRegression()
    ).set_output(transform="pandas")
    assert pipe.fit(frame, labels).score(frame, labels) > 0.9
    assert pipe[:-1].get_feature_names_out().tolist() == ["d"]
    assert pipe[:-1].transform(frame).columns.tolist() == ["d"]
    assert clone(pipe)[1].get_params()["n_features_to_select"] == 1


def test_categories__are_features_as_numbers_are():
    rng = np.random.default_rng(0)
    kind = rng.choice(["u", "v", "w"], 200)
    frame = pd.DataFrame({0: X[:, 0], 1: pd.Categorical(kind), 2: rng.choice(kind, 200)})
    selector = DependenceSelector(1, random_state=0).fit(frame, Y + 9 * (kind == "u"))
    assert selector.support_.tolist() == [False, True, False]
    assert selector.transform(frame)[:, 0].tolist() == kind.tolist()


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (Y, {"n_features_to_select": 6}, "at most the 5 features"),
        (Y, {"n_features_to_select": 0}, "n_features_to_select must be an integer >= 1"),
        (Y, {"method": "pvalu"}, "did you mean 'pvalue'"),
        (Y, {"alpha": 0.1, "method": "forward"}, "alpha needs a method that ranks"),
        (Y, {"alpha": 0.1, "n_features_to_select": 2}, "drop one of them"),
        (Y, {"alpha": 2.0}, "alpha must be"),
        (Y, {"control": "zzz"}, "control must be one of 'bh'"),
        (Y, {"threads": 0}, "threads"),
        (Y, {"memory": "1MiB"}, "allowed"),
        (np.where(np.arange(200) < 3, None, "a"), {}, "missing values, first in row 0"),
        (np.datetime64("2020-01-01") + np.arange(200), {}, "time"),
    ],
)
def test_selector__refuses(y, options, message):
    with pytest.raises((InvalidArgumentError, DataError, MemoryBudgetError), match=message):
        DependenceSelector(**options).fit(X, y)
