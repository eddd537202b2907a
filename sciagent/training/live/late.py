"""Late verdicts: groups whose rewards changed after they were trained on are trained on the difference, or refused.

It trains on the new advantage minus the old one, with the recorded log-probabilities and with the weight that it would
have had in the group's own step. The policy gradient is linear in the advantages as long as no ratio is clipped. So at
the same weights the gradient of the first training plus the gradient of the difference is the gradient of the final
reward. The entropy bonus and the divergence from the reference counted in the first training, and do not count again.

`Gatherer` collects what a step is trained on: groups whose siblings earned differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.engine import Connection

from sciagent.agent.policies.batches import BatchPolicy
from sciagent.campaign.core.build import Built
from sciagent.campaign.core.opening import open_for_people
from sciagent.rewards.publishing import publish_groups
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import groups, rewards, training
from sciagent.store.results.evidence import read_watermark
from sciagent.training.learner.kinds import SAME
from sciagent.training.learner.rows import TrainingRow
from sciagent.training.live import waves
from sciagent.training.live.tasks import chosen
from sciagent.training.live.waves import RewardedGroup, Waves
from sciagent.training.settings import LiveSettings


@dataclass
class TrainedGroup:
    """A group that was trained on."""

    step: int
    group: RewardedGroup
    """With the rewards that the policy has been trained with."""
    total: int
    """Number of tokens that its step has trained."""


class LateVerdicts:
    """Follows the groups of a run whose rewards may change: those of campaigns with rungs that run as jobs."""

    def __init__(self, ledger: Ledger, campaigns: Sequence[str], spec: RewardSpec, context: int, lag: int) -> None:
        """lag: most versions by which the policy that is trained is ahead of the one that sampled; -1: none is trained
        on a difference."""
        self._ledger = ledger
        self._spec = spec
        self._context = context
        self._lag = lag
        opened = {name: open_for_people(ledger, name) for name in campaigns}
        self._campaigns = {name: built for name, built in opened.items() if built.bought}  # its rungs run as jobs
        self._known: dict[int, TrainedGroup] = {}
        with ledger.read() as connection:
            now = read_watermark(connection)
        self._last_look = dict.fromkeys(self._campaigns, now)
        self._look_before = dict(self._last_look)
        self._not_trained_yet: dict[str, set[int]] = {name: set() for name in self._campaigns}
        """Groups with new evidence that were sampled but not trained at the last look; the next look repeats them."""
        self.refused: set[tuple[str, int]] = set()
        """Campaign and id of the groups whose rewards changed too late."""

    def trained(self, step: int, groups: Sequence[RewardedGroup]) -> None:
        """Notes the groups of a step, including those that taught nothing."""
        n_trained_tokens = sum(row.trained for group in groups for row in group.rows)
        for group in groups:
            if group.campaign in self._campaigns:
                self._known[group.id] = TrainedGroup(step, group, n_trained_tokens)

    def restore(self, run: str, done: int, seen: Mapping[str, int], refused: Sequence[tuple[str, int]]) -> None:
        """Goes on after a restart. run: its id. done: the last step. seen, refused: as they were after it."""
        self._last_look |= {name: mark for name, mark in seen.items() if name in self._campaigns}
        self._look_before = dict(self._last_look)
        self.refused |= {(name, id_) for name, id_ in refused}
        steps: dict[int, list[RewardedGroup]] = {}
        for built in self._campaigns.values():
            with self._ledger.read() as connection:
                rows = groups.of_campaign(connection, built.row.id)
                mine = {row.id: int(row.task["step"]) for row in rows if row.task.get("run") == run}
                # in the order of their uses, so that the last one of a group remains
                last = {group: version for group, _, version in training.of_groups(connection, list(mine))}
                for id_, number in mine.items():
                    if number <= done:
                        steps.setdefault(number, []).append(self._as_trained(connection, built, id_, last.get(id_)))
        for number, of_step in sorted(steps.items()):
            self.trained(number, of_step)

    def _as_trained(self, connection: Connection, built: Built, group_id: int, version: int | None) -> RewardedGroup:
        """Returns a group with the rewards with which it was used last. version: None for one that was not."""
        if version is None:
            return RewardedGroup(group_id, version=0, campaign=built.row.name)  # never used
        used = rewards.get(connection, version)
        return waves.read(connection, built, used, [group_id], self._context)[0]

    @property
    def look_before(self) -> Mapping[str, int]:
        """The watermark from which a restart looks at the evidence of each campaign.

        It is that of the look before the last: a restart repeats the last look, since groups may have been under way.
        Groups that were trained meanwhile show no difference.
        """
        return self._look_before

    def changed(self, step: int) -> list[TrainedGroup]:
        """Returns the groups whose rewards have changed since the last look, with rows of the difference.

        step: the next one. Groups beyond the lag are refused, and noted in `refused`.
        """
        found = []
        for name, built in self._campaigns.items():
            for trained in self._with_new_evidence(name, step):
                version = publish_groups(built, self._spec, [trained.group.id])
                with self._ledger.read() as connection:
                    [now] = waves.read(connection, built, version, [trained.group.id], self._context)
                if rows := differences(trained.group.rows, now.rows, trained.total):
                    turns = sorted({*trained.group.turns, *now.turns})
                    found.append(TrainedGroup(trained.step, replace(now, rows=rows, turns=turns), trained.total))
                    trained.group = now
        return found

    def _with_new_evidence(self, name: str, step: int) -> list[TrainedGroup]:
        """Returns the groups with new evidence that are within the lag; notes the others as refused."""
        with self._ledger.read() as connection:
            now = read_watermark(connection)
            ids = {
                *training.groups_with_news(connection, self._campaigns[name].row.id, self._last_look[name]),
                *self._not_trained_yet[name],
            }
        self._look_before[name] = self._last_look[name]
        self._last_look[name] = now
        newest = max(self._known, default=0)  # groups are numbered as they are sampled; later ones were not trained yet
        self._not_trained_yet[name] = {id_ for id_ in ids if id_ > newest}
        mine = [self._known[id_] for id_ in sorted(ids) if id_ in self._known]
        self._forget_rows_beyond_lag(step)
        self.refused |= {(name, each.group.id) for each in mine if step - each.step > self._lag}
        return [each for each in mine if step - each.step <= self._lag]

    def _forget_rows_beyond_lag(self, step: int) -> None:
        """Drops the rows of groups that cannot be trained again."""
        for each in self._known.values():
            if step - each.step > self._lag:
                each.group = replace(each.group, rows=[])

    def close(self, steps: int) -> None:
        """Refuses all groups whose rewards have changed after the last step. steps: their number."""
        beyond_every_lag = steps + self._lag + 2
        for name in self._campaigns:
            self._with_new_evidence(name, beyond_every_lag)


def differences(before: Sequence[TrainingRow], now: Sequence[TrainingRow], total: int) -> list[TrainingRow]:
    """Returns rows with the change of the advantages; none if nothing changed.

    before: as they were trained; tokens without an advantage had 0. total: number of tokens that the step has trained.
    The changes are scaled by own tokens / tokens of the step, so that the mean over the rows gives them the weight that
    they had in the mean over the step. They train the policy gradient alone.
    """
    known = {row.ids: row for row in before}
    own = sum(row.trained for row in now)
    share = own / total if total else 1.0
    found = []
    changed = False
    for row in now:
        old = known[row.ids].advantages if row.ids in known else (0.0,) * len(row.ids)
        gaps = tuple(share * (new - was) for new, was in zip(row.advantages, old, strict=True))
        changed |= any(abs(gap) > SAME for gap in gaps)
        found.append(replace(row, advantages=gaps, regularised=False))
    return found if changed else []


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

    def __init__(self, settings: LiveSettings, waves: Waves) -> None:
        """waves: rolls out the groups."""
        self._settings = settings
        self._waves = waves

    def gather(self, number: int, policy: BatchPolicy) -> GatheredStep:
        """Rolls out the groups of a step. Those whose siblings earned the same are replaced by further ones.

        Raises Stopped if no further turn may begin.
        """
        step = GatheredStep(number)
        groups = self._settings.groups
        most_groups = self._settings.most_groups
        index = 0
        while len(step.trained) < groups and index < most_groups:
            n = min(groups - len(step.trained), most_groups - index)
            wave = self._waves.wave(number, policy, self._places_by_task(number, range(index, index + n)))
            for group in wave.groups:
                (step.trained if group.has_something_to_learn else step.dropped).append(group)
            step.sample_seconds += wave.sample_seconds
            step.verify_seconds += wave.verify_seconds
            step.wait_seconds += wave.wait_seconds
            index += n
        return step

    def _places_by_task(self, number: int, places: range) -> Mapping[str, Sequence[int]]:
        """Returns the places of groups by task."""
        places_by_task: dict[str, list[int]] = {}
        for place, task in zip(places, chosen(self._waves.tasks, self._settings.seed, number, places), strict=True):
            places_by_task.setdefault(task.name, []).append(place)
        return places_by_task
