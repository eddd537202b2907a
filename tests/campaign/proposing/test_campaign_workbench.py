"""A turn's proposals go through the fast rungs at once and into the ledger together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.people.find_candidate import resolve
from sciagent.campaign.proposing.campaign_workbench import CampaignWorkbench
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results.candidates import names_of
from sciagent.store.views.campaign_counts_and_remarks import counts
from sciagent.verification.sandbox.host import Worker
from tests.campaign.proposing.opened import TEXT, built, commit, worker

__all__ = ["built", "worker"]
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def rows(built: Built, table: sa.Table) -> list[Any]:
    with built.ledger.read() as connection:
        return list(connection.execute(sa.select(table)).mappings())


def test_a_candidate_is_new_once_and_what_cannot_be_read_is_refused(built: Built, worker: Worker) -> None:
    bench = CampaignWorkbench(built, worker)
    answers = bench.propose([ProposalIn(text) for text in ("CCO", "OCC", "C((")])
    assert [answer.status for answer in answers] == ["new", "duplicate", "refused"]
    assert answers[0].standing and answers[0].key == answers[1].key and answers[2].reason == "unparsable"
    assert rows(built, t.proposal) == [], "nothing is written before the commit"
    assert bench.known(parse_molecule("OCC")) and (bench.n_proposals, bench.n_new) == (3, 1)
    commit(built, bench)
    assert [row["status"] for row in rows(built, t.proposal)] == ["new", "duplicate", "refused"]
    assert [row["novelty"] and row["novelty"]["candidate"] for row in rows(built, t.proposal)] == [True, False, None]
    assert len(rows(built, t.campaign_candidate)) == len(rows(built, t.evidence)) == 1


def test_a_candidate_that_came_between_is_a_duplicate(built: Built, worker: Worker) -> None:
    first, second = (CampaignWorkbench(built, worker) for _ in range(2))
    for bench in (first, second):
        assert bench.propose([ProposalIn("CCO")])[0].status == "new"
    commit(built, first)
    commit(built, second)
    assert [row["status"] for row in rows(built, t.proposal)] == ["new", "duplicate"]
    assert len(rows(built, t.campaign_candidate)) == 1


def test_a_child_is_written_with_its_known_parents(built: Built, worker: Worker) -> None:
    bench = CampaignWorkbench(built, worker)
    bench.propose(
        [
            ProposalIn("CCO"),
            ProposalIn("CCN", parents=(parse_molecule("OCC").key, "C((", parse_molecule("CCC").key), operation="swap"),
        ]
    )
    commit(built, bench)
    ethanol, amine = (row["id"] for row in rows(built, t.candidate))
    [parent] = rows(built, t.candidate_parent)
    assert (parent["candidate_id"], parent["parent_id"], parent["operation"]) == (amine, ethanol, "swap")


def opened(ledger: Ledger, folder: Path, key: str) -> Built:
    """Returns the campaign with one more key in its file."""
    text = f"{TEXT}{key}\n"
    (folder / "molecules.csv").write_text("smiles\nC\n")
    return create_or_open(ledger, parse_spec(text, base=folder), text, "test").built


def test_each_stereoisomer_of_a_text_is_a_candidate_whose_parent_is_the_text(ledger: Ledger, tmp_path: Path) -> None:
    made = opened(ledger, tmp_path, "standardise: {stereo: enumerate, most: 3}")
    with Worker(made.scratch(), preload=[rung.verifier.name for rung in made.fast]) as started:
        bench = CampaignWorkbench(made, started)
        texts = [ProposalIn("CC=CC#N", names={"id": "A"}), ProposalIn("CC(Cl)C(C)Br"), ProposalIn("CCO")]
        answers = bench.propose(texts)
        commit(made, bench)
        again = CampaignWorkbench(made, started)
        assert [answer.status for answer in again.propose(texts)] == ["duplicate"] * 3
    assert [answer.status for answer in answers] == ["new"] * 3, "one answer for each text"
    assert answers[0].candidate == "C/C=C/C#N"
    assert bench.n_new == 2 + 3 + 1
    with made.ledger.read() as connection:
        child, parent = t.candidate.alias("child"), t.candidate.alias("parent")
        p = t.candidate_parent.c
        query = sa.select(p.operation, parent.c.text, sa.func.count()).join(child, child.c.id == p.candidate_id)
        query = query.join(parent, parent.c.id == p.parent_id).group_by(p.operation, parent.c.text)
        lineages = {tuple(row) for row in connection.execute(query)}
        members = connection.execute(sa.select(sa.func.count()).select_from(t.campaign_candidate)).scalar_one()
        [remark] = counts(connection, made.row).notes
        with pytest.raises(UsageError, match="names 2 candidates"):
            resolve(connection, made.row, "CC=CC#N")
    assert lineages == {("isomer", "CC=CC#N", 2), ("isomer", "CC(Cl)C(C)Br", 3)}
    assert members == 6, "the parents are no candidates of the campaign"
    assert remark.startswith("standardise: 1 molecule has more stereoisomers or tautomers than `most`")
    notes = [row["text"] for row in rows(made, t.candidate_name) if row["field"] == "standardised"]
    assert notes.count("one of 2 stereoisomers of CC=CC#N") == 2
    assert {row["text"] for row in rows(made, t.candidate_name) if row["field"] == "id"} == {"A"}


def test_the_row_of_a_salt_keeps_its_name_and_what_was_removed(ledger: Ledger, tmp_path: Path) -> None:
    made = opened(ledger, tmp_path, "standardise: parent")
    with Worker(made.scratch(), preload=[rung.verifier.name for rung in made.fast]) as started:
        bench = CampaignWorkbench(made, started)
        bench.propose([ProposalIn("CCN.Cl", names={"id": "salt"}), ProposalIn("CCN", names={"id": "base"})])
    commit(made, bench)
    [member] = rows(made, t.campaign_candidate)
    with made.ledger.read() as connection:
        names = names_of(connection, [member["candidate_id"]], [made.row.id])[member["candidate_id"]]
    assert names == {"id": ("salt", "base"), "standardised": ("hydrogen chloride removed", "n/a")}
