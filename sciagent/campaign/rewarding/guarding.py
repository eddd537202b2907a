"""The guards of a version of rewards: statistics of each policy from the ledger up to the version's watermark.

Episodes are read some groups at a time; only numbers are kept of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, open_for_people
from sciagent.campaign.rewarding.lots import Lots
from sciagent.campaign.rewarding.policy_tally import PolicyTally, answered
from sciagent.campaign.rewarding.states import states
from sciagent.domain.answers.guards import RewardGuards, ShownGuards
from sciagent.rewards.estimators import CandidateState
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import episodes, policies, rewards
from sciagent.store.learning.episodes import EpisodeRow
from sciagent.store.learning.policies import NamedPolicy
from sciagent.store.learning.rewards import RewardRow
from sciagent.store.results import candidates

AT_ONCE = 256  # episodes that are read together
SAMPLE = 100  # new proposals among which distinct scaffolds are counted; fewer if a policy has fewer
FEWEST = 10  # new proposals of a policy below which its scaffolds are not counted


def guards(built: Built, connection: Connection, rows: Sequence[RewardRow], as_of: int) -> RewardGuards:
    """Returns the guards of all policies. rows: the rewards of a version. as_of: its watermark."""
    by_episode: dict[int, list[RewardRow]] = {}
    for row in rows:
        by_episode.setdefault(row.trajectory_id, []).append(row)
    lots, tallies = Lots(built, connection, as_of), dict[NamedPolicy, PolicyTally]()
    found = [row for row in episodes.episodes(connection, built.row.id, as_of) if row.id in by_episode]
    for some in _batches(found):
        _read(built, connection, some, by_episode, lots, tallies, as_of)
    in_order = sorted(tallies.values(), key=lambda tally: tally.first)
    sizes = [tally.new for tally in in_order if tally.new >= FEWEST]
    return answered(in_order, None, min([SAMPLE, *sizes]))


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
            rows = rewards.of_version(connection, version)
            found = guards(built, connection, rows, row.watermark).model_dump()
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


def _read(
    built: Built,
    connection: Connection,
    groups: Sequence[Sequence[EpisodeRow]],
    by_episode: Mapping[int, Sequence[RewardRow]],
    lots: Lots,
    tallies: dict[NamedPolicy, PolicyTally],
    as_of: int,
) -> None:
    """Adds the episodes of some groups to the tallies of their policies."""
    ids = [row.id for group in groups for row in group]
    turns, named = episodes.turns_of(connection, ids, as_of), policies.of_episodes(connection, ids)
    new = {p.candidate_id for id_ in ids for turn in turns[id_] for p in turn.proposals if p.status == "new"}
    new_ids = sorted(id_ for id_ in new if id_ is not None)
    loaded = candidates.load(connection, new_ids)
    known: Mapping[int, CandidateState] = states(built, connection, new_ids, as_of) if lots.any else {}
    for group in groups:
        molecules: dict[NamedPolicy, list[str]] = {}
        for row in group:
            policy = named.get(row.id, NamedPolicy("unknown", None))
            tally = tallies.setdefault(policy, PolicyTally(policy, row.number))
            worths = tally.add_episode(row.number, by_episode[row.id], turns[row.id])
            for id_ in dict.fromkeys(p.candidate_id for turn in turns[row.id] for p in turn.proposals):
                if id_ is None or (candidate := loaded.get(id_)) is None or candidate.key not in worths:
                    continue
                tally.add_candidate(candidate)
                if candidate.kind == "molecule":
                    molecules.setdefault(policy, []).append(candidate.text)
                if (state := known.get(id_)) is not None and (lot := lots.of(id_, state)) is not None:
                    tally.add_lot(row.number, lot, state, worths[candidate.key])
        for policy, texts in molecules.items():
            tallies[policy].add_group(group[0].number, texts)
