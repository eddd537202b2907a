"""What people ask of a campaign: the shape of the answers is a contract."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from rdkit import Chem
from sqlalchemy.engine import Connection

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand
from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.domain.answers.status_and_comparison import HitCounts
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.safe_text_and_durations import REPLACEMENT
from sciagent.domain.states_and_needs import JobState
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from sciagent.store.views import campaign_counts_and_remarks
from tests.support import rows


@pytest.fixture
def row(ledger: Ledger) -> CampaignRow:
    return rows.campaign_at_every_place(ledger)


def test_status(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.read() as connection:
        found = campaign_counts_and_remarks.counts(connection, row)
    assert json.loads(json.dumps(plain(found))) == plain(found)
    assert (found.campaign, found.state, found.stop_reason) == ("toys", "created", None)
    assert found.spent == {"core_seconds": 12.3456, "wall_minutes": 0.0}
    assert (found.proposals, found.candidates, found.hits, found.reused) == (2, 6, 2, 1)
    assert found.unreadable == 1
    assert not found.hits_defined  # its spec states no limits
    assert found.hits_by_tier == {"fast": 0, "simulation": 0, "high_fidelity": 2, "world": 0}
    counts = [(rung.rung, rung.done, rung.passed, rung.failed, rung.inconclusive, rung.errors) for rung in found.rungs]
    assert counts == [("r0", 6, 6, 0, 0, 0), ("r1", 5, 3, 1, 1, 0), ("r2", 3, 2, 1, 0, 0)]
    assert [rung.core_seconds for rung in found.rungs] == [0.0, 12.346, 0.0]


def test_jobs_that_ended_at_a_limit_are_told_with_the_command_that_raises_it(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        row = rows.campaign(connection)
    [job_id] = rows.queued_jobs(ledger, row)
    with ledger.begin() as connection:
        limited = {"state": JobState.FAILED, "outcome": Outcome.OUT_OF_MEMORY}
        connection.execute(sa.update(t.job).where(t.job.c.id == job_id).values(limited))
        [note] = campaign_counts_and_remarks.counts(connection, row).notes
    assert "ended at the memory limit" in note and "sciagent amend toys --file FILE" in note


def test_the_latest_answers_of_a_rung(ledger: Ledger, row: CampaignRow) -> None:
    cc = t.campaign_candidate
    here = sa.select(cc.c.candidate_id, cc.c.is_hit).where(cc.c.campaign_id == row.id, cc.c.position == 2)
    with ledger.begin() as connection:
        answered = connection.execute(here.where(cc.c.verdict.is_not(None)).order_by(cc.c.seq)).all()
        for n, (id_, _) in enumerate(answered):
            at = datetime(2026, 1, 1 + n, tzinfo=UTC)
            connection.execute(sa.update(cc).where(cc.c.candidate_id == id_).values(updated_at=at))
        hits = [hit for _, hit in reversed(answered)]
        assert {*hits} == {True, False}
        assert campaign_counts_and_remarks.latest_hits(connection, row.id, 2, 9) == hits
        assert campaign_counts_and_remarks.latest_hits(connection, row.id, 2, 1) == hits[:1]


def test_status_of_a_campaign_that_has_not_begun(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        found = campaign_counts_and_remarks.counts(connection, rows.campaign(connection))
    assert (found.candidates, found.hits, found.spent["core_seconds"]) == (0, 0, 0.0)


def test_the_first_texts_that_could_not_be_read_are_named_with_the_reason(ledger: Ledger, row: CampaignRow) -> None:
    texts = [("", "no text; name a.cif", "a.cif: no structure in the file"), ("data_b\n", "no cell; file b.cif", "")]
    texts += [(f"[{n}", f"no bracket\n{n}", "") for n in range(3)]
    with ledger.begin() as connection:
        about = {"campaign_id": row.id, "status": "refused", "at": datetime(2026, 1, 1, tzinfo=UTC)}
        proposals = [about | {"text": x, "detail": why, "rationale": said} for x, why, said in texts]
        connection.execute(t.proposal.insert(), proposals)
        notes = campaign_counts_and_remarks.counts(connection, row).notes
    assert notes == (
        f"not read: C{2 * REPLACEMENT}: no reason was kept",
        "not read: a.cif: no structure in the file",
        "not read: no cell; file b.cif",
        "and 3 more that could not be read",
    )


COMPOUNDS = {
    "tautomers": ("Oc1ccccn1", "O=c1cccc[nH]1"),
    "a zwitterion and the neutral form": ("NCC(=O)O", "[NH3+]CC(=O)[O-]"),
    "enantiomers": ("C[C@H](O)C#N", "C[C@@H](O)C#N"),
    "a compound and its anion": ("CC(=O)O", "CC(=O)[O-]"),
    "keto and enol": ("CC(=O)CC(C)=O", "CC(=O)C=C(C)O"),
}


def test_hits_with_one_standard_inchikey_are_one_compound(ledger: Ledger) -> None:
    """The reference is the InChIKey by RDKit. Crystals have none: each counts by itself."""
    counted: dict[str, tuple[int, int]] = {}
    crystals = [crystal_from_shorthand(text) for text in ("rocksalt: Na Cl", "rocksalt: K Cl")]
    everything: list[Molecule | Crystal] = [*crystals]
    with ledger.begin() as connection:
        for kind, texts in COMPOUNDS.items():
            pair = [parse_molecule(text) for text in texts]
            assert len({molecule.key for molecule in pair}) == 2
            counted[kind] = _hits_of(connection, kind, pair)
            inchikeys = {Chem.MolToInchiKey(Chem.MolFromSmiles(text)) for text in texts}
            assert counted[kind] == (2, len(inchikeys)), kind
            everything += pair
        assert _hits_of(connection, "everything", everything) == (12, 10)
    once = {kind for kind, (_, distinct) in counted.items() if distinct == 1}
    assert once == {"tautomers", "a zwitterion and the neutral form"}


def _hits_of(connection: Connection, name: str, members: Sequence[Molecule | Crystal]) -> HitCounts:
    """The numbers of hits of a new campaign in which all of these are hits, and one other candidate is none."""
    row = rows.campaign(connection, name)
    other = parse_molecule("C")
    ids = candidates.enter(connection, [*members, other])
    places = [{"candidate_id": ids[each.key], "in_seeds": False, "is_hit": True} for each in members]
    places.append({"candidate_id": ids[other.key], "in_seeds": False, "is_hit": False})
    candidate_standings.add(connection, row.id, places)
    return campaign_counts_and_remarks.hits(connection, row.id)
