"""A campaign of 10^5 candidates whose three rungs answer at once with numbers made from the candidates' keys: what is
left to measure is the driver.

No verifier runs in a process of its own. In place of the pool of workers stands one that has the answer as soon as it
is given a job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice, product
from pathlib import Path
from statistics import NormalDist
from typing import Any
from unittest.mock import patch

from sqlalchemy import Table
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving import local_jobs
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.candidate_and_its_names_in_files import Candidate, candidate_key
from sciagent.domain.properties_and_levels import HOMO_LUMO_GAP
from sciagent.execution.worker.local_pool import Completed, Jobs, LocalPool
from sciagent.execution.worker.read_claimed_jobs import ClaimedJob
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import execute_many
from sciagent.store.database.ledger import Ledger
from sciagent.store.results.evidence import ids_of_names
from sciagent.verification import verifier_registry
from sciagent.verification.sandbox.host import HostResult, Request
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    PropertyAtLevel,
    Quantity,
    Tier,
    Verifier,
    at,
)

TOP = 0.001  # of the candidates are hits
MEAN = 3.0  # eV, of what is wanted
SPREAD = 0.5  # eV
BUDGET = 0.1  # of what the dearest rung would cost for all
ATOMS = 30  # of a candidate that costs what a rung says
CHUNK = 10_000
CAMPAIGN = """
campaign: decisions
subject: molecule
seed: 1
objectives: [{{property: homo_lumo_gap, min: {threshold:.4f}, unit: eV}}]
ladder:
  - {{rung: cheap, verifier: invented.cheap}}
  - {{rung: middle, verifier: invented.middle}}
  - {{rung: dear, verifier: invented.dear}}
goal: {{kind: hits}}
budget: {{core_seconds: {budget}}}
proposer: {{kind: screen, file: first.csv}}
scheduler: {{kind: {scheduler}}}
workers: {workers}
safety: {{screen: false, reason: candidates and answers are invented}}
"""


class Invented(Verifier[Candidate]):
    """A gap from the candidate's key: the truth is a normal number, with which what the rung says is correlated by
    `tells`. seconds: of a candidate of `ATOMS` atoms; it grows with their number to the power `steep`."""

    version = "1"
    tier = Tier.SIMULATION
    together = 16
    seconds: float
    steep: float
    tells: float

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level(self.name), HOMO_LUMO_GAP)

    def cost(self, candidate: Candidate) -> Cost:
        return Cost(core_seconds=self.seconds * (candidate.n_atoms / ATOMS) ** self.steep)

    def verify(self, batch: Sequence[Candidate], context: Context | None = None) -> Iterator[Finding]:
        for one in batch:
            quantity = Quantity(self.value(one.key), "eV")
            yield Finding(one.key, Outcome.OK, (Measured(HOMO_LUMO_GAP.name, Level(self.name), quantity),))

    def value(self, key: str) -> float:
        own = _normal(hashlib.sha256(f"{self.name} {key}".encode()).hexdigest())
        return MEAN + SPREAD * (self.tells * _normal(key) + (1 - self.tells**2) ** 0.5 * own)


class Cheap(Invented):
    name = "invented.cheap"
    seconds = 0.08
    steep = 1.0
    tells = 0.75


class Middle(Invented):
    name = "invented.middle"
    seconds = 0.5
    steep = 1.5
    tells = 0.95


class Dear(Invented):
    name = "invented.dear"
    seconds = 9.0
    steep = 2.0
    tells = 1.0


def _normal(digits: str) -> float:
    """A standard normal number from hexadecimal digits."""
    return NormalDist().inv_cdf((int(digits[:12], 16) + 0.5) / 16**12)


@dataclass(frozen=True)
class _Point:
    """An entry point of a verifier that is here."""

    loaded: type[Verifier[Any]]

    @property
    def value(self) -> str:
        return f"{__name__}:{self.loaded.__name__}"

    def load(self) -> type[Verifier[Any]]:
        return self.loaded


class Answering(LocalPool):
    """The pool of workers, where a job is over as soon as it is submitted. `submitted`: jobs so far."""

    submitted = 0

    def submit(self, jobs: Jobs, request: Request) -> None:
        self._count(request.limits.threads, 1)
        self.submitted += len(jobs)
        self.completed.put(Completed(jobs, [_answer(job) for job in jobs], request.limits.threads))


def _answer(job: ClaimedJob) -> HostResult:
    """Jobs take between 0.8 and 1.2 times what is declared."""
    verifier = job.task.verifier
    [finding] = verifier.verify([job.candidate], None)  # type: ignore[arg-type]
    seconds = verifier.cost(job.candidate)["core_seconds"] * (0.8 + 0.4 * int(job.key.hash[:4], 16) / 16**4)
    return HostResult(finding, Cost(core_seconds=seconds), seconds, {"invented": "1"}, own_seconds=seconds)


@contextmanager
def invented() -> Iterator[None]:
    """The verifiers are registered, and the driver's pool answers."""
    points = {one.name: _Point(one) for one in (Cheap, Middle, Dear)}
    with patch.object(verifier_registry, "_points", lambda: points), patch.object(local_jobs, "LocalPool", Answering):
        yield


def opened(ledger: Ledger, folder: Path, n: int, scheduler: str, workers: int) -> Built:
    """The campaign, as yet without candidates."""
    (folder / "first.csv").write_text("smiles\nC\n", encoding="utf-8")
    threshold = MEAN + SPREAD * NormalDist().inv_cdf(1 - TOP)
    text = CAMPAIGN.format(threshold=threshold, budget=BUDGET * n * Dear.seconds, scheduler=scheduler, workers=workers)
    return create_or_open(ledger, parse_spec(text, base=folder), text, "benchmark").built


def molecules() -> Iterator[str]:
    """Different molecules, 10^5 and more: pyridines with four groups out of eighteen beside a nitrile."""
    ends = ("", "C", "CC", "F", "Cl", "Br", "N", "O", "S", "OC", "NC", "C=O", "C(=O)O", "C(=O)N", "C(F)(F)F", "C#C")
    groups = [*(f"({end})" if end else "" for end in ends), "(C(C)C)", "(S(C)(=O)=O)"]
    return (f"n1c{a}c{b}c{c}c{d}c1C#N" for d, c, b, a in product(groups, repeat=4))


def fill(ledger: Ledger, built: Built, n: int, known: int) -> None:
    """n open candidates; of the first `known` the cheapest rung has said what it says."""
    rung = built.paid[0].id
    cheap = Cheap()
    texts = molecules()
    with ledger.begin() as connection:
        level = Level(cheap.name)
        gap = Measured(HOMO_LUMO_GAP.name, level, Quantity(0.0, "eV"))
        property_ids, level_ids = ids_of_names(connection, [gap])
        gap_id = property_ids[HOMO_LUMO_GAP.name]
        level_id = level_ids[level]
        for first in range(0, n, CHUNK):
            rows = [_row(i, text, known) for i, text in enumerate(islice(texts, min(CHUNK, n - first)), first)]
            fixed = {
                "campaign_id": built.row.id,
                "rung_id": rung,
                "settings_hash": cheap.settings_hash,
                "property_id": gap_id,
                "level_id": level_id,
            }
            for table in (t.candidate, t.proposal, t.campaign_candidate):
                _enter(connection, table, [row | fixed for row in rows])
            answered = [row | fixed | ANSWERED for row in rows if row["position"]]
            for name in WRITTEN:
                _enter(connection, t.metadata.tables[name], answered)
        connection.execute(t.watermark.update().values(value=known))


def _enter(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """What of the rows the table has columns for."""
    if rows:
        columns = [c.name for c in table.columns if c.name in rows[0] and c.name != NOT_TOLD.get(table.name)]
        execute_many(connection, table, [{name: row[name] for name in columns} for row in rows])


def _row(i: int, text: str, known: int) -> dict[str, Any]:
    """Of a candidate, its place, and what it was told, in all tables at once."""
    digits = hashlib.sha256(text.encode()).hexdigest()
    n_atoms = ATOMS - 10 + i % 20
    identity = f"InChI=1/invented/{digits}"
    seconds = Cheap.seconds * n_atoms / ATOMS
    key = candidate_key("molecule", identity, COMMON["charge"], COMMON["multiplicity"])  # all rungs answer by it
    return COMMON | {
        "id": i + 1, "candidate_id": i + 1, "proposal_id": i + 1, "job_id": i + 1, "attempt_id": i + 1,
        "evidence_id": i + 1, "watermark": i + 1, "seq": i, "key": key, "evidence_key": key, "text": text,
        "identity": identity, "inchikey": f"{digits[:14].upper()}-{digits[14:24].upper()}-N",
        "formula": f"C{n_atoms - 8}H8", "n_atoms": n_atoms, "position": int(i < known), "depth": 0 if i < known else -1,
        "p_hit": 0.5 if i < known else None, "chance": 50 if i < known else None,
        "expected_utility": 0.5 if i < known else None, "margin": 0.0 if i < known else None,
        "basis": "line" if i < known else None, "value": Cheap().value(key), "cost": {"core_seconds": seconds},
        "wall_seconds": seconds, "declared": seconds, "amount": seconds,
    }  # fmt: skip


NOW = datetime(2026, 1, 1, tzinfo=UTC)
# what all rows have, by the names of columns
COMMON: dict[str, Any] = {
    "kind": "molecule", "charge": 0, "multiplicity": 1, "payload": {}, **subject_of("molecule").versions()._asdict(),
    "status": "new", "predicted": {}, "standing": "open", "detail": "", "is_hit": False,
    "in_seeds": False, "at": NOW, "created_at": NOW, "updated_at": NOW,
}  # fmt: skip
ANSWERED: dict[str, Any] = {
    "action": "run", "chooser": "invented", "why": "invented", "index": 0.0, "propensity": 1.0, "replicate": 0,
    "state": "done", "priority": 0.0, "attempts": 1, "kills": 0, "fence": 1, "cancel_requested": False,
    "outcome": "ok", "owner": "nobody", "n_candidates": 1, "started_at": NOW, "heartbeat_at": NOW, "ended_at": NOW,
    "released_at": NOW, "verifier": Cheap.name, "verifier_version": Cheap.version, "inputs_hash": "", "revision": 0,
    "reusable": True, "diagnostics": {}, "versions": {}, "source": "computed", "who": "sciagent", "unit": "eV",
    "censoring": "none", "n": 1, "resource": "core_seconds",
}  # fmt: skip
# rows for each decision and its answer, those before that they refer to
WRITTEN = ("decision", "job", "attempt", "evidence", "quantity", "reservation", "spend", "cost_observation")
NOT_TOLD = {"decision": "evidence_id", "evidence": "proposal_id"}  # of reused and of imported evidence
