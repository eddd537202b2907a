"""Tasks with people: their list is put in order again once a day, and what others have overtaken is withdrawn."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving import lab_jobs_and_list_order
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.people import find_candidate, hold_release_veto_and_promote
from sciagent.domain.states_and_needs import CampaignState
from sciagent.lab import claims_costs_and_vials, record_answers
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import tasks
from sciagent.store.views import campaign_counts_and_remarks
from tests.lab.conftest import CAMPAIGN, drive
from tests.lab.test_record_answers import entry, place
from tests.support.chat_server import ChatServer

ALCOHOLS = [f"{'C' * n}O" for n in range(1, 25)]


def gap(smiles: str) -> str:
    """A gap that falls with the length of the chain; the longest are hits."""
    return f"{7 - 0.1 * len(smiles):.3f} eV"


@pytest.fixture
def built(ledger: Ledger, tmp_path: Path) -> Built:
    """A priced campaign in which a law has been learnt, and three tasks are listed."""
    (tmp_path / "molecules.csv").write_text("\n".join(("smiles", *ALCOHOLS, "")), encoding="utf-8")
    text = CAMPAIGN.format(name="gaps", lab="{ahead: 3}", budget="{lab_slots: 99}", high=5.2)
    text = text.replace("kind: exhaustive", "kind: priced, audit: 0").replace("count: 2", "count: 9")
    made = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
    while not learnt(made):
        assert drive(made) is CampaignState.WAITING
        for task_id, smiles in listed(made).items():
            record_answers.enter(made, task_id, entry(gap(smiles)))
    assert drive(made) is CampaignState.WAITING
    return made


def learnt(built: Built) -> bool:
    with built.ledger.read() as connection:
        return bool(connection.execute(sa.select(sa.func.count()).select_from(t.law)).scalar())


def listed(built: Built) -> dict[int, str]:
    """{task: structure}, the most urgent first."""
    with built.ledger.read() as connection:
        return {task.id: task.text for task in tasks.listed(connection, campaign_id=built.row.id)}


def decided(built: Built, action: str) -> list[str]:
    with built.ledger.read() as connection:
        d = t.decision.c
        query = sa.select(t.candidate.c.text).join(t.decision, d.candidate_id == t.candidate.c.id)
        return list(connection.execute(query.where(d.action == action).order_by(d.id)).scalars())


def named(built: Built, smiles: str) -> find_candidate.FoundCandidate:
    with built.ledger.read() as connection:
        return find_candidate.resolve(connection, built.row, smiles)


def held_and_let_go(built: Built) -> tuple[dict[int, str], dict[int, str]]:
    """Holds what is most urgent until others are listed in its place; returns both lists."""
    best = listed(built)
    for smiles in best.values():
        hold_release_veto_and_promote.hold(built, named(built, smiles), "carla", "wait")
    assert drive(built) is CampaignState.WAITING
    others = listed(built)
    assert len(best) == len(others) == 3 and not set(best.values()) & set(others.values())
    for smiles in best.values():
        hold_release_veto_and_promote.release(built, named(built, smiles), "carla", "go on")
    return best, others


def test_tasks_that_are_overtaken_are_withdrawn_and_may_come_back(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    best, others = held_and_let_go(built)
    before = len(decided(built, "withdraw")), len(decided(built, "reprice"))
    monkeypatch.setattr(lab_jobs_and_list_order, "REORDER_INTERVAL", timedelta(0))
    drive(built)
    now, gone = listed(built), set(decided(built, "withdraw")[before[0] :])
    assert len(now) == 3 and gone and gone <= set(others.values())
    assert set(now.values()) <= set(best.values()) | (set(others.values()) - gone)
    assert all((best | others)[task] == smiles for task, smiles in now.items()), "tasks keep their numbers"
    for task, smiles in others.items():
        assert place(built, task) == ("open" if smiles in gone else "pending", None, False)
    assert set(decided(built, "reprice")[before[1] :]) == set(others.values()) - gone


def test_a_task_with_a_vial_or_a_claim_stays(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    _, others = held_and_let_go(built)
    vial, claimed, free = others

    before = len(decided(built, "withdraw"))
    claims_costs_and_vials.register(built, vial, "ben", "free base", "made")
    claims_costs_and_vials.claim(built, claimed, "ben")
    monkeypatch.setattr(lab_jobs_and_list_order, "REORDER_INTERVAL", timedelta(0))
    drive(built)
    assert {vial, claimed} <= set(listed(built)) and decided(built, "withdraw")[before:] == [others[free]]


def test_the_list_is_not_put_in_order_twice_a_day_and_a_dispatcher_comes_back_after_one(built: Built) -> None:
    drive(built)
    with built.ledger.begin() as connection:
        campaigns.set_hosted(connection, built.row.id, True)
        assert campaigns.hosted_without_driver(connection) == []
        wakes_at = connection.execute(sa.select(t.campaign.c.wakes_at)).scalar_one()
        first = campaigns.last_event(connection, built.row.id, lab_jobs_and_list_order.REPRICED_EVENT)
    assert first is not None and abs(wakes_at - first - lab_jobs_and_list_order.REORDER_INTERVAL) < timedelta(
        minutes=30
    )
    _, others = held_and_let_go(built)
    before = decided(built, "withdraw")
    drive(built)
    assert listed(built) == others and decided(built, "withdraw") == before


def test_no_more_stays_on_the_list_than_the_goal_is_likely_to_need(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    for task_id, smiles in listed(built).items():
        record_answers.enter(built, task_id, entry(gap(smiles)))
    drive(built)
    with built.ledger.read() as connection:
        hits = campaign_counts_and_remarks.hits(connection, built.row.id).hits
    goal = built.spec.goal.model_copy(update={"count": hits + 1})
    nearer = Built(built.ledger, built.row, built.spec.model_copy(update={"goal": goal}), built.rungs)
    assert len(listed(built)) == 3
    monkeypatch.setattr(lab_jobs_and_list_order, "REORDER_INTERVAL", timedelta(0))
    drive(nearer)
    assert 1 <= len(listed(built)) < 3, "one hit is missing, and more than every third was one"
    with built.ledger.read() as connection:
        d = t.decision.c
        why = connection.execute(sa.select(d.why).where(d.action == "withdraw").order_by(d.id.desc()).limit(1)).scalar()
    assert why == f"priced: {lab_jobs_and_list_order.WHY_SPARE}"
    before = listed(built)
    drive(nearer)
    assert set(listed(built)) <= set(before), "nothing takes their place"


def test_a_campaign_whose_model_fails_waits_for_people_who_have_tasks(
    ledger: Ledger, tmp_path: Path, server: ChatServer
) -> None:
    server.respond = lambda body, n: (400, {"error": {"message": "no credit"}})
    (tmp_path / "molecules.csv").write_text("\n".join(("smiles", *ALCOHOLS[:2], "")), encoding="utf-8")
    screen = "{{kind: screen, file: molecules.csv}}"
    assert screen in CAMPAIGN
    model = f'{{{{kind: llm, model: m, seeds: molecules.csv, endpoint: "{server.url}"}}}}'
    text = CAMPAIGN.replace(screen, model).format(name="gaps", lab="{ahead: 3}", budget="{lab_slots: 99}", high=5.2)
    made = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
    assert drive(made) is CampaignState.WAITING
    with ledger.read() as connection:
        why = str(campaigns.get(connection, "gaps").stop_reason)
    assert why.startswith("for people; the model failed 5 times in a row: ") and "no credit" in why
    for task_id in listed(made):
        record_answers.enter(made, task_id, entry("1 eV"))
    assert drive(made) is CampaignState.FAILED
