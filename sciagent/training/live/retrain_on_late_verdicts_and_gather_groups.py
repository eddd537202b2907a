"""Late verdicts: groups whose rewards changed after they were trained on are trained on the difference, or refused.

`LateVerdicts` finds such groups. A group is trained again on its new advantages minus its old ones, with the recorded
log-probabilities and with the weight that the difference would have had in the group's own step. The policy gradient is
linear in the advantages as long as no ratio of probabilities is clipped. So at the same weights the gradient of the
first training plus the gradient of the difference is the gradient of the final reward. The entropy bonus and the
divergence from the reference counted in the first training, and do not count again.

`Gatherer` collects the groups that a step is trained on: groups whose siblings earned differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.engine import Connection

from sciagent.agent.policies.batched_policies import BatchPolicy
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.rewards.publish_versions import publish_groups
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import evaluations_and_turn_uses, versioned_rewards
from sciagent.store.learning import rollout_groups as groups
from sciagent.store.results.evidence import read_watermark
from sciagent.training.learner.learner_rows_and_rendered_conversations import TrainingRow
from sciagent.training.learner.row_selection import NEGLIGIBLE
from sciagent.training.live import group_waves as waves
from sciagent.training.live.driven_task_campaigns import tasks_of_places
from sciagent.training.live.group_waves import RewardedGroup, Waves
from sciagent.training.settings import LiveSettings


@dataclass
class TrainedGroup:
    """A group that was trained on."""

    step: int
    group: RewardedGroup
    """The group with the rewards that it was trained with last."""
    n_step_tokens: int
    """Number of trained tokens of the group's step."""


class LateVerdicts:
    """Follows the groups of a run whose rewards may change: all groups of campaigns with rungs that run as jobs."""

    def __init__(self, ledger: Ledger, campaigns: Sequence[str], spec: RewardSpec, context: int, lag: int) -> None:
        """context: most tokens of a row. lag: largest number of steps by which the trained policy may be ahead of the
        policy that sampled a group; -1: no group is trained on a difference."""
        self._ledger = ledger
        self._spec = spec
        self._context = context
        self._lag = lag
        self._campaigns: dict[str, Built] = {}  # campaigns with rungs that run as jobs, by name
        for name in campaigns:
            built = open_campaign_for_people(ledger, name)
            if built.bought:
                self._campaigns[name] = built
        self._known: dict[int, TrainedGroup] = {}
        """The groups of the steps so far, by id."""
        with ledger.read() as connection:
            now = read_watermark(connection)
        self._last_look = dict.fromkeys(self._campaigns, now)
        """Watermark, by campaign, up to which evidence has been looked at."""
        self._look_before = dict(self._last_look)
        """The same watermark before the last look."""
        self._not_trained_yet: dict[str, set[int]] = {name: set() for name in self._campaigns}
        """Groups with new evidence that were sampled but not trained at the last look; the next look has them again."""
        self.refused: set[tuple[str, int]] = set()
        """Campaign and id of the groups whose rewards changed too late."""

    def trained(self, step: int, groups: Sequence[RewardedGroup]) -> None:
        """Notes the groups of a step, including those that taught nothing."""
        n_trained_tokens = sum(row.trained for group in groups for row in group.rows)
        for group in groups:
            if group.campaign in self._campaigns:
                self._known[group.id] = TrainedGroup(step, group, n_trained_tokens)

    def restore(self, run: str, done: int, seen: Mapping[str, int], refused: Sequence[tuple[str, int]]) -> None:
        """Goes on after a restart. run: its id. done: the last step. seen, refused: `look_before` and `refused` after
        that step."""
        for name, watermark in seen.items():
            if name in self._campaigns:
                self._last_look[name] = watermark
        self._look_before = dict(self._last_look)
        self.refused |= {(name, id_) for name, id_ in refused}
        groups_by_step: dict[int, list[RewardedGroup]] = {}
        for built in self._campaigns.values():
            with self._ledger.read() as connection:
                rows = groups.of_campaign(connection, built.row.id)
                step_of = {row.id: int(row.task["step"]) for row in rows if row.task.get("run") == run}
                last_version: dict[int, int] = {}
                uses = evaluations_and_turn_uses.of_groups(connection, list(step_of))
                for group_id, _, version in uses:  # in their order, so that the last use stays
                    last_version[group_id] = version
                for group_id, number in step_of.items():
                    if number <= done:
                        group = self._as_trained(connection, built, group_id, last_version.get(group_id))
                        groups_by_step.setdefault(number, []).append(group)
        for number, groups_of_step in sorted(groups_by_step.items()):
            self.trained(number, groups_of_step)

    def _as_trained(self, connection: Connection, built: Built, group_id: int, version: int | None) -> RewardedGroup:
        """Returns a group with the rewards with which it was trained last. version: of these rewards; None for a group
        that was not trained."""
        if version is None:
            return RewardedGroup(group_id, version=0, campaign=built.row.name)
        used_rewards = versioned_rewards.get(connection, version)
        [group] = waves.read_rewarded_groups(connection, built, used_rewards, [group_id], self._context)
        return group

    @property
    def look_before(self) -> Mapping[str, int]:
        """The watermark from which a restart looks at the evidence of each campaign.

        It is the watermark of the look before the last one. So a restart repeats the last look, since groups may have
        been under way then. Groups that have been trained since show no difference.
        """
        return self._look_before

    def changed(self, step: int) -> list[TrainedGroup]:
        """Returns the groups whose rewards have changed since the last look. The advantages of their rows are the
        changes.

        step: number of the next step. Groups beyond the lag are refused, and noted in `refused`.
        """
        changed_groups = []
        for name, built in self._campaigns.items():
            for trained in self._with_new_evidence(name, step):
                version = publish_groups(built, self._spec, [trained.group.id])
                with self._ledger.read() as connection:
                    [group_now] = waves.read_rewarded_groups(
                        connection, built, version, [trained.group.id], self._context
                    )
                rows = differences(trained.group.rows, group_now.rows, trained.n_step_tokens)
                if rows:
                    turns = sorted({*trained.group.turns, *group_now.turns})
                    changed_group = replace(group_now, rows=rows, turns=turns)
                    changed_groups.append(TrainedGroup(trained.step, changed_group, trained.n_step_tokens))
                    trained.group = group_now  # a later change is the difference from these rewards
        return changed_groups

    def _with_new_evidence(self, name: str, step: int) -> list[TrainedGroup]:
        """Returns the groups with new evidence that are within the lag; notes the others as refused."""
        with self._ledger.read() as connection:
            now = read_watermark(connection)
            campaign_id = self._campaigns[name].row.id
            news = evaluations_and_turn_uses.groups_with_news(connection, campaign_id, after=self._last_look[name])
        ids = {*news, *self._not_trained_yet[name]}
        self._look_before[name] = self._last_look[name]
        self._last_look[name] = now
        # ids grow in the order of sampling, so groups with higher ids than all known ones are not trained yet
        newest = max(self._known, default=0)
        self._not_trained_yet[name] = {id_ for id_ in ids if id_ > newest}
        self._forget_rows_beyond_lag(step)
        within_lag = []
        for id_ in sorted(ids):
            known = self._known.get(id_)
            if known is None:
                continue
            if step - known.step <= self._lag:
                within_lag.append(known)
            else:
                self.refused.add((name, known.group.id))
        return within_lag

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


def differences(before: Sequence[TrainingRow], now: Sequence[TrainingRow], n_step_tokens: int) -> list[TrainingRow]:
    """Returns rows with the change of the advantages; no rows if nothing changed.

    before: the rows as they were trained; a row that was not trained had advantages of 0. n_step_tokens: number of
    trained tokens of the group's step. The changes are scaled by the group's share of these tokens, so that the mean
    over the rows gives them the weight that they had in the mean over the step. The rows train the policy gradient
    alone.
    """
    rows_before = {row.ids: row for row in before}
    n_own_tokens = sum(row.trained for row in now)
    share = n_own_tokens / n_step_tokens if n_step_tokens else 1.0
    rows = []
    has_changed = False
    for row in now:
        old_advantages = (0.0,) * len(row.ids)
        if row.ids in rows_before:
            old_advantages = rows_before[row.ids].advantages
        changes = tuple(share * (new - old) for new, old in zip(row.advantages, old_advantages, strict=True))
        if any(abs(change) > NEGLIGIBLE for change in changes):
            has_changed = True
        rows.append(replace(row, advantages=changes, regularised=False))
    return rows if has_changed else []


@dataclass
class GatheredStep:
    """The groups of a step, and the seconds of their waves, as `Wave` has them."""

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
        n_wanted = self._settings.groups
        most_groups = self._settings.most_groups
        next_place = 0
        while len(step.trained) < n_wanted and next_place < most_groups:
            n = min(n_wanted - len(step.trained), most_groups - next_place)
            places = range(next_place, next_place + n)
            wave = self._waves.wave(number, policy, self._places_by_task(number, places))
            for group in wave.groups:
                if group.has_something_to_learn:
                    step.trained.append(group)
                else:
                    step.dropped.append(group)
            step.sample_seconds += wave.sample_seconds
            step.verify_seconds += wave.verify_seconds
            step.wait_seconds += wave.wait_seconds
            next_place += n
        return step

    def _places_by_task(self, number: int, places: range) -> Mapping[str, Sequence[int]]:
        """Returns the places of groups by task."""
        places_by_task: dict[str, list[int]] = {}
        tasks = tasks_of_places(self._waves.tasks, self._settings.seed, number, places)
        for place, task in zip(places, tasks, strict=True):
            places_by_task.setdefault(task.name, []).append(place)
        return places_by_task
