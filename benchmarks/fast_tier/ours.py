"""sciagent's fast tier as a campaign runs it, without and with its ledger."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.proposing.campaign_workbench import CampaignWorkbench
from sciagent.campaign.proposing.write_turns import TurnWriter
from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.errors import InvalidCandidateError
from sciagent.store.campaign_state.campaigns import new_owner
from sciagent.store.campaign_state.note_and_take_watermarks import lock
from sciagent.store.database.ledger import Ledger
from sciagent.verification.sandbox.host import HostResult, Limits, Request, Worker

VERIFIER = "molecule.checks"
LIMITS = Limits(wall_seconds=10, memory_mb=2000)
CAMPAIGN = """
campaign: {name}
subject: molecule
objectives: [{{property: qed, maximise: [0, 1]}}]
ladder:
  - {{rung: checks, verifier: molecule.checks, settings: {settings}}}
terminal: checks
goal: {{kind: best, count: 10}}
budget: {{core_seconds: 1000000}}
proposer: {{kind: screen, file: none.csv}}
workers: 1
safety: {{screen: false, reason: "a benchmark of molecule.checks alone"}}
"""


class _Pipeline(ABC):
    def __init__(self, folder: Path, settings: dict[str, Any], batch: int) -> None:
        self.settings = settings
        self.batch = batch
        self.worker = Worker(folder / "scratch", preload=[VERIFIER])

    def __enter__(self) -> Any:
        self.run(["CCO"])  # starts the process and its imports
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.worker.close()

    @abstractmethod
    def run(self, texts: Sequence[str]) -> int:
        """How many answers the texts gave: findings, or new candidates."""

    def cpu_seconds(self) -> float:
        """Of this process, the warm process, and all it has forked."""
        own = psutil.Process().cpu_times()
        other = psutil.Process(self.worker.pid).cpu_times()
        return own.user + own.system + other.user + other.system + other.children_user + other.children_system


class HostPipeline(_Pipeline):
    """Text -> molecule and key -> molecule.checks in the host -> finding, checked. No database."""

    def run(self, texts: Sequence[str]) -> int:
        return len(self.findings(texts))

    def findings(self, texts: Sequence[str]) -> dict[str, tuple[Molecule, HostResult]]:
        """By text; those that are no molecules are left out."""
        found = {}
        for start in range(0, len(texts), self.batch):
            made: dict[str, Molecule] = {}
            for text in texts[start : start + self.batch]:
                try:
                    made[text] = parse_molecule(text)
                except InvalidCandidateError:
                    continue
            unique = {one.key: one for one in made.values()}
            results = self.worker.run(Request(VERIFIER, self.settings, tuple(unique.values()), LIMITS))
            by_key = dict(zip(unique, results, strict=True))
            found.update({text: (one, by_key[one.key]) for text, one in made.items()})
        return found


class LedgerPipeline(_Pipeline):
    """The same through the workbench of a campaign: proposals, duplicates, novelty, evidence and standings are written
    to a SQLite ledger on disk, one transaction a batch."""

    def __init__(self, folder: Path, settings: dict[str, Any], batch: int) -> None:
        super().__init__(folder, settings, batch)
        (folder / "none.csv").write_text("smiles\nCCO\n")
        self.ledger = Ledger(str(folder / "ledger.db"))
        text = CAMPAIGN.format(name="bench", settings=settings)
        self.built = create_or_open(self.ledger, parse_spec(text, base=folder), text, "benchmark").built

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.ledger.close()

    def run(self, texts: Sequence[str]) -> int:
        new = 0
        for start in range(0, len(texts), self.batch):
            bench = CampaignWorkbench(self.built, self.worker)
            bench.propose([ProposalIn(text) for text in texts[start : start + self.batch]])
            with self.ledger.begin() as connection:
                lock(connection, self.built.row.id)
                TurnWriter(self.built, new_owner()).write_proposals(connection, [bench])
            new += bench.n_new
        return new


def clocks(pipeline: _Pipeline | None) -> tuple[float, float]:
    """Wall and CPU seconds so far."""
    if pipeline is None:
        return time.perf_counter(), time.process_time()
    return time.perf_counter(), pipeline.cpu_seconds()
