"""Answers of people: evidence, verdicts, corrections, and answers that are sent twice."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.states_and_needs import CampaignState, JobState
from sciagent.errors import EvidenceConflictError, UsageError
from sciagent.lab import claims_costs_and_vials, record_answers
from sciagent.lab.record_answers import LabEntry
from sciagent.store.campaign_state import campaigns, candidate_standings, note_and_take_watermarks
from sciagent.store.database import tables as t
from sciagent.store.lab import tasks
from sciagent.store.results import evidence
from sciagent.store.views import campaign_counts_and_remarks
from tests.lab.conftest import Make, drive


def entry(gap: str = "4.31 eV", who: str = "anna", **more: Any) -> LabEntry:
    """An answer: a gap as it was typed, or a reason why there is none."""
    values = {} if "not_obtained" in more else {"homo_lumo_gap": gap}
    said = {"values": values, "uncertainties": {}, "limit": "", "not_obtained": more.pop("not_obtained", "")}
    return LabEntry(said, who, **more)


def task_ids(built: Built) -> list[int]:
    with built.ledger.read() as connection:
        return [task.id for task in tasks.listed(connection, campaign_id=built.row.id)]


def place(built: Built, task_id: int) -> tuple[str, str | None, bool]:
    """Standing, verdict, and whether it is a hit."""
    with built.ledger.read() as connection:
        task = tasks.find(connection, task_id)
        assert task is not None
        row = candidate_standings.get(connection, built.row.id, task.candidate_id)
    return row["standing"], row["verdict"], bool(row["is_hit"])


def test_an_answer_becomes_evidence_and_wakes_the_campaign(make: Make) -> None:
    built = make(count=3)
    with built.ledger.begin() as connection:
        campaigns.set_hosted(connection, built.row.id, True)
        assert campaigns.hosted_without_driver(connection) == [], "a dispatcher leaves it alone while nothing is new"
    first = task_ids(built)[0]
    done = record_answers.enter(built, first, entry("4.31 eV"))
    assert (done.state, done.revision, place(built, first)) == ("done", 0, ("settled", "pass", True))
    with built.ledger.read() as connection:
        assert campaigns.hosted_without_driver(connection) == [(built.row.id, "gaps")]
        [row] = connection.execute(sa.select(t.evidence).where(t.evidence.c.verifier == "lab.measurement")).all()
        assert (row.who, row.source, row.key) == ("anna", f"task {first}", done.evidence_key)
        [measured] = evidence.measured_of(connection, [row.id])[row.id]
        assert measured.level.label == "UV-vis onset, temperature 25 °C"
        assert (measured.quantity.value, measured.quantity.as_typed) == (4.31, "4.31 eV")
        assert campaign_counts_and_remarks.spent(connection, built.row.id)["lab_slots"] == 1
    assert drive(built) is CampaignState.WAITING and len(task_ids(built)) == 3, "the fourth molecule is on the list"
    for task_id in task_ids(built)[:2]:
        record_answers.enter(built, task_id, entry("4.2 eV"))
    assert drive(built) is CampaignState.FINISHED, "three hits"


def test_what_could_not_be_obtained_is_a_result(make: Make) -> None:
    built = make()
    first = task_ids(built)[0]
    record_answers.enter(built, first, entry(not_obtained="decomposed"))
    assert place(built, first) == ("settled", "fail", False)
    with built.ledger.read() as connection:
        row = connection.execute(sa.select(t.campaign_candidate).where(t.campaign_candidate.c.verdict == "fail")).one()
    assert (row.reason, row.utility) == ("decomposed", None)


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [("<3.9 eV", "fail"), ("<4.3 eV", "inconclusive"), (">4.7 eV", "fail"), (">4.1 eV", "inconclusive")],
)
def test_a_limit_decides_only_where_it_can(make: Make, gap: str, verdict: str) -> None:
    built = make()
    first = task_ids(built)[0]
    record_answers.enter(built, first, entry(gap))
    assert place(built, first)[1] == verdict


def test_an_answer_that_is_sent_twice_is_recorded_once(make: Make) -> None:
    built = make()
    first = task_ids(built)[0]
    done = record_answers.enter(built, first, entry(key="k"))
    again = record_answers.enter(built, first, entry(key="k"))
    assert again.was_known and again.evidence_key == done.evidence_key
    with pytest.raises(EvidenceConflictError, match="the key k was used for another answer"):
        record_answers.enter(built, first, entry("4.4 eV", key="k"))
    with built.ledger.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(t.submission)).scalar() == 1


def test_only_who_has_a_task_answers_it(make: Make) -> None:
    built = make()
    first = task_ids(built)[0]
    claims_costs_and_vials.claim(built, first, "anna")
    with pytest.raises(UsageError, match=f"task {first} is with anna"):
        record_answers.enter(built, first, entry(who="ben"))
    claims_costs_and_vials.claim(built, first, "ben", take_over=True)
    with pytest.raises(UsageError, match=f"task {first} is with ben"):
        record_answers.enter(built, first, entry(who="anna"))
    record_answers.enter(built, first, entry(who="ben"))


def test_an_answer_to_a_task_that_is_not_wanted_any_more_counts(make: Make) -> None:
    built = make()
    first, second, _ = task_ids(built)
    claims_costs_and_vials.claim(built, first, "anna")
    with built.ledger.begin() as connection:
        note_and_take_watermarks.lock(connection, built.row.id)
        connection.execute(sa.update(t.job).where(t.job.c.id == first).values(cancel_requested=True))
        connection.execute(sa.update(t.job).where(t.job.c.id == second).values(state="cancelled"))
    record_answers.enter(built, first, entry())
    assert place(built, first) == ("settled", "pass", True)
    with pytest.raises(UsageError, match=f"task {second} is over: cancelled; nothing was recorded"):
        record_answers.enter(built, second, entry())


def test_a_correction_moves_the_verdict_in_every_campaign_with_the_rung(make: Make) -> None:
    built = make()
    first = task_ids(built)[0]
    record_answers.enter(built, first, entry("4.5 eV"))
    other = make("wider", high=5.0)
    with built.ledger.read() as connection:
        found = tasks.find(connection, first)
        assert found is not None

        def hits() -> list[bool]:
            with built.ledger.read() as now:
                return [
                    bool(candidate_standings.get(now, row.id, found.candidate_id)["is_hit"])
                    for row in (built.row, other.row)
                ]

    assert hits() == [True, True], "the second campaign reuses what the first one measured"
    with pytest.raises(UsageError, match="a correction needs a reason; give it with --why"):
        record_answers.enter(built, first, entry("4.8 eV"))
    assert record_answers.enter(built, first, entry("4.8 eV", why="wrong baseline")).revision == 1
    assert hits() == [False, True], "above the window of the first, inside that of the second"
    assert record_answers.enter(built, first, entry("5.8 eV", why="wrong solvent")).revision == 2
    assert hits() == [False, False]
    assert record_answers.enter(built, first, entry("4.5 eV", why="it was right")).revision == 3
    assert hits() == [True, True]
    with built.ledger.read() as connection:
        events = connection.execute(
            sa.select(t.event.c.payload).where(t.event.c.kind == "restated", t.event.c.campaign_id == other.row.id)
        ).scalars()
        assert [payload["is_hit"] for payload in events] == [[True, True], [True, False], [False, True]]


def test_one_compound_in_two_campaigns_is_one_task(make: Make) -> None:
    first, second = make("gaps"), make("others", high=4.2)
    [one, *_], [other, *_] = all_tasks(first), all_tasks(second)
    with first.ledger.read() as connection:
        assert {task.campaign for task in tasks.listed(connection)} == {"gaps"}, "each compound is listed once"
        assert len(tasks.listed(connection)) == 3
    claims_costs_and_vials.claim(first, one, "anna")
    with pytest.raises(UsageError, match=f"task {one} of gaps asks for the same, and is with anna"):
        claims_costs_and_vials.claim(second, other, "ben")
    record_answers.enter(first, one, entry("4.31 eV"))
    assert place(first, one) == ("settled", "pass", True) and place(second, other) == ("settled", "fail", False)
    with first.ledger.read() as connection:
        found = tasks.find(connection, other)
        assert found is not None and found.state is JobState.CANCELLED
        assert campaign_counts_and_remarks.spent(connection, second.row.id).get("lab_slots", 0) == 0, (
            "it costs nothing there"
        )
        d = t.decision.c
        reasons = sa.select(d.why).where(d.action == "reuse", d.campaign_id == second.row.id)
        assert "gaps asked for the same, and was answered" in connection.execute(reasons).scalars().all()
    record_answers.enter(first, one, entry("4.1 eV", why="read again"))
    assert place(first, one) == ("settled", "pass", True) and place(second, other) == ("settled", "pass", True)
    with first.ledger.begin() as connection:
        resting = sa.update(t.campaign).where(t.campaign.c.id == first.row.id)
        connection.execute(resting.values(state=CampaignState.INTERRUPTED))
    with first.ledger.read() as connection:
        listed = tasks.listed(connection)
    assert {task.campaign for task in listed} == {"others"}, "what rests hides nothing of the others"


def all_tasks(built: Built) -> list[int]:
    with built.ledger.read() as connection:
        job = t.job.c
        query = sa.select(job.id).where(job.campaign_id == built.row.id, job.queue == "world").order_by(job.id)
        return list(connection.execute(query).scalars())


def test_a_number_without_the_unit_that_the_campaign_states_is_not_recorded(make: Make) -> None:
    name = "log_molar_solubility"
    built = make(quantities=f"homo_lumo_gap, {name}", lab=f"{{ahead: 3, units: {{{name}: mmol/L}}}}")
    task_id = task_ids(built)[0]

    def answer(text: str) -> LabEntry:
        return LabEntry({"values": {name: text}, "uncertainties": {}, "limit": "", "not_obtained": ""}, "anna")

    with pytest.raises(UsageError, match=f"{name}: the number has no unit; one of: mmol/L, "):
        record_answers.enter(built, task_id, answer("0.9"))
    done = record_answers.enter(built, task_id, answer("0.9 1"))
    assert done.open_quantities == ("homo_lumo_gap",), "the logarithm is recorded"
