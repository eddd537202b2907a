"""The campaigns of a lead optimisation: from one lead, within a number of calls, the best molecule that stays similar.

Each lead, oracle, proposer and seed is a campaign with the one rung `bench.lead` and a gate on the similarity, in the
ledger of one folder. The lead is the first call. Molecules below the limit of similarity are left out by proposers that
ask the gates; one that is scored all the same is a call, and never the best.

The leads are drugs of `leads.csv`, chosen before the first run: QED from 0.7 to 0.8, probabilities of activity below
0.05 on DRD2 and at most 0.1 on GSK3β and JNK3, so that none is a success as it stands.

Source: Jin, Yang, Barzilay, Jaakkola, ICLR 2019, arXiv 1812.01070: similarity, and the successes of QED and DRD2;
POLO, arXiv 2509.21737: 500 calls a lead.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, get_args

from sciagent.api.campaign import Campaign
from sciagent_bench.campaigns_of_a_benchmark import BenchmarkFolder, spec_of
from sciagent_bench.leads.lead_verifier import (
    ACTIVITY_ORACLES,
    LEAD_SCORE,
    LEAD_SIMILARITY,
    BenchLead,
    OracleName,
    oracle,
)
from sciagent_bench.pmo.scoring_functions import molecule

LEADS_FILE = Path(__file__).parent / "leads.csv"
DATABASE = "leads.db"
ORACLES: tuple[OracleName, ...] = get_args(OracleName)
PROPOSERS: Mapping[str, Mapping[str, Any]] = {"evolve": {"kind": "evolve"}, "law": {"kind": "law"}}
"""{name: its keys in the campaign file}, both with their defaults."""
SUCCESS: Mapping[OracleName, float] = {"QED": 0.9, "DRD2": 0.5, "GSK3B": 0.5, "JNK3": 0.5}
"""{oracle: least score of a success}."""
LEAST_RISE = 3.0
"""Least rise of the penalised logP over the lead that is a success."""
RAMPS: Mapping[OracleName, tuple[float, float]] = {"plogP": (-10.0, 10.0)}
"""{oracle: worst and best score of the objective}; 0 and 1 for the others."""
STEP = 50
"""Calls between two points of the curve."""


@dataclass(frozen=True)
class Lead:
    """A lead, with the names under which it is found elsewhere."""

    lead: str
    smiles: str
    inchikey: str
    pubchem_cid: str


@cache
def leads() -> Mapping[str, Lead]:
    """Returns the leads by name."""
    with LEADS_FILE.open(encoding="utf-8", newline="") as stream:
        rows = [Lead(**row) for row in csv.DictReader(stream)]
    return {lead.lead: lead for lead in rows}


class ScoredMolecule(NamedTuple):
    """A call: a molecule with its score and its similarity to the lead."""

    smiles: str
    score: float
    similarity: float


@dataclass(frozen=True)
class LeadRun:
    """The calls of a campaign, in their order."""

    lead: str
    oracle: OracleName
    proposer: str
    seed: int
    campaign: str
    """Name of the campaign."""
    least_similarity: float
    lead_score: float
    scored: tuple[ScoredMolecule, ...]

    @property
    def success_score(self) -> float:
        """The least score of a success."""
        return success_score(self.oracle, self.lead_score)

    @cached_property
    def best(self) -> ScoredMolecule | None:
        """The best molecule that is similar enough, the lead included; None without one."""
        return self.best_within(len(self.scored))

    def best_within(self, calls: int) -> ScoredMolecule | None:
        """Returns the best molecule that is similar enough among the first calls; None without one."""
        similar = [each for each in self.scored[:calls] if each.similarity >= self.least_similarity]
        return max(similar, key=lambda each: each.score, default=None)

    @cached_property
    def calls_to_success(self) -> int | None:
        """The number of calls up to the first success; None without one."""
        for call, each in enumerate(self.scored, start=1):
            if each.similarity >= self.least_similarity and each.score >= self.success_score:
                return call
        return None


def success_score(name: OracleName, lead_score: float) -> float:
    """Returns the least score that is a success, by the score of the lead."""
    return SUCCESS.get(name, lead_score + LEAST_RISE)


class LeadRuns:
    """The campaigns in a folder, with the same limit of similarity and the same number of calls."""

    def __init__(self, folder: Path, data: Path | None, least_similarity: float, calls: int) -> None:
        """data: MolScore's wheel or folder, needed for the models of activity."""
        self._folder = BenchmarkFolder(folder, DATABASE)
        self._data = None if data is None else str(data.resolve())
        self._least_similarity = least_similarity
        self._calls = calls

    def run(self, lead: Lead, name: OracleName, proposer: str, keys: Mapping[str, Any], seed: int) -> LeadRun:
        """Runs a campaign to its end, or reads one that has ended. keys: of the proposer, without its molecules.

        Raises KeyboardInterrupt if the campaign was stopped, UsageError, SpecError and CampaignError.
        """
        lead_score = oracle(name, self._data if name in ACTIVITY_ORACLES else None)(molecule(lead.smiles))
        similar = f"{self._least_similarity:g}".replace(".", "_")
        campaign = f"{lead.lead}-{name}-{similar}-{proposer}-{seed}".lower()
        spec = self._spec(campaign, lead, name, keys, seed)
        scored = self._folder.calls(spec, self._calls, scored_molecules)
        return LeadRun(lead.lead, name, proposer, seed, campaign, self._least_similarity, lead_score, scored)

    def _spec(
        self, campaign: str, lead: Lead, name: OracleName, keys: Mapping[str, Any], seed: int
    ) -> Mapping[str, Any]:
        """Returns the campaign file. The lead is written beside it."""
        file = f"{lead.lead}.smi"
        self._folder.put_molecules(file, [lead.smiles])
        settings = {"lead": lead.smiles, "oracle": name}
        if name in ACTIVITY_ORACLES:
            settings["data"] = str(self._data)
        gate = {LEAD_SIMILARITY.name: {"min": self._least_similarity}}
        return spec_of(
            campaign,
            seed,
            objective={"property": LEAD_SCORE.name, "maximise": list(RAMPS.get(name, (0.0, 1.0)))},
            rung={"verifier": BenchLead.name, "settings": settings, "gate": gate},
            best=1,
            verifications=self._calls - 1,  # the lead is none
            proposer={**keys, "seeds": file},
        )


def scored_molecules(campaign: Campaign) -> list[ScoredMolecule]:
    """Returns the calls of a campaign, in their order."""
    scored = []
    for row in campaign.candidates():
        score = row.value(LEAD_SCORE.name)
        similarity = row.value(LEAD_SIMILARITY.name)
        if score is not None and similarity is not None:
            scored.append(ScoredMolecule(row.text, score.value, similarity.value))
    return scored


@dataclass(frozen=True)
class SeedFigures:
    """The figures of one run."""

    seed: int
    best: float
    molecule: str
    """SMILES of the best molecule."""
    similarity: float
    """Similarity of the best molecule to the lead."""
    calls_to_success: int | None
    calls: int
    curve: tuple[float, ...]
    """The best score after every STEP calls."""


@dataclass(frozen=True)
class LeadFigures:
    """The figures of a proposer on a lead with an oracle."""

    lead: str
    oracle: OracleName
    lead_score: float
    success_score: float
    """Least score of a success."""
    best: float
    """Mean over seeds of the best score."""
    best_spread: float | None
    """Standard deviation of the best score over seeds; None for a single one."""
    successes: int
    """Number of seeds with a success."""
    seeds: tuple[SeedFigures, ...]


def figures(runs: Iterable[LeadRun]) -> dict[str, list[LeadFigures]]:
    """Returns the figures of each proposer, by lead and oracle in the order of the runs."""
    grouped: dict[str, dict[tuple[str, str], list[LeadRun]]] = {}
    for run in runs:
        grouped.setdefault(run.proposer, {}).setdefault((run.lead, run.oracle), []).append(run)
    return {proposer: [_of_lead(group) for group in by_lead.values()] for proposer, by_lead in grouped.items()}


def _of_lead(runs: Sequence[LeadRun]) -> LeadFigures:
    seeds = tuple(_of_seed(run) for run in runs)
    bests = [seed.best for seed in seeds]
    return LeadFigures(
        lead=runs[0].lead,
        oracle=runs[0].oracle,
        lead_score=runs[0].lead_score,
        success_score=runs[0].success_score,
        best=statistics.fmean(bests),
        best_spread=statistics.stdev(bests) if len(bests) > 1 else None,
        successes=sum(seed.calls_to_success is not None for seed in seeds),
        seeds=seeds,
    )


def _of_seed(run: LeadRun) -> SeedFigures:
    curve = []
    for calls in range(STEP, len(run.scored) + 1, STEP):
        best = run.best_within(calls)
        curve.append(run.lead_score if best is None else best.score)
    best = run.best
    return SeedFigures(
        seed=run.seed,
        best=run.lead_score if best is None else best.score,
        molecule="" if best is None else best.smiles,
        similarity=1.0 if best is None else best.similarity,
        calls_to_success=run.calls_to_success,
        calls=len(run.scored),
        curve=tuple(curve),
    )
