"""Rolls out the episodes of a stage in every task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from sciagent.campaign.core.build import Built, create_or_open
from sciagent.campaign.spec.load import load_spec
from sciagent.inputs.settings import user
from sciagent.store.campaign_state.trajectories import Purpose
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import groups
from sciagent.training.recipes.stage_folders import StageFolder
from sciagent.training.recipes.stages import EpisodesStage
from sciagent.training.recipes.stopping import Interrupted, Stopping
from sciagent.training.rollouts.drive import RolloutDrive, plan_of, policy_of


def built_tasks(ledger: Ledger, files: Sequence[Path]) -> list[Built]:
    """Returns the campaigns of the tasks, which are made if they are not in the ledger. Raises SpecError."""
    return [create_or_open(ledger, load_spec(file), file.read_text(encoding="utf-8"), user())[0] for file in files]


def roll_out(
    stage: EpisodesStage,
    tasks: Sequence[Built],
    policy: str,
    folder: StageFolder,
    stopping: Stopping,
    say: Callable[[str], None],
) -> list[str]:
    """Rolls out the groups of a stage that are missing in each task; returns what it did, in sentences.

    policy: `scripted` or a model of this machine. Raises Interrupted.
    """
    purpose: Purpose = "demonstration" if stage.kind == "demonstrations" else "rollout"
    before: Mapping[str, int] = folder.note(
        "groups", lambda: {built.row.name: _complete(built, purpose) for built in tasks}
    )
    told = []
    for built in tasks:
        name = built.row.name
        wanted = before[name] + stage.groups
        with policy_of(built, policy) as chosen:
            while (missing := wanted - _complete(built, purpose)) > 0:
                drive = RolloutDrive(built, chosen, None, partial(_say, say, name))
                plan = plan_of(missing, stage.siblings, stage.turns, chosen.name, purpose, stage.begins)
                with stopping.during(drive.stop):
                    answer = drive.run(plan)
                if stopping.is_set:
                    raise Interrupted
                if answer.stopped is not None or not answer.turns:
                    told.append(f"{name}: {answer.stopped or f'the campaign is {answer.state}'}")
                    break
        told.append(f"{name}: {_complete(built, purpose) - before[name]} groups of {stage.siblings} by {policy}")
    return told


def _say(say: Callable[[str], None], name: str, line: str) -> None:
    say(f"{name}: {line}")


def _complete(built: Built, purpose: str) -> int:
    """Returns the number of complete groups with a purpose that the campaign has."""
    with built.ledger.read() as connection:
        return sum(row.purpose == purpose for row in groups.of_campaign(connection, built.row.id, "complete"))
