"""What a ranking returns."""

import dataclasses
import json
import math

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dhsic
from dhsic.errors import InvalidArgumentError, MissingDependencyError
from dhsic.ranking import RankedColumn


@pytest.fixture(scope="module")
def ranking():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 25))
    names = ["<a>", *(f"b{j}" for j in range(24))]
    return dhsic.rank_features(x, x[:, 0] + x[:, 3] ** 2, names=names, rng=0)


def test_json__comes_back_equal(ranking):
    assert dhsic.ColumnRanking.from_json(ranking.to_json()) == ranking
    assert json.loads(ranking.to_json(indent=1))["n"] == 200


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"result": "Other"}', "null"])
def test_json__refuses_other_text(text):
    with pytest.raises(InvalidArgumentError, match="must be the JSON of a ColumnRanking"):
        dhsic.ColumnRanking.from_json(text)


def test_ranking__is_frozen(ranking):
    with pytest.raises(dataclasses.FrozenInstanceError):
        ranking.by = "cka"
    with pytest.raises(dataclasses.FrozenInstanceError):
        ranking.features[0].pvalue = 0.0


def test_text__has_the_strongest_and_says_what_is_left_out(ranking):
    lines = str(ranking).splitlines()
    assert lines[-1] == "... and 5 more"
    assert "<a>" in str(ranking)
    assert len(ranking.table()[1]) == 25
    assert ranking.table(3)[1][0][1] == ranking.ranked()[0].name
    assert "25, ranked by pvalue" in lines[0]


def test_text__says_where_bh_cannot_find_so_few(ranking):
    def limit(count):
        features = tuple(
            dataclasses.replace(feature, pvalue=1 / (ranking.n_resamples + 1) if j < count else 0.5)
            for j, feature in enumerate(ranking.features * 40)
        )
        return dict(dataclasses.replace(ranking, features=features).summary()).get("p-values")

    assert limit(0) is None
    # 1,000 features, of which 2 have p-values of 1 in 10,000 where bh just rejects them.
    assert limit(2).endswith("; bh needs 9,999 to find so few at level 0.05, max-t no more")
    enough = math.ceil(1000 / (0.05 * (ranking.n_resamples + 1)))
    assert "bh" in limit(enough - 1)
    assert "bh" not in limit(enough)


def test_html__escapes_names(ranking):
    page = ranking._repr_html_()
    assert "&lt;a&gt;" in page
    assert "<a>" not in page
    assert "... and 5 more" in page


@pytest.mark.parametrize("by", ["pvalue", "cka", "hsic"])
def test_ranked__has_constants_last(ranking, by):
    weak = dataclasses.replace(
        ranking.features[1], pvalue=1.0, standardised=-2.0, cka=-0.1, hsic=-0.1
    )
    still = RankedColumn.still("still", (9,), "gaussian")
    both = dataclasses.replace(ranking, features=(still, weak))
    assert both.ranked(by) == (weak, still)


def test_rejected__are_those_whose_adjusted_p_value_is_at_most_alpha(ranking):
    for control in ("bh", "by", "bonferroni", "holm", "max-t"):
        for alpha in (0.01, 0.1, 0.5):
            found = ranking.rejected(alpha, control)
            expected = {f.name for f in ranking.features if f.adjusted(control) <= alpha}
            assert set(found) == expected
            order = [f.name for f in ranking.ranked()]
            assert sorted(found, key=order.index) == list(found)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1, "a", True])
def test_rejected__refuses_a_level_out_of_range(ranking, alpha):
    with pytest.raises(InvalidArgumentError, match="alpha must be a number above 0 and below 1"):
        ranking.rejected(alpha)


def test_rejected__refuses_an_unknown_control(ranking):
    with pytest.raises(InvalidArgumentError, match="did you mean 'holm'"):
        ranking.rejected(0.05, "holms")
    with pytest.raises(InvalidArgumentError, match="by must be one of"):
        ranking.ranked("p")


def test_pandas__has_a_row_a_feature(ranking):
    frame = ranking.to_pandas()
    assert list(frame["name"]) == [f.name for f in ranking.ranked()]
    assert frame.set_index("name").loc["<a>", "cka"] == ranking.features[0].cka


def test_pandas__says_what_to_install(ranking, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'dhsic\[tables\]'"):
        ranking.to_pandas()


def lengths(axes):
    """Of the bars, by the names beside them."""
    names = [label.get_text() for label in axes.get_yticklabels()]
    bars = {round(bar.get_y() + bar.get_height() / 2): bar.get_width() for bar in axes.patches}
    return {name: bars[place] for place, name in enumerate(names)}


def test_plot__has_bars_of_what_ranks_and_colours_what_is_found(ranking):
    axes = ranking.plot(alpha=0.03, control="max-t", most=10)
    largest = ranking.ranked("cka")[:10]
    assert lengths(axes) == {f.name: pytest.approx(f.cka) for f in largest}
    found = len(ranking.rejected(0.03, "max-t"))
    assert f"adjusted p ≤ 0.03 (max-t): {found}" in str(axes.get_legend_handles_labels())
    assert axes.get_ylabel() == "dependence on y"
    sizes = tuple(dataclasses.replace(f, sensitivity=f.hsic) for f in ranking.features)
    for by in ("hsic", "sensitivity"):
        other = dataclasses.replace(ranking, by=by, features=sizes).plot(axes.figure.add_subplot())
        assert lengths(other)["<a>"] == pytest.approx(ranking.features[0].hsic)
        assert by in other.get_xlabel().lower()
    with pytest.raises(InvalidArgumentError, match="control must be one of"):
        ranking.plot(control="none")
    plt.close("all")
