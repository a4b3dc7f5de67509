"""Files of cause-effect pairs that are out of order, or do not say what they must."""

import pytest

from dhsic.errors import DataError
from dhsic.io.cause_effect_pairs import read_pairs

ROWS = "1 10\n2 30\n3 20\n"


def written(folder, meta=None, files=("pair1.txt",)):
    for name in files:
        (folder / name).write_text(ROWS)
    if meta is not None:
        (folder / "pairmeta.txt").write_text(meta)
    return folder


def test_pairs__come_by_their_numbers(tmp_path):
    folder = written(tmp_path, files=("pair10.txt", "pair2.txt"))
    assert [pair.name for pair in read_pairs(folder)] == ["pair2", "pair10"]


def test_pairs__of_one_number_are_refused(tmp_path):
    with pytest.raises(DataError, match="differ in their numbers"):
        read_pairs(written(tmp_path, files=("pair1.txt", "pair0001.txt")))


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ("1 1 2 1 2 1", "other columns for cause and effect"),
        ("1 1 1 1 2 1", "other columns for cause and effect"),
        ("1 1 1 nan 2 1", "six numbers"),
        ("1 1.7 1.2 2 2 1", "six numbers"),
        ("1 1 1 2 2", "six numbers"),
        ("1 1 1 2 2 -1", "weight of at least 0"),
        ("1 1 1 2 2 nan", "weight of at least 0"),
        ("1 1 1 2 2 1\n1 2 2 1 1 1", "two of pair 1"),
    ],
)
def test_meta__that_cannot_be_meant_is_refused(tmp_path, meta, said):
    with pytest.raises(DataError, match=said):
        read_pairs(written(tmp_path, meta + "\n"))
