"""The ledger draws the right conclusions from what happens to molecules and instruments."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.pricing.rung_by_rung_purchasing_and_choice import purchasing_of
from sciagent.lab import claims_costs_and_vials, record_answers
from sciagent.rewards.candidate_states_lots_and_episode_starts import states
from sciagent.rewards.reward_term_contract import CandidateState, Settlement
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import tasks
from sciagent.store.lab.tasks import LabTask
from tests.lab.conftest import CAMPAIGN, MOLECULES, Make, drive
from tests.lab.test_record_answers import entry, place, task_ids


def priced(ledger: Ledger, folder: Path, goal: str = "hits, count: 2") -> Built:
    """A campaign of the scheduler that learns how often a rung gives no answer."""
    (folder / "molecules.csv").write_text("\n".join(("smiles", *MOLECULES, "")), encoding="utf-8")
    text = CAMPAIGN.format(name="priced", lab="{ahead: 3}", budget="{lab_slots: 9}", high=4.6)
    text = text.replace("kind: exhaustive", "kind: priced, audit: 0").replace("hits, count: 2", goal)
    built = create_or_open(ledger, parse_spec(text, base=folder), text, "test").built
    drive(built)
    return built


def tried(built: Built) -> tuple[int, int]:
    """Returns how often the laboratory has tried, and how often it has failed, as the scheduler counts it."""
    with built.ledger.begin() as connection:
        pool = purchasing_of(built, connection, BudgetTracker(built, connection)).pool
        pool.refresh(connection)
    return int(pool.tried[-1]), int(pool.failed[-1])


def found(built: Built, task_id: int) -> LabTask:
    with built.ledger.read() as connection:
        task = tasks.find(connection, task_id)
    assert task is not None
    return task


def test_a_salt_and_its_parent_are_one_task_and_the_vial_says_which_is_in_it(make: Make) -> None:
    built = make(smiles=("NCc1ccccc1", "[Cl-].[NH3+]Cc1ccccc1"))
    [task_id] = task_ids(built)
    vial = claims_costs_and_vials.register(built, task_id, "ben", "HCl salt", "bought", lot="AB-12")
    record_answers.enter(built, task_id, entry("4.31 eV", sample=vial.code))
    task = found(built, task_id)
    assert (task.text, task.code) == ("NCc1ccccc1", vial.code) and place(built, task_id) == ("settled", "pass", True)


@pytest.mark.parametrize("goal", ["hits, count: 2", "graded"])
def test_what_cannot_be_made_counts_as_a_failure_of_the_rung_and_is_worth_nothing(
    ledger: Ledger, tmp_path: Path, goal: str
) -> None:
    built = priced(ledger, tmp_path, goal)
    first = task_ids(built)[0]
    record_answers.enter(built, first, entry(not_obtained="synthesis_failed"))
    assert tried(built) == (1, 1)
    with built.ledger.read() as connection:
        candidate = found(built, first).candidate_id
        assert states(built, connection, [candidate], 10**6)[candidate] == CandidateState(Settlement.ANSWERED, 0.0)


@pytest.mark.parametrize("why", ["the lamp is broken", "the vial fell"])
def test_a_broken_instrument_or_a_lost_vial_says_nothing_of_the_molecule(
    ledger: Ledger, tmp_path: Path, why: str
) -> None:
    built = priced(ledger, tmp_path)
    first = task_ids(built)[0]
    claims_costs_and_vials.claim(built, first, "anna")
    claims_costs_and_vials.release(built, first, "anna", why)
    assert first in task_ids(built) and place(built, first) == ("pending", None, False) and tried(built) == (0, 0)
    with built.ledger.read() as connection:
        lab = sa.select(sa.func.count()).where(t.evidence.c.verifier == "lab.measurement")
        assert connection.execute(lab).scalar() == 0
        candidate = found(built, first).candidate_id
        assert states(built, connection, [candidate], 10**6)[candidate].settlement is Settlement.UNDECIDED


def test_how_the_laboratory_works_is_no_part_of_what_is_measured(make: Make) -> None:
    built = make()
    other = make("dear", lab="{ahead: 3, cost: {lab_slots: 2}, due_days: 3, approve: true, review: true}")
    keys = [{found(each, task).evidence_key for task in _all(each)} for each in (built, other)]
    assert keys[0] == keys[1] and len(keys[0]) == 3


def _all(built: Built) -> list[int]:
    j = t.job.c
    with built.ledger.read() as connection:
        return list(connection.execute(sa.select(j.id).where(j.campaign_id == built.row.id)).scalars())
