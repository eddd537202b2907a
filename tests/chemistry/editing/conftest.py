from __future__ import annotations

import csv
from pathlib import Path

import pytest

SEEDS = Path(__file__).parents[3] / "campaigns" / "quickstart_seeds.csv"


@pytest.fixture(scope="session")
def seeds() -> list[str]:
    with SEEDS.open(newline="") as file:
        return [row["smiles"] for row in csv.DictReader(file)]
