"""Gathers what a step is trained on: groups whose siblings earned differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sciagent.agent.policies.batches import BatchPolicy
from sciagent.training.live.group_rows import RewardedGroup
from sciagent.training.live.settings import LiveWish
from sciagent.training.live.tasks import chosen
from sciagent.training.live.waves import Waves


@dataclass
class GatheredStep:
    """The groups of a step."""

    number: int
    trained: list[RewardedGroup] = field(default_factory=list)
    dropped: list[RewardedGroup] = field(default_factory=list)
    """Groups whose siblings all earned the same, or that are undecided or broken."""
    sample_seconds: float = 0.0
    verify_seconds: float = 0.0
    wait_seconds: float = 0.0


class Gatherer:
    """Gathers the steps of one run."""

    def __init__(self, wish: LiveWish, waves: Waves) -> None:
        """waves: rolls out the groups."""
        self._wish, self._waves = wish, waves

    def gather(self, number: int, policy: BatchPolicy) -> GatheredStep:
        """Rolls out the groups of a step. Those whose siblings earned the same are replaced by further ones.

        Raises Stopped if no further turn may begin.
        """
        step, wish, place = GatheredStep(number), self._wish, 0
        while len(step.trained) < wish.groups and place < wish.most_groups:
            n = min(wish.groups - len(step.trained), wish.most_groups - place)
            wave = self._waves.wave(number, policy, self._shared(number, range(place, place + n)))
            for group in wave.groups:
                (step.trained if group.has_something_to_learn else step.dropped).append(group)
            step.sample_seconds += wave.sample_seconds
            step.verify_seconds += wave.verify_seconds
            step.wait_seconds += wave.wait_seconds
            place += n
        return step

    def _shared(self, number: int, places: range) -> Mapping[str, Sequence[int]]:
        """Returns the places of groups by task."""
        of_task: dict[str, list[int]] = {}
        for place, task in zip(places, chosen(self._waves.tasks, self._wish.seed, number, places), strict=True):
            of_task.setdefault(task.name, []).append(place)
        return of_task
