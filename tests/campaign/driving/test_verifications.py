"""`budget: {verifications: N}`: the terminal rung is asked about exactly so many candidates, seeds apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent import Campaign
from sciagent.store.database import tables as t
from sciagent.store.views.campaign_counts_and_remarks import verifications

TEXT = """
campaign: {name}
subject: molecule
seed: 3
objectives: [{{property: homo_lumo_gap, window: [2, 4], unit: eV}}]
ladder:
  - {{rung: checks, verifier: molecule.checks, settings: {{max_heavy_atoms: 8}}}}
  - rung: xtb
    verifier: xtb.singlepoint
    inline: {inline}
    settings: {{geometry: {{method: mmff94, conformers: 1}}}}
goal: {{kind: hits}}
budget: {{verifications: {n}}}
proposer: {{kind: evolve, seeds: seeds.csv, batch: 4}}
scheduler: {{kind: exhaustive}}
workers: 2
"""
MORE_RUNGS = """  - rung: two
    verifier: xtb.singlepoint
    settings: {geometry: {method: mmff94, conformers: 2}}
  - rung: three
    verifier: xtb.singlepoint
    settings: {geometry: {method: mmff94, conformers: 3}}
goal:"""


@pytest.mark.parametrize("inline", ["true", "false"])
def test_a_campaign_ends_after_exactly_its_verifications(tmp_path: Path, inline: str) -> None:
    (tmp_path / "seeds.csv").write_text("smiles\nCCO\nC=O\nCCN\n", encoding="utf-8")

    def run(name: str, n: int) -> tuple[str, str | None, int, int]:
        (tmp_path / "c.yaml").write_text(TEXT.format(name=name, inline=inline, n=n), encoding="utf-8")
        campaign = Campaign.from_yaml(tmp_path / "c.yaml", tmp_path / "sciagent.db")
        status = campaign.run(progress=False)
        store = campaign.ledger.store
        with store.read() as connection:
            row = campaign._row()
            seeds = sum(each.in_seeds for each in campaign.candidates())
            return status.state, status.stop_reason, verifications(connection, row.id, 2), seeds

    assert run("first", 5) == ("budget_spent", "all 5 verifications by xtb are used", 5, 3)
    assert run("first", 7)[2] == 7, "an amended budget goes on"
    assert run("second", 6)[2] == 6, "known evidence counts, too"


@pytest.mark.parametrize(("scheduler", "rungs"), [("halving", 3), ("best_rung, rung: xtb", 2)])
def test_its_proposer_waits_for_the_answers_of_the_seeds(tmp_path: Path, scheduler: str, rungs: int) -> None:
    """Also of those that the scheduler would not promote, by the rungs that it runs."""
    (tmp_path / "seeds.csv").write_text("smiles\nCCO\nC=O\nCCN\nCCC\nCC=C\n", encoding="utf-8")
    text = TEXT.format(name="seeds", inline="false", n=3).replace("kind: exhaustive", f"kind: {scheduler}")
    (tmp_path / "c.yaml").write_text(text.replace("goal:", MORE_RUNGS), encoding="utf-8")
    campaign = Campaign.from_yaml(tmp_path / "c.yaml", tmp_path / "sciagent.db")
    campaign.run(progress=False)

    standing = t.campaign_candidate.c
    seeds = sa.select(standing.candidate_id).where(standing.in_seeds)
    answers = sa.select(t.evidence.c.watermark).where(t.evidence.c.candidate_id.in_(seeds))
    paid_answers = answers.where(t.evidence.c.verifier == "xtb.singlepoint").order_by(t.evidence.c.watermark)
    is_child = sa.func.coalesce(t.proposal.c.operation, "") != "seed"
    turns_with_children = sa.select(t.proposal.c.turn_id).where(is_child)
    first_asked = sa.select(sa.func.min(t.turn.c.asked_watermark)).where(t.turn.c.id.in_(turns_with_children))
    with campaign.ledger.store.read() as connection:
        assert sum(each.in_seeds for each in campaign.candidates()) == 5
        watermarks = connection.execute(paid_answers).scalars().all()
        assert len(watermarks) == 5 * rungs and watermarks[-1] <= connection.execute(first_asked).scalar_one()
