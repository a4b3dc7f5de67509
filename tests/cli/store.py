"""The data of tests of commands: a zarr group, its chain of causes, samples, and tables."""

from pathlib import Path

import numpy as np
import pandas as pd
import zarr

ROWS = 300


def write_files(folder: Path) -> None:
    """Write `data.zarr`, `table.csv`, `pairs/` and files that nobody can read."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((ROWS, 3))
    z = rng.standard_normal((ROWS, 3))
    cause = rng.uniform(-1.0, 1.0, ROWS)
    order = np.arange(ROWS)
    group = zarr.create_group(folder / "data.zarr")
    for name, values in {
        "x": x,
        "y": np.sin(2.0 * x[:, :1]) + 0.5 * rng.standard_normal((ROWS, 1)),
        "z": z,
        "same": z[:, :1] + 0.1 * rng.standard_normal((ROWS, 1)),
        "cause": cause,
        "effect": 2.0 * cause**2 + rng.uniform(-1.0, 1.0, ROWS),
        "far": rng.normal([0.6, 0.0, 0.0], size=(200, 3)),
        "label": rng.integers(0, 4, (ROWS, 1)),
        "fives": order // 5,
        "weight": rng.uniform(0.5, 2.0, ROWS),
        "constant": np.ones((ROWS, 1)),
        "gap": np.where(order == 170, np.nan, z[:, 0]),
        "short": x[:100],
        "cube": np.zeros((ROWS, 2, 2)),
    }.items():
        group.create_array(name, data=values, chunks=(100, *values.shape[1:]))
    group["label"].attrs["kind"] = "categorical"
    group["x"].attrs["columns"] = ["first", "second", "third"]
    lost = zarr.create_group(folder / "lost.zarr")
    for name, values in {"x": x, "y": x[:, :1], "z": z}.items():
        lost.create_array(name, data=values + 3.0, chunks=(100, values.shape[1]))
    (folder / "lost.zarr/x/c/1/0").unlink()
    names = ["a", "b", "c"]
    pd.DataFrame(x, columns=names).assign(label=np.where(order % 2, "u", "v")).to_csv(
        folder / "table.csv", index=False
    )
    people = pd.DataFrame({" pay ": x[:, 0], "z": x[:, 1], "y": x[:, 0] + z[:, 0]})
    days, prices = pd.date_range("2020", periods=ROWS), [f"${value:.2f}" for value in cause]
    people.assign(day=days, id=[f"u{i}" for i in order], price=prices).to_csv(folder / "people.csv")
    write_pairs(folder / "pairs")
    (folder / "empty").mkdir()
    (folder / "forged").mkdir()
    (folder / "forged/dhsic-checkpoint.json").write_text("[]")


def write_pairs(folder: Path) -> None:
    """Write pairs of both directions, one with a column that belongs to neither variable."""
    folder.mkdir()
    lines = []
    for number in range(1, 5):
        x, noise, other = np.random.default_rng(number).uniform(-1.0, 1.0, (3, 100))
        columns = [x, x + x**3 + 0.6 * noise][:: 1 if number % 2 else -1]
        extra = [np.where(other > 0, np.nan, 1.0)] if number == 3 else []
        np.savetxt(folder / f"pair000{number}.txt", np.column_stack([*columns, *extra]))
        cause, effect = (1, 2) if number % 2 else (2, 1)
        lines.append(f"000{number} {cause} {cause} {effect} {effect} 0.5")
    (folder / "pairmeta.txt").write_text("\n".join(lines) + "\n")
