"""How long a ledger of 10^6 candidates takes to list the best, and to write chances after a refit of the law.

    python -m benchmarks.scheduling_scale.best --out benchmarks/scheduling_scale/best.json

The candidates of `invented` get random worths. The twenty best are read as `sciagent best` reads them, once by the
index and once with all indexes forbidden, alternated. Then the chances of 22,000 random candidates are written, the
most that a refit of the law evaluates.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from benchmarks.scheduling_scale.invented import NOW, invented, opened
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import execute_many
from sciagent.store.database.ledger import Ledger
from sciagent.store.views.report_candidates import best_candidates

CANDIDATES = 1_000_000
SHOWN = 20
WRITTEN = 22_000
REPEATS = 5
CHUNK = 20_000


def fill(connection: sa.Connection, campaign_id: int, n: int, random: np.random.Generator) -> None:
    """Enters n candidates with random chances, expected utilities and margins; a thousandth are hits."""
    for first in range(0, n, CHUNK):
        places = range(first, min(first + CHUNK, n))
        chances = random.integers(0, 100, len(places))
        hits = random.random(len(places)) < 1e-3
        utilities = np.round(random.random(len(places)), 6)
        margins = random.normal(size=len(places))
        rows = []
        standings = []
        for place, chance, is_hit, utility, margin in zip(
            places, chances.tolist(), hits.tolist(), utilities.tolist(), margins.tolist(), strict=True
        ):
            rows.append(
                {"id": place + 1, "key": f"{place:064x}", "text": "C", "identity": str(place), "inchikey": None}
                | {"formula": "CH4", "charge": 0, "multiplicity": 1, "n_atoms": 5, "payload": {}, "created_at": NOW}
                | {"kind": "molecule", "standardiser": "1", "library": "rdkit"}
            )
            standings.append(
                {"campaign_id": campaign_id, "candidate_id": place + 1, "seq": place, "standing": "open"}
                | {"position": 1, "depth": 0, "chance": 100 if is_hit else chance, "p_hit": chance / 100}
                | {"expected_utility": utility, "margin": margin, "basis": "line", "is_hit": is_hit}
                | {"in_seeds": False, "updated_at": NOW}
            )
        execute_many(connection, t.candidate, rows)
        execute_many(connection, t.campaign_candidate, standings)


def best_without_index(connection: sa.Connection, campaign_id: int) -> list[int]:
    """Returns the ids of the best by reading all rows of the table."""
    order = ", ".join(
        str(term.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})) for term in t.BEST_FIRST
    )
    query = f"SELECT candidate_id FROM campaign_candidate NOT INDEXED WHERE campaign_id = ? ORDER BY {order} LIMIT ?"
    return list(connection.exec_driver_sql(query, (campaign_id, SHOWN)).scalars())


def measured(n: int, folder: Path) -> dict[str, Any]:
    """Returns the times in seconds, medians of `REPEATS`."""
    random = np.random.default_rng(0)
    ledger = Ledger(str(folder / "sciagent.db"))
    with invented():
        built = opened(ledger, folder, 1000, "priced", 1)
    with ledger.begin() as connection:
        fill(connection, built.row.id, n, random)
    by_index = []
    by_scan = []
    with ledger.read() as connection:
        row = campaigns.get(connection, built.row.name)
        for _ in range(REPEATS):
            began = time.perf_counter()
            best = [candidate.id for candidate in best_candidates(connection, row, SHOWN)]
            by_index.append(time.perf_counter() - began)
            began = time.perf_counter()
            same = best_without_index(connection, row.id)
            by_scan.append(time.perf_counter() - began)
            assert best == same
    writing = []
    for _ in range(REPEATS):
        chosen = random.choice(n, min(WRITTEN, n), replace=False) + 1
        chances = random.integers(1, 100, len(chosen)).tolist()
        values = {
            id_: {"p_hit": chance / 100, "chance": chance, "basis": "law"}
            for id_, chance in zip(chosen.tolist(), chances, strict=True)
        }
        began = time.perf_counter()
        with ledger.begin() as connection:
            candidate_standings.update_many(connection, built.row.id, values)
        writing.append(time.perf_counter() - began)
    ledger.close()
    return {
        "candidates": n,
        "best_by_index_s": round(statistics.median(by_index), 5),
        "best_by_scan_s": round(statistics.median(by_scan), 3),
        "written_chances": min(WRITTEN, n),
        "writing_s": round(statistics.median(writing), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=CANDIDATES)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measured(arguments.n, Path(folder))
    text = json.dumps({"command": "python -m benchmarks.scheduling_scale.best", **result}, indent=1) + "\n"
    sys.stdout.write(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
