"""The guards of a version of rewards: statistics of each policy from the ledger up to the version's watermark.

Episodes are read some groups at a time; only numbers are kept of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, open_for_people
from sciagent.campaign.rewarding.checked_episodes import CheckedCandidate, EpisodeReader
from sciagent.chemistry.fingerprint import Features
from sciagent.domain.answers.guards import RewardGuards, ShownGuards
from sciagent.rewards.guards.diversity import nearest_distances
from sciagent.rewards.policy_guards import PolicyTally, answered, payoff_of
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import episodes, policies, rewards
from sciagent.store.learning.episodes import EpisodeRow
from sciagent.store.learning.policies import NamedPolicy
from sciagent.store.learning.rewards import RewardRow

AT_ONCE = 256  # episodes that are read together
SAMPLE = 100  # new proposals among which distinct scaffolds are counted; fewer if a policy has fewer
FEWEST = 10  # new proposals of a policy below which its scaffolds are not counted


def guards(
    built: Built, connection: Connection, rows: Sequence[RewardRow], spec: RewardSpec, as_of: int
) -> RewardGuards:
    """Returns the guards of all policies.

    rows: the rewards of a version. spec, as_of: its description and its watermark.
    """
    reading = _Reading(built, connection, rows, spec, as_of)
    found = episodes.episodes(connection, built.row.id, as_of, reading.rewards)
    for groups in _batches(found):
        reading.add(groups)
    in_order = sorted(reading.tallies.values(), key=lambda tally: tally.first)
    sizes = [tally.new for tally in in_order if tally.new >= FEWEST]
    label = None if built.control is None else built.control.spec.rung
    return answered(in_order, label, min([SAMPLE, *sizes]))


def show_guards(ledger: Ledger, version: int) -> ShownGuards:
    """Returns the guards as of a version. Those of a version that was published without guards are computed now.

    Raises UnknownNameError.
    """
    with ledger.read() as connection:
        row = rewards.get(connection, version)
        name = rewards.campaign_of(connection, version)
    found = row.guards
    if found is None:
        built = open_for_people(ledger, name)
        with ledger.read() as connection:
            rows, spec = rewards.of_version(connection, version), RewardSpec.model_validate(row.spec)
            found = guards(built, connection, rows, spec, row.watermark).model_dump()
    about = {"version": version, "campaign": name, "watermark": row.watermark}
    return ShownGuards.model_validate(about | found)


def _batches(rows: Sequence[EpisodeRow]) -> Iterator[list[list[EpisodeRow]]]:
    """Yields lists of groups with about `AT_ONCE` episodes; an episode without a group is a group of its own."""
    batch, n = list[list[EpisodeRow]](), 0
    for _, members in groupby(rows, key=lambda row: (row.group_id, row.group_id is None and row.id)):
        batch.append(list(members))
        n += len(batch[-1])
        if n >= AT_ONCE:
            yield batch
            batch, n = [], 0
    if batch:
        yield batch


class _Reading:
    """The rewards of a version, and the tallies of the policies that earned them."""

    def __init__(
        self, built: Built, connection: Connection, rows: Sequence[RewardRow], spec: RewardSpec, as_of: int
    ) -> None:
        self._built, self._connection = built, connection
        self._reader = EpisodeReader(built, connection, rows, spec, as_of)
        self.tallies: dict[NamedPolicy, PolicyTally] = {}

    @property
    def rewards(self) -> Mapping[int, Sequence[RewardRow]]:
        """The rewards by id of the episode."""
        return self._reader.rewards

    def add(self, groups: Sequence[Sequence[EpisodeRow]]) -> None:
        """Adds the episodes of some groups to the tallies of their policies."""
        ids, subject = [row.id for group in groups for row in group], self._built.subject
        checked, named = self._reader.read(ids), policies.of_episodes(self._connection, ids)
        for group in groups:
            found: dict[NamedPolicy, list[Features]] = {}
            for row in group:
                policy = named.get(row.id, NamedPolicy("unknown", None))
                tally = self.tallies.setdefault(policy, PolicyTally(policy, row.number))
                tally.add_episode(row.number, self.rewards[row.id], checked[row.id].turns)
                for each in checked[row.id].candidates:
                    features = subject.features(subject.notation(each.candidate))
                    _add(tally, row.number, each, features.family)
                    found.setdefault(policy, []).append(features)
            for policy, of_group in found.items():
                self.tallies[policy].add_group(group[0].number, nearest_distances(subject, of_group))


def _add(tally: PolicyTally, number: int, checked: CheckedCandidate, family: str) -> None:
    """Adds a new candidate of an episode. number: of the episode. family: of the candidate."""
    tally.add_candidate(family)
    if checked.state is None:
        return
    if checked.lot is not None:
        tally.add_lot(number, checked.lot, checked.state, checked.expected)
    if checked.score is not None and (payoff := payoff_of(checked.state)) is not None:
        tally.add_control(number, payoff, checked.score)
