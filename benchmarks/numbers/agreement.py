"""How far computed values lie from measured ones, and the file that keeps it."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent


def agreement(computed: Sequence[float], measured: Sequence[float]) -> dict[str, float]:
    """Mean absolute and mean signed error, root mean square, largest; Pearson's and Spearman's correlation; slope,
    intercept and residual of measured over computed. In the unit of the values."""
    from scipy.stats import linregress, spearmanr

    x = np.array(computed)
    y = np.array(measured)
    error = x - y
    line = linregress(x, y)
    residual = (y - line.slope * x - line.intercept).std(ddof=2)
    found = {
        "n": len(x),
        "mean_absolute": abs(error).mean(),
        "mean_signed": error.mean(),
        "root_mean_square": (error**2).mean() ** 0.5,
        "median_absolute": np.median(abs(error)),
        "largest": abs(error).max(),
        "pearson": line.rvalue,
        "spearman": spearmanr(x, y).statistic,
        "slope": line.slope,
        "intercept": line.intercept,
        "residual": residual,
    }
    return {key: int(value) if key == "n" else round(float(value), 3) for key, value in found.items()}


def table(name: str) -> list[dict[str, str]]:
    """Rows of a CSV beside this file; lines that begin with # say where it comes from."""
    lines = [line for line in (HERE / name).read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def keep(name: str, command: str, result: dict[str, Any], engines: Sequence[str] = ("tblite", "rdkit", "ase")) -> None:
    """Write NAME beside this file, with the command and the versions that made it."""
    head = {"command": command, "versions": {engine: version(engine) for engine in engines}}
    text = json.dumps(head | result, indent=1, ensure_ascii=False)
    (HERE / name).write_text(text + "\n", encoding="utf-8")
