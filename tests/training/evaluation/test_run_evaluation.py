"""Evaluations as a whole: equal verifications, figures from the ledger, resumption, and arms that fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.domain.states_and_needs import AttemptState
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.training.evaluation.evaluation_command_answers import EvaluatedCampaign, EvaluationAnswer
from sciagent.training.evaluation.evaluation_spec import load_evaluation
from sciagent.training.evaluation.run_evaluation import Evaluation

GAP = """
campaign: gap
subject: molecule
objectives: [{property: homo_lumo_gap, min: 5, unit: eV}]
ladder:
  - {rung: checks, verifier: molecule.checks, settings: {max_heavy_atoms: 6}}
  - {rung: xtb, verifier: xtb.singlepoint, settings: {geometry: {conformers: 1}}}
goal: {kind: hits}
budget: {proposals: 60}
proposer: {kind: evolve, seeds: seeds.csv}
scheduler: {kind: thresholds}
safety: {screen: false, reason: molecules of a test}
"""
GAP_RECIPE = """
evaluate:
  tasks: [gap.yaml]
  seeds: [1]
  verifications: {verifications}
  arms:
    evolve: {{proposer: {{kind: evolve, batch: 8}}}}
"""


def evaluated(recipe: Path, workers: int = 1) -> tuple[EvaluationAnswer, list[EvaluatedCampaign]]:
    told: list[EvaluatedCampaign] = []
    ledger = Ledger(str(recipe.parent / "sciagent.db"))
    evaluation = Evaluation(load_evaluation(recipe), recipe.parent, ledger, workers)
    return evaluation.run(lambda campaign, done, of: told.append(campaign)), told


def test_each_campaign_ends_after_its_verifications_and_is_read_again_later(recipe: Path) -> None:
    answer, told = evaluated(recipe)
    assert len(told) == 8 and all(each.verifications == 5 for each in told)
    assert answer.tasks == ("low", "high") and answer.seeds == (1, 2)
    for name, arm in answer.arms.items():
        mine = [each for each in told if each.arm == name]
        hits = sum(each.hits for each in mine)
        assert arm.hits == hits and arm.hits_per_verification[0] == pytest.approx(hits / 20)
        assert all(each.hits == len(each.hits_at) and set(each.hits_at) <= set(range(1, 6)) for each in mine)
        assert arm.core_seconds > 0 and arm.valid is not None
    assert {each.hits for each in told} != {0}
    ledger = Ledger(str(recipe.parent / "sciagent.db"))
    with ledger.read() as connection:
        names = campaigns.names(connection)
        reasons = {campaigns.get(connection, name).stop_reason for name in names}
    assert len(names) == 8 and reasons == {"all 5 verifications by checks are used"}
    again, _ = evaluated(recipe)
    assert again == answer


def test_what_other_campaigns_compute_later_costs_a_campaign_nothing(tmp_path: Path) -> None:
    """A second evaluation verifies candidates that a campaign of the first has proposed, and left."""
    (tmp_path / "seeds.csv").write_text("smiles\nCCO\nCCN\n", encoding="utf-8")
    (tmp_path / "gap.yaml").write_text(GAP, encoding="utf-8")
    recipe = tmp_path / "recipe.yaml"
    answers = []
    for verifications in (1, 4, 1):
        recipe.write_text(GAP_RECIPE.format(verifications=verifications), encoding="utf-8")
        answers.append(evaluated(recipe)[0])
    first, larger, again = (answer.campaigns[0] for answer in answers)
    assert again == first and 0 < first.core_seconds < larger.core_seconds
    with Ledger(str(tmp_path / "sciagent.db")).read() as connection:
        row = campaigns.get(connection, first.campaign)
        members = sa.select(t.campaign_candidate.c.candidate_id).where(
            t.campaign_candidate.c.campaign_id == row.id, t.campaign_candidate.c.in_seeds.is_(False)
        )
        answered = sa.select(sa.func.count()).where(
            t.evidence.c.verifier == "xtb.singlepoint", t.evidence.c.candidate_id.in_(members)
        )
        assert connection.execute(answered).scalar_one() > first.verifications == 1


def test_failed_attempts_on_seeds_cost_a_campaign_nothing(tmp_path: Path) -> None:
    """Neither those that crash on a seed nor any that come second in a race with another campaign for an answer."""
    (tmp_path / "seeds.csv").write_text("smiles\nCCO\nCCN\n", encoding="utf-8")
    (tmp_path / "gap.yaml").write_text(GAP, encoding="utf-8")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(GAP_RECIPE.format(verifications=1), encoding="utf-8")
    before = evaluated(recipe)[0].campaigns[0]
    booked = []
    with Ledger(str(tmp_path / "sciagent.db")).begin() as connection:
        row = campaigns.get(connection, before.campaign)
        member = t.campaign_candidate.c
        query = sa.select(t.attempt, member.in_seeds).join(t.job, t.job.c.id == t.attempt.c.job_id)
        query = query.join(
            t.campaign_candidate, sa.and_(member.candidate_id == t.job.c.candidate_id, member.campaign_id == row.id)
        )
        for attempt in connection.execute(query).mappings().all():
            second = {c.name: attempt[c.name] for c in t.attempt.columns if c.name != "id"}
            failed = second | {"outcome": "crashed", "state": AttemptState.FAILED}
            cost = {"resource": "core_seconds", "amount": 100.0, "at": attempt["started_at"]}
            for values in (failed, second, second | {"job_id": None}):
                id_ = connection.execute(sa.insert(t.attempt).values(values)).inserted_primary_key[0]
                connection.execute(sa.insert(t.spend).values(campaign_id=row.id, attempt_id=id_, **cost))
            booked.append(bool(attempt["in_seeds"]))
    after = evaluated(recipe)[0].campaigns[0]
    assert booked.count(True) == 2 and booked.count(False) >= 1
    assert after.core_seconds == pytest.approx(before.core_seconds + 100 * booked.count(False))


def test_an_arm_that_fails_says_so_and_does_not_stop_the_others(recipe: Path) -> None:
    text = recipe.read_text(encoding="utf-8").replace("[1, 2]", "[1]")
    recipe.write_text(text + "    trained: {model: nowhere}\n    broken: {proposer: {kind: evolve, batch: 0}}\n")
    answer, _ = evaluated(recipe)
    assert set(answer.arms) == {"random", "evolve"}
    assert "nowhere" in answer.failed["trained"][0] and "batch" in " ".join(answer.failed["broken"])
    assert [(each.arm, each.minus) for each in answer.differences] == [("evolve", "random")]


def test_a_stopped_evaluation_goes_on_where_it_was(recipe: Path) -> None:
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("[1, 2]", "[1]"), encoding="utf-8")
    ledger = Ledger(str(recipe.parent / "sciagent.db"))
    evaluation = Evaluation(load_evaluation(recipe), recipe.parent, ledger)
    answer = evaluation.run(lambda campaign, done, of: evaluation.stop() if done == 2 else None)
    assert len(answer.campaigns) == 2 and answer.stopped is not None
    whole, _ = evaluated(recipe)
    assert len(whole.campaigns) == 4 and whole.stopped is None
    assert [each for each in whole.campaigns if each in answer.campaigns] == list(answer.campaigns)
