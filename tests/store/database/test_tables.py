"""What was recorded is never changed or removed, whoever asks: the database itself refuses."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.domain.rung_calibration_on_measurements import Fit, FitKind
from sciagent.domain.states_and_needs import Verb
from sciagent.store.campaign_state import (
    campaigns,
    directives,
    note_and_take_watermarks,
    proposer_trajectories,
    same_structures,
)
from sciagent.store.campaign_state.same_structures import RelaxedStructure
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, jobs, reservations_and_bookings
from sciagent.store.job_queue.jobs import NewJob
from sciagent.store.learning import evaluations_and_turn_uses, law_entries, policies_and_roles
from sciagent.store.results import evidence, laws_and_audits
from tests.support import rows

CHANGES = {
    "evidence": "detail = 'x'",
    "quantity": "value = 0",
    "artifact": "size = 0",
    "decision": "propensity = 0",
    "spend": "amount = 0",
    "cost_observation": "amount = 0",
    "campaign_amendment": "why = 'x'",
    "directive": "why = 'x'",
    "artifact_removal": "size = 0",
    "law": "version = 'x'",
    "calibration": "slope = 0",
    "likeness": "distance = 0",
    "turn": "untrainable = NULL",
    "proposal": "status = 'new'",
    "tool_set": "content = '{}'",
    "policy": "name = 'x'",
    "reward_spec": "spec = '{}'",
    "reward_version": "watermark = 9",
    "reward": "value = 1",
    "training_use": "policy_id = 1",
    "evaluation": "answer = '{}'",
    "evaluation_arm": "name = 'x'",
    "policy_role": "why = 'x'",
    "campaign_policy": "named = 'x'",
    "campaign_law": "named = 'x'",
    "audit_entry": "who = 'x'",
    "submission": "said = '{}'",
}
FIXED = {"trajectory": "settings = '{}'", "rollout_group": "opening = '[]'"}


@pytest.fixture
def full(ledger: Ledger) -> Ledger:
    """One row in every append-only table."""
    with ledger.begin() as connection:
        row = rows.campaign(connection)
        candidate_id = rows.entered(connection, row, 1)[0]
        rung_id = campaigns.rungs(connection, row.id)[0].id
        attempt_id = attempts.begin(connection, "me", campaign_id=row.id, rung_id=rung_id)
        artifact = ("log", "a" * 64, 12, "text/plain")
        made = rows.new_evidence(candidate_id, rows.gap(), attempt_id=attempt_id, artifacts=(artifact,))
        [evidence_id] = evidence.record(connection, [made])
        structure = RelaxedStructure(candidate_id, "CH4", evidence_id, "a" * 64)
        same_structures.write(connection, row.id, rung_id, structure, structure, distance=0.01)
        reservations_and_bookings.book_many(
            connection, [reservations_and_bookings.Bill(row.id, rung_id, attempt_id, {"core_seconds": 2.0})]
        )
        costs = {"core_seconds": 1.0}, {"core_seconds": 2.0}
        reservations_and_bookings.observe_costs(
            connection,
            [reservations_and_bookings.CostSeen("toy", "1", rows.SETTINGS, candidate_id, attempt_id, *costs)],
        )
        changes = [("budget.core_seconds", 100, 200)]
        campaigns.amend(
            connection, row, spec={}, spec_hash="c" * 64, source="", base=".", changes=changes, who="me", why="more"
        )
        directives.write(connection, row.id, Verb.HOLD, "me", "wait", candidate_id=candidate_id)
        removal = {"sha256": "a" * 64, "size": 12, "who": "me", "why": "old", "at": db_now(connection)}
        connection.execute(t.artifact_removal.insert().values(removal))
        laws_and_audits.write(connection, row.id, {"price": 0.1})
        entry = law_entries.NewEntry("edits", "d" * 64, "molecule", {}, "", "me")
        law_entries.pin(connection, row.id, "edits", law_entries.enter(connection, entry))
        fit = Fit("homo_lumo_gap", FitKind.LINEAR, "experiment", 1.1, 0.2, 9, 0.1, 0.2, 0.3)
        note_and_take_watermarks.write_fits(connection, row.id, {rung_id: {fit.property: fit}})
        connection.execute(
            t.decision.insert().values(
                campaign_id=row.id,
                candidate_id=candidate_id,
                rung_id=rung_id,
                action="run",
                chooser="test",
                watermark=1,
                propensity=1.0,
                at=db_now(connection),
            )
        )
        learn(connection, row.id)
        answer(connection, row.id, rung_id, candidate_id)
    return ledger


def answer(connection: sa.Connection, campaign_id: int, rung_id: int, candidate_id: int) -> None:
    """Write what a person answered about a job, and the entry of that act."""
    [job_id] = jobs.create_many(connection, [NewJob(campaign_id, rung_id, candidate_id, 0, "e" * 64, 1.0)])
    now = db_now(connection)
    said = {"key": "f" * 64, "job_id": job_id, "fence": 1, "revision": 0, "kind": "result", "said": {}, "files": []}
    connection.execute(t.submission.insert().values(said | {"who": "anna", "at": now}))


def learn(connection: sa.Connection, campaign_id: int) -> None:
    """Write a row into every table of learning, and a trajectory with a turn and a proposal."""
    now = db_now(connection)
    tools = policies_and_roles.enter_tool_set(connection, {"tools": []})
    policy = policies_and_roles.enter(connection, PolicyIdentity("m@1", "in process", "b" * 64))
    group = t.rollout_group.insert().values(
        campaign_id=campaign_id, number=0, task={}, snapshot={}, snapshot_watermark=0, snapshot_seq=0, opening=[],
        opening_hash="0" * 64, seed=1, size=8, purpose="rollout", code_version="1", state="open", at=now,
    )  # fmt: skip
    group_id = connection.execute(group.returning(t.rollout_group.c.id)).scalar_one()
    opened = {"proposer": "m", "settings": {}, "seed": 1, "purpose": "rollout", "group_id": group_id, "sibling": 0}
    trajectory_id = proposer_trajectories.open_(connection, campaign_id, 0, **opened)
    new = proposer_trajectories.NewTurn(0, {}, [], [], {}, "m@1", tool_set_id=tools, policy_id=policy)
    turn_id = proposer_trajectories.write_turn(connection, trajectory_id, new, watermark=0)
    given = {"campaign_id": campaign_id, "turn_id": turn_id, "status": "refused", "text": "?", "at": now}
    connection.execute(t.proposal.insert().values(given))
    spec_id = connection.execute(t.reward_spec.insert().values(hash="1" * 64, spec={})).inserted_primary_key[0]
    version = t.reward_version.insert().values(
        campaign_id=campaign_id, number=1, reward_spec_id=spec_id, watermark=1, laws=[], prices={}, code_version="1",
        guards={}, at=now,
    )  # fmt: skip
    version_id = connection.execute(version).inserted_primary_key[0]
    given = {"reward_version_id": version_id, "trajectory_id": trajectory_id, "terms": {}, "candidates": []}
    connection.execute(t.reward.insert().values(given))
    used = {"policy_id": policy, "reward_version_id": version_id, "turn_id": turn_id, "at": now}
    connection.execute(t.training_use.insert().values(used))
    evaluation = evaluations_and_turn_uses.enter(connection, {}, {}, {"trained": policy}, "me")
    policies_and_roles.promote(connection, "production", policy, evaluation_id=evaluation, who="me", why="better")
    policies_and_roles.pin(connection, campaign_id, "", "production", policy)


def test_the_list_is_whole() -> None:
    assert set(CHANGES) == set(t.APPEND_ONLY) and set(FIXED) == set(t.CHANGEABLE)


def test_only_the_end_of_a_trajectory_and_the_state_of_a_group_may_change(full: Ledger) -> None:
    for table, change in FIXED.items():
        for statement in (f"UPDATE {table} SET {change}", f"DELETE FROM {table}"):
            with pytest.raises(sa.exc.DBAPIError, match="append-only"), full.begin() as connection:
                connection.exec_driver_sql(statement)
        with full.begin() as connection:
            connection.exec_driver_sql(f"UPDATE {table} SET state = 'ended'")


@pytest.mark.parametrize("table", ["trajectory", "rollout_group"])
def test_every_column_that_may_not_change_is_guarded(full: Ledger, table: str) -> None:
    for column in t.metadata.tables[table].columns:
        if column.name not in t.CHANGEABLE[table]:
            with pytest.raises(sa.exc.DBAPIError, match="append-only"), full.begin() as connection:
                connection.exec_driver_sql(f'UPDATE {table} SET "{column.name}" = "{column.name}"')


@pytest.mark.parametrize("table", t.APPEND_ONLY)
def test_no_row_is_changed_or_removed(full: Ledger, table: str) -> None:
    for statement in (f"UPDATE {table} SET {CHANGES[table]}", f"DELETE FROM {table}"):
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), full.begin() as connection:
            connection.exec_driver_sql(statement)
    with full.read() as connection:
        assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 1, "as `full` wrote it"


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_no_table_is_truncated(full: Ledger) -> None:
    for table in t.APPEND_ONLY:
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), full.begin() as connection:
            connection.exec_driver_sql(f"TRUNCATE {table} CASCADE")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_no_row_is_replaced(full: Ledger) -> None:
    """INSERT OR REPLACE removes the old row; SQLite asks the triggers only where it is told to."""
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), full.begin() as connection:
        connection.exec_driver_sql("INSERT OR REPLACE INTO spend SELECT * FROM spend")
