"""Rows for tests of the ledger, made through the store's own functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import EvidenceKey, Finding, Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason, Verdict
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.domain.states_and_needs import Standing
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, leases, reservations_and_bookings
from sciagent.store.job_queue.leases import Claim, JobEnd
from sciagent.store.results import candidates, evidence
from sciagent.store.results.evidence import NewEvidence, RecordedEvidence
from tests.support.worths import worth_columns

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
    of_finding = {
        k: more.pop(k) for k in list(more) if k in Finding.__dataclass_fields__ and k not in ("artifacts", "versions")
    }
    key = EvidenceKey(
        **{"subject": subject, "verifier": "toy", "verifier_version": "1", "settings_hash": SETTINGS} | of_key
    )
    made = Finding(**{"candidate_key": subject, "outcome": Outcome.OK, "measured": measured} | of_finding)
    return NewEvidence(made, key, candidate_id, **more)


def recorded(connection: Connection, evidence_id: int) -> RecordedEvidence:
    """The evidence with this id."""
    e = t.evidence.c
    found = evidence.by_key(connection, connection.execute(sa.select(e.key).where(e.id == evidence_id)).scalar_one())
    assert found is not None
    return found


def record_or_keep(connection: Connection, new: Sequence[NewEvidence]) -> list[int]:
    """Record evidence whose key is new; returns ids in order, those of the first writer where a key existed."""
    return [one if isinstance(one, int) else one.id for one in evidence.record_once(connection, new)]


def finish_many(connection: Connection, ends: Sequence[JobEnd]) -> set[int]:
    """End jobs under their fences; returns the ids of those that were still the caller's."""
    held = leases.lock_held_jobs(connection, [end.claim for end in ends])
    leases.end_held(connection, [end for end in ends if end.claim.job_id in held])
    return set(held)


def lease_until(connection: Connection, claims: Sequence[Claim], seconds: float) -> None:
    """Let the leases of these jobs end in so many seconds."""
    ids, until = [claim.job_id for claim in claims], db_now(connection) + timedelta(seconds=seconds)
    connection.execute(t.job.update().where(t.job.c.id.in_(ids)).values(lease_until=until))


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
    candidate_standings.add(connection, row.id, [{"candidate_id": i, "in_seeds": False, **places} for i in found])
    return found


def campaign_at_every_place(ledger: Ledger) -> CampaignRow:
    """Two hits, one failed at rung 2, one refused at rung 1, one that rung 1 cannot decide, one open."""
    with ledger.begin() as connection:
        made = campaign(connection)
        ids = entered(connection, made, 6)
        places = [
            (Standing.SETTLED, 2, 2, Verdict.PASS, 0.8, True),
            (Standing.SETTLED, 2, 2, Verdict.PASS, 0.9, True),
            (Standing.SETTLED, 2, 2, Verdict.FAIL, 0.95, False),
            (Standing.DROPPED, 1, 1, Verdict.NOT_APPLICABLE, 0.1, False),
            (Standing.DROPPED, 1, 1, Verdict.INCONCLUSIVE, None, False),
            (Standing.OPEN, 1, 0, None, 0.3, False),
        ]
        for id_, (standing, position, depth, verdict, expected, hit) in zip(ids, places, strict=True):
            tier = "high_fidelity" if hit else None
            candidate_standings.update(
                connection,
                made.id,
                id_,
                standing=standing,
                position=position,
                depth=depth,
                verdict=verdict,
                **worth_columns(expected, None if standing is Standing.OPEN else hit),
                is_hit=hit,
                hit_tier=tier,
            )
        cheap = Measured("homo_lumo_gap", Level("GFN2-xTB"), Quantity(2.0, "eV"))
        subject = {"subject": "one"}
        evidence.record(
            connection,
            [
                new_evidence(ids[1], cheap, verifier="toy1", **subject),
                new_evidence(ids[1], gap(3.5, uncertainty=0.1), verifier="toy2", **subject),
                new_evidence(ids[1], gap(9.0), verifier="another campaign's", **subject),
            ],
        )
        rung_id = campaigns.rungs(connection, made.id)[1].id
        reservations_and_bookings.book_many(
            connection, [reservations_and_bookings.Bill(made.id, rung_id, None, {"core_seconds": 12.3456})]
        )
        connection.execute(
            t.decision.insert().values(
                campaign_id=made.id,
                candidate_id=ids[0],
                rung_id=rung_id,
                action="reuse",
                chooser="test",
                watermark=1,
                propensity=1.0,
                at=db_now(connection),
            )
        )
        connection.execute(
            t.proposal.insert(),
            [
                {"campaign_id": made.id, "text": text, "status": status, "at": db_now(connection)}
                for text, status in (("C", "new"), ("C\0\ud800", "refused"))
            ],
        )
    return made


def queued_jobs(ledger: Ledger, row: CampaignRow, n: int = 1) -> list[int]:
    """Ids of n queued jobs of the second rung, replicates of one candidate; a later job is more urgent."""
    with ledger.begin() as connection:
        [candidate_id] = entered(connection, row, 1)
        rung_id = campaigns.rungs(connection, row.id)[1].id
        new = [jobs.NewJob(row.id, rung_id, candidate_id, i, "e" * 64, float(i)) for i in range(n)]
        return jobs.create_many(connection, new)
