"""Computes the rewards of a campaign's episodes at a watermark, as rows of a version."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.rewarding.expectations import RewardLaw
from sciagent.campaign.rewarding.states import rungs_as_of
from sciagent.campaign.rewarding.terms import Snapshots, terms_of
from sciagent.campaign.rewarding.valuations import CandidateWorth, valuations
from sciagent.chemistry.families import family
from sciagent.domain.cost import Cost
from sciagent.errors import UsageError
from sciagent.rewards.credit import gigpo, marginal, outcome, rtg
from sciagent.rewards.credit.marginal import Find
from sciagent.rewards.credit.returns import Group, returns
from sciagent.rewards.process import ProposedCandidate, TurnFacts, TurnReward, turn_rewards
from sciagent.rewards.spec import RewardSpec, Term
from sciagent.store.learning import episodes, evidence_costs
from sciagent.store.learning.episodes import EpisodeRow, EpisodeTurn
from sciagent.store.learning.rewards import RewardRow
from sciagent.store.results import candidates

CHUNK = 2000


class _Episode(NamedTuple):
    """An episode with its rewards."""

    row: EpisodeRow
    turns: Sequence[EpisodeTurn]
    facts: Sequence[TurnFacts]
    rewards: Sequence[TurnReward]


def reward_rows(
    built: Built,
    connection: Connection,
    spec: RewardSpec,
    law: RewardLaw | None,
    as_of: int,
    only: Collection[int] | None = None,
) -> list[RewardRow]:
    """Returns the rewards of episodes: of each its outcome first, then its turns. only: ids of trajectories, with all
    siblings of each; None: of all.

    Raises UsageError for a campaign without episodes, or with terms that its candidates cannot have.
    """
    written: list[RewardRow] = []
    found = _episodes(built, connection, spec, law, as_of, only)
    for group_id, members in groupby(found, key=lambda episode: episode.row.group_id):
        group = list(members)
        compared = None if group_id is None else _advantages(spec, group)  # without siblings there is no comparison
        for place, episode in enumerate(group):
            written += _rows(episode, [None] * len(episode.turns) if compared is None else compared[place])
    return written


def _episodes(
    built: Built,
    connection: Connection,
    spec: RewardSpec,
    law: RewardLaw | None,
    as_of: int,
    only: Collection[int] | None,
) -> list[_Episode]:
    """Returns the episodes, those of a group one after the other."""
    rows = episodes.episodes(connection, built.row.id, as_of, only)
    if not rows:
        raise UsageError(f'campaign "{built.row.name}" has no episodes of a model; rewards are given to its turns')
    turns = episodes.turns_of(connection, [row.id for row in rows], as_of)
    new = {p.candidate_id for of in turns.values() for turn in of for p in turn.proposals if p.status == "new"}
    facts = _CandidateFacts(built, connection, sorted(id_ for id_ in new if id_ is not None), spec, law, as_of)
    snapshots = Snapshots(built, connection, spec, sorted({row.group_id for row in rows if row.group_id is not None}))
    found = []
    for row in rows:
        terms = terms_of(turns[row.id], facts.texts, snapshots.of(row.group_id), spec)
        is_rollout = row.group_id is not None
        of_turns = [facts.of_turn(turn, mine, is_rollout) for turn, mine in zip(turns[row.id], terms, strict=True)]
        found.append(_Episode(row, turns[row.id], of_turns, turn_rewards(of_turns, spec)))
    return found


class _CandidateFacts:
    """Worths, costs and scaffolds of all candidates of the episodes, read once."""

    def __init__(
        self,
        built: Built,
        connection: Connection,
        ids: Sequence[int],
        spec: RewardSpec,
        law: RewardLaw | None,
        as_of: int,
    ) -> None:
        paid = [rung.verifier.computation for rung in built.paid]
        self._worth: Mapping[int, CandidateWorth] = valuations(built, connection, ids, as_of, law, spec)
        fits = {
            (name, fit.measured_level) for r in rungs_as_of(built, connection, as_of) for name, fit in r.fits.items()
        }
        self._costs = episodes.costs_of(connection, built.row.id, paid, ids, as_of, fits)
        inline = [rung.verifier.computation for rung in built.fast if rung.spec.inline]
        self._inline = evidence_costs.of_computations(connection, inline, ids, as_of)
        self._named: dict[int, tuple[str, str]] = {}
        self.texts: dict[int, str] = {}
        for start in range(0, len(ids), CHUNK):
            for id_, candidate in candidates.load(connection, ids[start : start + CHUNK]).items():
                is_molecule = candidate.kind == "molecule"  # all molecules without rings share one family
                self._named[id_] = candidate.key, family(candidate.text) if is_molecule else candidate.key
                self.texts[id_] = candidate.text

    def of_turn(self, turn: EpisodeTurn, terms: Mapping[Term, float], is_rollout: bool) -> TurnFacts:
        """Returns the facts of a turn. is_rollout: its cost has that of reused inline evidence already."""
        proposed = [
            ProposedCandidate(
                *self._named[id_], *self._worth[id_], self._costs[id_] + self._lent(id_, turn, is_rollout)
            )
            for id_ in dict.fromkeys(p.candidate_id for p in turn.proposals if p.status == "new")
            if id_ is not None
        ]
        return TurnFacts(proposed, turn.cost, terms)

    def _lent(self, candidate_id: int, turn: EpisodeTurn, is_rollout: bool) -> Cost:
        """Returns the cost of inline evidence that the turn reused. What it computed itself is in its own cost."""
        if is_rollout:
            return Cost()
        return sum((c for by, c in self._inline.get(candidate_id, ()) if by != turn.id), Cost())


def _advantages(spec: RewardSpec, group: Sequence[_Episode]) -> list[list[float | None]]:
    values: Group = [[reward.value for reward in episode.rewards] for episode in group]
    match spec.credit:
        case "outcome":
            return outcome.advantages(values)
        case "rtg":
            return rtg.advantages(values)
        case "gigpo":
            return gigpo.advantages(values, [[turn.state for turn in episode.turns] for episode in group])
        case "marginal":
            finds = [
                [[Find(c.key, c.scaffold, c.worth) for c in facts.candidates] for facts in episode.facts]
                for episode in group
            ]
            costs: Group = [[_net_cost(reward) for reward in episode.rewards] for episode in group]
            return marginal.advantages(finds, costs, spec.weight)


def _net_cost(reward: TurnReward) -> float:
    """Returns what a turn took beside its evidence: its cost, less its named terms."""
    return -sum(amount for name, amount in reward.terms.items() if name != "evidence" and amount is not None)


def _rows(episode: _Episode, advantages: Sequence[float | None]) -> list[RewardRow]:
    """Returns the rows of an episode: its outcome first, then its turns."""
    to_go = returns([reward.value for reward in episode.rewards])
    total = to_go[0] if to_go else 0.0
    rows = [RewardRow(episode.row.id, None, total, total, None, {}, ())]
    for turn, facts, reward, later, advantage in zip(
        episode.turns, episode.facts, episode.rewards, to_go, advantages, strict=True
    ):
        shown = [{"key": c.key, "value": c.worth, "cost": dict(c.cost), "settled": c.settled} for c in facts.candidates]
        rows.append(RewardRow(episode.row.id, turn.id, reward.value, later, advantage, reward.terms, shown))
    return rows
