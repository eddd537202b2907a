"""Rows for tests of the ledger, made through the store's own functions."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Connection

from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.evidence import EvidenceKey, Finding, Measured
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.properties import Level
from sciagent.domain.quantities import Quantity
from sciagent.store.campaign_state import campaigns, standings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.results import candidates
from sciagent.store.results.evidence import NewEvidence

LEVEL = Level("PBE0", "def2-SVP", "gas", "GFN2-xTB")
SETTINGS = "5" * 64


def alkanes(n: int) -> list[Molecule]:
    """n different molecules."""
    return [parse_molecule("C" * (i + 1)) for i in range(n)]


def gap(value: float = 3.0, unit: str = "eV", **more: Any) -> Measured:
    return Measured("homo_lumo_gap", LEVEL, Quantity(value, unit, **more))


def finding(key: str, *measured: Measured, outcome: Outcome = Outcome.OK, reason: Reason | None = None) -> Finding:
    return Finding(key, outcome, measured, reason)


def new_evidence(candidate_id: int, *measured: Measured, subject: str | None = None, **more: Any) -> NewEvidence:
    """more: fields of the evidence key (verifier, replicate, revision, …), of the finding (outcome, reason, …) or of
    NewEvidence."""
    subject = subject or f"candidate {candidate_id}"
    of_key = {k: more.pop(k) for k in list(more) if k in EvidenceKey.__dataclass_fields__}
    of_finding = {k: more.pop(k) for k in list(more) if k in Finding.__dataclass_fields__ and k != "artifacts"}
    key = EvidenceKey(
        **{"subject": subject, "verifier": "toy", "verifier_version": "1", "settings_hash": SETTINGS} | of_key
    )
    made = Finding(**{"candidate_key": subject, "outcome": Outcome.OK, "measured": measured} | of_finding)
    return NewEvidence(made, key, candidate_id, **more)


def campaign(connection: Connection, name: str = "toys", rungs: int = 3, **more: Any) -> CampaignRow:
    """A campaign with `rungs` rungs named r0, r1, … of the verifiers toy0, toy1, …"""
    tiers = ("fast", "simulation", "high_fidelity", "world")
    rows = [
        {
            "position": i,
            "name": f"r{i}",
            "verifier": f"toy{i}",
            "verifier_version": "1",
            "tier": tiers[min(i, 3)],
            "settings": {},
            "settings_hash": SETTINGS,
            "gate": {},
        }
        for i in range(rungs)
    ]
    fields = {
        "name": name,
        "spec": {"budget": {"core_seconds": 100}},
        "spec_hash": "a" * 64,
        "identity_hash": "b" * 64,
        "base": ".",
        "source": f"campaign: {name}\n",
        "rungs": rows,
    }
    return campaigns.create(connection, **fields | more)


def entered(connection: Connection, row: CampaignRow, n: int, **places: Any) -> list[int]:
    """n alkanes in the ledger and in the campaign, with the same further columns; returns their ids in order."""
    made = alkanes(n)
    ids = candidates.enter(connection, made)
    found = [ids[m.key] for m in made]
    standings.add(connection, row.id, [{"candidate_id": i, "in_seeds": False, **places} for i in found])
    return found
