"""A process that is killed within a step leaves the whole step in the ledger or nothing of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_stored
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import rollout_groups as group_rows
from sciagent.training.rollouts.open_and_resume_groups import RolloutPlan
from sciagent.verification.sandbox.host import Worker
from tests.training.rollouts.rolled import copied, episodes, let_go, runner_of, to_the_end

POINTS = 50
PLAN = RolloutPlan(groups=1, siblings=4, turns=2, policy="scripted")


def _killed(url: str, artifacts: str, name: str, at: int, counted: Any) -> None:
    """Takes one step, and kills its own process before a database statement. counted: statements of the step."""
    ledger = Ledger(url, artifacts=Path(artifacts))
    built = open_stored(ledger, name, "test").built
    with Worker(built.scratch(), preload=[rung.verifier.name for rung in built.fast]) as worker:
        runner = runner_of(built, worker)
        groups = runner.continued()

        def count(*_: object) -> None:
            counted.value += 1
            if counted.value == at:
                os.kill(os.getpid(), signal.SIGKILL)

        sa.event.listen(ledger.engine, "before_cursor_execute", count)
        sa.event.listen(ledger.engine, "commit", count)
        runner.step(groups)


def _step(built: Built, at: int) -> tuple[int, int]:
    """Takes a step in another process; returns its exit code and the number of statements."""
    context = multiprocessing.get_context("fork")
    counted = context.Value("i", 0)
    artifacts = str(Path(str(built.ledger.url.database)).parent / "artifacts")
    given = (str(built.ledger.url.database), artifacts, built.row.name, at, counted)
    process = context.Process(target=_killed, args=given)
    process.start()
    process.join(60)
    return process.exitcode or 0, counted.value


@pytest.mark.long
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_kill_at_any_statement_leaves_no_half_step_and_the_group_goes_on_as_if_undisturbed(
    built: Built, worker: Worker, tmp_path: Path
) -> None:
    runner_of(built, worker).opened(PLAN)
    let_go(built)
    with copied(built, tmp_path / "whole") as other:
        code, n = _step(other, -1)
        assert code == 0 and n >= POINTS
        let_go(other)
        runner = runner_of(other, worker)
        to_the_end(runner, runner.continued())
        undisturbed = episodes(other)
    seen = set()
    for point in range(POINTS):
        at = 1 + point * (n - 1) // (POINTS - 1)
        with copied(built, tmp_path / f"at{point}") as other:
            assert _step(other, at)[0] == -signal.SIGKILL
            with other.ledger.read() as connection:
                turns = connection.execute(
                    sa.select(t.turn.c.trajectory_id).join(t.trajectory).where(t.trajectory.c.group_id.is_not(None))
                ).all()
                states = [row.state for row in group_rows.of_campaign(connection, other.row.id)]
            assert len(turns) in (0, PLAN.siblings) and len(set(turns)) == len(turns) and states == ["open"]
            seen.add(len(turns))
            let_go(other)
            runner = runner_of(other, worker)
            to_the_end(runner, runner.continued())
            assert episodes(other) == undisturbed
            with other.ledger.read() as connection:
                assert [row.state for row in group_rows.of_campaign(connection, other.row.id)] == ["complete"]
    assert 0 in seen
