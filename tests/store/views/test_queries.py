"""What people ask of a campaign: the shape of the answers is a contract."""

from __future__ import annotations

import json

import pytest

from sciagent.domain.outcomes import Verdict
from sciagent.domain.properties import Level
from sciagent.domain.quantities import Quantity
from sciagent.domain.states import Standing
from sciagent.store.campaign_state import campaigns, standings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import spend
from sciagent.store.results import evidence
from sciagent.store.views import queries
from tests.support import rows
from tests.support.rows import Measured, gap, new_evidence

STATUS = {
    "campaign", "state", "stop_reason", "trouble", "spent", "budget", "proposals", "unreadable", "candidates", "hits",
    "hits_by_tier", "reused", "rungs", "held", "vetoed", "driver",
}  # fmt: skip
RUNG = {"rung", "tier", "done", "passed", "failed", "inconclusive", "errors", "core_seconds", "jobs", "running"}
BEST = {
    "key", "smiles", "inchikey", "utility", "p_hit", "verified", "hit", "in_seeds", "score", "reason", "detail",
    "values", "imported",
}  # fmt: skip


@pytest.fixture
def row(ledger: Ledger) -> CampaignRow:
    """Two hits, one failed at rung 2, one refused at rung 1, one that rung 1 cannot decide, one open."""
    with ledger.begin() as connection:
        made = rows.campaign(connection)
        ids = rows.entered(connection, made, 6)
        places = [
            (Standing.SETTLED, 2, 2, Verdict.PASS, 0.8, True),
            (Standing.SETTLED, 2, 2, Verdict.PASS, 0.9, True),
            (Standing.SETTLED, 2, 2, Verdict.FAIL, 0.95, False),
            (Standing.DROPPED, 1, 1, Verdict.NOT_APPLICABLE, 0.1, False),
            (Standing.DROPPED, 1, 1, Verdict.INCONCLUSIVE, None, False),
            (Standing.OPEN, 1, 0, None, 0.3, False),
        ]
        for id_, (standing, position, depth, verdict, score, hit) in zip(ids, places, strict=True):
            tier = "high_fidelity" if hit else None
            standings.update(
                connection,
                made.id,
                id_,
                standing=standing,
                position=position,
                depth=depth,
                verdict=verdict,
                score=score,
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
        spend.book(connection, made.id, rung_id, None, {"core_seconds": 12.3456})
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


def test_status(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.read() as connection:
        found = queries.status(connection, row)
    assert set(found) == STATUS and all(set(r) == RUNG for r in found["rungs"])
    assert json.loads(json.dumps(found)) == found
    assert (found["campaign"], found["state"], found["stop_reason"]) == ("toys", "created", None)
    assert found["spent"] == {"core_seconds": 12.3456, "wall_minutes": 0.0}
    assert (found["proposals"], found["candidates"], found["hits"], found["reused"]) == (2, 6, 2, 1)
    assert found["unreadable"] == 1
    assert found["hits_by_tier"] == {"fast": 0, "simulation": 0, "high_fidelity": 2, "world": 0}
    counts = [
        tuple(r[k] for k in ("rung", "done", "passed", "failed", "inconclusive", "errors")) for r in found["rungs"]
    ]
    assert counts == [("r0", 6, 6, 0, 0, 0), ("r1", 5, 3, 1, 1, 0), ("r2", 3, 2, 1, 0, 0)]
    assert [r["core_seconds"] for r in found["rungs"]] == [0.0, 12.346, 0.0]


def test_status_of_a_campaign_that_has_not_begun(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        found = queries.status(connection, rows.campaign(connection))
    assert set(found) == STATUS
    assert (found["candidates"], found["hits"], found["spent"]["core_seconds"]) == (0, 0, 0.0)


def test_best(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.read() as connection:
        found = queries.best(connection, row, 10)
        assert queries.best(connection, row, 2) == found[:2] and queries.best(connection, row, 0) == []
    assert all(set(r) == BEST for r in found)
    assert json.loads(json.dumps(found)) == found
    # hits first, then the deepest, then the best score; a missing score comes last
    assert [r["smiles"] for r in found] == ["CC", "C", "CCC", "CCCC", "CCCCC", "CCCCCC"]
    assert [r["hit"] for r in found] == [True, True, False, False, False, False]
    assert [r["p_hit"] for r in found] == [1.0, 1.0, 0.0, 0.0, 0.0, None]
    assert [r["verified"] for r in found] == [True, True, True, False, False, False]


def test_best_shows_the_highest_rung_that_measured(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.read() as connection:
        shown = queries.best(connection, row, 1)[0]["values"]
    assert shown == {
        "homo_lumo_gap": {
            "value": 3.5,
            "unit": "eV",
            "uncertainty": 0.1,
            "level": "PBE0/def2-SVP//GFN2-xTB",
            "rung": "r2",
        }
    }
