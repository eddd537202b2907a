"""The cost of laws in a ledger of 10^6 candidates: of a fit, a turn of the proposer `law`, and a turn behind a filter.

    python -m benchmarks.law.scale

The candidates of benchmarks/scheduling_scale wait for a rung, with chances to be hits by the scheduler's law; the
deciding rung has answered 20,000 of them, few of which are hits. CPU seconds and the memory that a step takes at its
peak, beside the same ledger without the candidates that wait. Nothing of the campaign's own turn is run but what
concerns the law: what is known is read, the law is fitted, and 130 children are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import sqlalchemy as sa  # noqa: E402

from benchmarks.scheduling_scale.invented import ANSWERED, COMMON, MEAN, SPREAD, Dear, invented, molecules, opened  # noqa: E402
from sciagent.agent.proposers.hit_chances import HitChances  # noqa: E402
from sciagent.campaign.core.built_campaign_and_derived_values import Built  # noqa: E402
from sciagent.campaign.core.create_and_open import open_campaign_for_people  # noqa: E402
from sciagent.campaign.file.proposers import FilterSpec  # noqa: E402
from sciagent.campaign.law.fit_law import fit_law, read_campaigns  # noqa: E402
from sciagent.campaign.law.past_values import past_values  # noqa: E402
from sciagent.campaign.proposing.law_filter import LawFilter  # noqa: E402
from sciagent.campaign.proposing.proposal_novelty import measured_candidates  # noqa: E402
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured  # noqa: E402
from sciagent.domain.properties_and_levels import HOMO_LUMO_GAP, Level  # noqa: E402
from sciagent.domain.proposer_interfaces import MeasuredCandidate, PastValues  # noqa: E402
from sciagent.domain.quantities import Quantity  # noqa: E402
from sciagent.store.database import tables as t  # noqa: E402
from sciagent.store.database.bulk_statements import execute_many  # noqa: E402
from sciagent.store.database.ledger import Ledger  # noqa: E402
from sciagent.store.results.evidence import ids_of_names  # noqa: E402

CANDIDATES = 1_000_000
MEASURED = 20_000
HITS = 0.02  # share of the measured candidates
CHILDREN = 130  # candidates that a turn compares
CHUNK = 20_000
DEAR = 2  # position of the deciding rung


def fill(ledger: Ledger, built: Built, n: int, n_measured: int) -> None:
    """Enters n candidates, of which the deciding rung has answered some, drawn by lot among all."""
    verifier = Dear()
    level = Level(verifier.name)
    random = np.random.default_rng(0)
    is_measured = np.zeros(n, dtype=bool)
    is_measured[random.choice(n, n_measured, replace=False)] = True
    threshold = MEAN + SPREAD * 2.05
    texts = molecules()
    with ledger.begin() as connection:
        gap = Measured(HOMO_LUMO_GAP.name, level, Quantity(0.0, "eV"))
        property_ids, level_ids = ids_of_names(connection, [gap])
        for first in range(0, n, CHUNK):
            places = range(first, min(first + CHUNK, n))
            chances = random.integers(1, 100, len(places)).tolist()
            rows = []
            for place, chance in zip(places, chances, strict=True):
                text = next(texts) if is_measured[place] else "C"
                rows.append(_row(built, place, text, chance, bool(is_measured[place]), threshold))
            for row in rows:
                row |= {"property_id": property_ids[HOMO_LUMO_GAP.name], "level_id": level_ids[level]}
            _enter(connection, t.candidate, rows)
            _enter(connection, t.campaign_candidate, rows)
            answered = [row for row in rows if row["depth"] == DEAR]
            _enter(connection, t.evidence, answered)
            _enter(connection, t.quantity, answered)
        connection.execute(t.watermark.update().values(value=n))


def _row(built: Built, place: int, text: str, chance: int, is_measured: bool, threshold: float) -> dict[str, Any]:
    """Returns a candidate with its place, and what it was told, in all tables at once."""
    verifier = Dear()
    key = hashlib.sha256(f"{place}".encode()).hexdigest()
    value = verifier.value(key)
    is_hit = is_measured and value >= threshold
    row = COMMON | {
        "id": place + 1, "candidate_id": place + 1, "evidence_id": place + 1, "seq": place, "key": key, "text": text,
        "identity": key, "inchikey": None, "formula": "C", "n_atoms": 20, "campaign_id": built.row.id,
        "position": DEAR if is_measured else 1, "depth": DEAR if is_measured else 0, "basis": "line",
        "p_hit": chance / 100, "chance": chance, "expected_utility": chance / 100, "margin": 0.0, "value": value,
        "watermark": place + 1,
    }  # fmt: skip
    if is_measured:
        row |= ANSWERED | {"verifier": verifier.name, "verifier_version": verifier.version}
        row |= {"settings_hash": verifier.settings_hash, "standing": "settled", "is_hit": is_hit, "basis": "answered"}
        row |= {"chance": 100 if is_hit else 0, "p_hit": float(is_hit), "verdict": "pass" if is_hit else "fail"}
    return row


def _enter(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Writes what of the rows the table has columns for."""
    if rows:
        columns = [c.name for c in table.columns if all(c.name in row for row in rows)]
        execute_many(connection, table, [{name: row[name] for name in columns} for row in rows])


class Results:
    """The campaign as the filter sees it."""

    def __init__(self, built: Built) -> None:
        self._built = built

    def measured(self) -> list[MeasuredCandidate]:
        with self._built.ledger.read() as connection:
            return measured_candidates(connection, self._built)

    def past(self, campaigns: list[str], law: str | None) -> PastValues:
        return {}


def turn_of_proposer(built: Built) -> str:
    """Reads what is known, fits the law and compares children, as a turn of `law` does."""
    known = Results(built).measured()
    chances = HitChances(built.subject, built.objectives)
    children = list(islice(molecules(), MEASURED, MEASURED + CHILDREN))
    chances.log_chances(known, children)
    n_with_values = sum(bool(each.values) for each in known)
    n_misses = sum(bool(each.values) and each.values["homo_lumo_gap"] < MEAN for each in known)
    return f"{n_with_values} answers known, {n_misses} of them far from a hit"


def turn_of_filter(built: Built) -> str:
    """Judges as many proposals that come together."""
    results = Results(built)
    chosen = LawFilter(FilterSpec(keep=1, of=16), built.subject, built.objectives, 1)
    chosen.wanted(results, 8)
    children = list(islice(molecules(), MEASURED, MEASURED + CHILDREN))
    decisions = chosen.decide(results, dict(zip(children, children, strict=True)))
    return f"{sum(not each.drops for each in decisions.values())} of {len(decisions)} go on"


def turn_one_by_one(built: Built) -> str:
    """Judges eight proposals that come one at a time."""
    results = Results(built)
    chosen = LawFilter(FilterSpec(keep=1, of=16), built.subject, built.objectives, 1, [])
    for child in islice(molecules(), MEASURED, MEASURED + 8):
        chosen.decide(results, {child: child})
    return "8 proposals"


def fit(built: Built) -> str:
    """Fits a law to the campaign."""
    [law] = fit_law(read_campaigns([built.ledger], [built.row.name])).quantities
    n_misses = sum(row.value < MEAN for row in law.rows)
    return f"{len(law.rows)} candidates, {n_misses} of them far from a hit"


def read_for_fit(built: Built) -> str:
    """Reads what a law is fitted to."""
    [read] = read_campaigns([built.ledger], [built.row.name])
    return f"{sum(len(each) for each in read.values.values())} values"


def read_past(built: Built) -> str:
    """Reads what another campaign of the same objectives would remember with `from`."""
    with built.ledger.read() as connection:
        past = past_values(connection, built, [built.row.name])
    return f"{sum(len(each.values) for each in past.values())} values"


STEPS: dict[str, Callable[[Built], str]] = {
    "read for a fit": read_for_fit,
    "read a past": read_past,
    "fit": fit,
    "turn of the proposer": turn_of_proposer,
    "turn behind a filter": turn_of_filter,
    "eight proposals one by one": turn_one_by_one,
}


def measured(folder: Path, n: int, n_measured: int) -> dict[str, Any]:
    """Returns CPU seconds, added memory in MB and a word on what came, by step. Each runs in a process of its own."""
    with invented():
        ledger = Ledger(str(folder / f"{n}.db"))
        built = opened(ledger, folder, 1000, "exhaustive", 1)
        fill(ledger, built, n, n_measured)
        ledger.close()
        found = {}
        for name in STEPS:
            context = multiprocessing.get_context("fork")
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_run, args=(str(folder / f"{n}.db"), built.row.name, name, sender))
            process.start()
            found[name] = receiver.recv()
            process.join()
    return found


def _run(address: str, campaign: str, name: str, sender: Any) -> None:
    """Sends what a step took."""
    built = open_campaign_for_people(Ledger(address), campaign)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    words = STEPS[name](built)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sender.send({"cpu_s": round(seconds, 2), "peak_mb": round((peak - before) / 1024), "what": words})


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=CANDIDATES)
    parser.add_argument("--measured", type=int, default=MEASURED)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sciagent-law-scale-") as name:
        found = {n: measured(Path(name), n, given.measured) for n in (given.measured, given.candidates)}
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
