"""The tasks of a run: campaigns that are driven while their groups are rolled out."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.file.proposers import LlmSpec
from sciagent.campaign.proposing.rungs_on_unwritten_proposals import Runs
from sciagent.errors import UsageError
from sciagent.inputs.environment_variables import user
from sciagent.store.database.ledger import Ledger
from sciagent.training.rollouts.campaign_rollouts import check_seeds, model_spec, seed_source
from sciagent.training.rollouts.tool_calls_across_episodes import WorkerTeam
from sciagent.training.settings import LiveSettings


class WeightedTask(Protocol):
    """A task with its share of the groups."""

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> float: ...


T = TypeVar("T", bound=WeightedTask)


@dataclass
class LiveTask:
    """A campaign that is driven."""

    driver: Driver
    worker: Runs
    spec: LlmSpec
    weight: float

    @property
    def built(self) -> Built:
        return self.driver.built

    @property
    def name(self) -> str:
        return self.built.row.name


@contextmanager
def driven(settings: LiveSettings, ledger: Ledger) -> Iterator[list[LiveTask]]:
    """Opens the campaigns, drives them, and proposes their seeds. At the end the ladder decides about all candidates.

    Raises UsageError for a campaign that is named twice, or that has other proposers than a model or a file.
    """
    with ExitStack() as stack:
        tasks: list[LiveTask] = []
        for share in settings.tasks:
            spec = load_spec(share.file)
            if any(task.name == spec.campaign for task in tasks):
                raise UsageError(f"{share.file}: the campaign {spec.campaign} is named twice")
            source = share.file.read_text(encoding="utf-8")
            built = create_or_open(ledger, spec, source, user()).built
            proposer = model_spec(built)
            driver = stack.enter_context(Driver(built, settings.workers, source=seed_source))
            team = WorkerTeam(driver.worker, built, cores=settings.workers or built.spec.workers)
            tasks.append(LiveTask(driver, stack.enter_context(team), proposer, share.weight))
        for task in tasks:
            task.driver.settle(settings.patience)  # verifies the seeds
            check_seeds(task.built)
        yield tasks
        for task in tasks:
            task.driver.run()


def tasks_of_places(tasks: Sequence[T], seed: int, step: int, places: range) -> list[T]:
    """Returns the task of each group of a step. places: numbers of the groups in the step.

    The draw is systematic: each task gets its share of the places, rounded up or down by chance. It depends on seed,
    step and places alone.
    """
    draw = random.Random(f"tasks {seed} {step} {places.start}")
    order = list(tasks)
    draw.shuffle(order)
    total = sum(task.weight for task in order)
    begin = draw.random()
    chosen_tasks = list[T]()
    summed_weight = order[0].weight  # of the tasks up to the current one
    current = 0
    for place in range(len(places)):
        point = (place + begin) / len(places) * total
        while point >= summed_weight and current < len(order) - 1:
            current += 1
            summed_weight += order[current].weight
        chosen_tasks.append(order[current])
    return chosen_tasks
