"""Computes the rewards of a campaign's episodes at a watermark (a position in the ledger), as rows of a version.

`valuations` gives the worth of candidates: a function of evidence, of a law and of a description of rewards.
`CandidateFacts` reads worths, costs and families once for all turns. `reward_rows` makes the rows of a version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.cost_and_budget import Cost
from sciagent.errors import UsageError
from sciagent.rewards.candidate_states_lots_and_episode_starts import IDS_PER_READ, Records, rungs_as_of, states
from sciagent.rewards.credit import contribution_to_group
from sciagent.rewards.credit.contribution_to_group import Find
from sciagent.rewards.credit.outcome_return_to_go_gigpo_gae import (
    gigpo_advantages,
    outcome_advantages,
    return_to_go_advantages,
)
from sciagent.rewards.credit.returns_and_baselines import Group, returns
from sciagent.rewards.reward_law import RewardLaw, expectations
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.reward_term_contract import CandidateState, Settlement, TermInputs, TurnOfEpisode, UsedTerm
from sciagent.rewards.turn_rewards import (
    ProposedCandidate,
    TurnFacts,
    TurnReward,
    price_of,
    turn_rewards,
    with_limited_worths,
    worth,
)
from sciagent.store.learning import reward_inputs
from sciagent.store.learning.reward_inputs import EpisodeRow, EpisodeTurn
from sciagent.store.learning.versioned_rewards import RewardRow
from sciagent.store.results import candidates


class CandidateWorth(NamedTuple):
    """The worth of a candidate."""

    value: float | None
    """Worth in hits or utility; None if undecided."""
    settled: bool
    """Whether the ladder has decided about the candidate."""


def valuations(
    built: Built,
    connection: Connection,
    known: Mapping[int, CandidateState],
    as_of: int,
    law: RewardLaw | None,
    spec: RewardSpec,
    record: float | None = None,
) -> dict[int, CandidateWorth]:
    """Returns the worth of candidates at a watermark, by candidate id.

    known: their states at the watermark, by candidate id. law: values candidates that the terminal rung has not
    answered; None leaves them undecided. record: utility above which a candidate is worth something; None: all of its
    payoff counts.
    """
    state_of_id = dict(known)
    if record is not None:
        for id_, state in known.items():
            if state.payoff is not None:
                state_of_id[id_] = state._replace(payoff=max(0.0, state.payoff - record))
    if law is not None and spec.unsettled != "settled":
        expected = _expected_payoffs(built, connection, state_of_id, as_of, law, spec, record)
        for id_, payoff in expected.items():
            state_of_id[id_] = state_of_id[id_]._replace(expected=payoff)
    worths = {}
    for id_, state in state_of_id.items():
        is_settled = state.settlement in (Settlement.ANSWERED, Settlement.REFUSED)
        worths[id_] = CandidateWorth(worth(state, spec.unsettled), is_settled)
    return worths


def _expected_payoffs(
    built: Built,
    connection: Connection,
    known: Mapping[int, CandidateState],
    as_of: int,
    law: RewardLaw,
    spec: RewardSpec,
    record: float | None,
) -> dict[int, float]:
    """Returns the payoffs that the law expects of the candidates for which the description asks it, by candidate id.

    The parameters are those of `valuations`.
    """
    ids = []
    for id_, state in known.items():
        # the robust estimate of a candidate with an answer needs what the law had expected, too
        has_lot = spec.unsettled == "robust" and state.chance
        if state.settlement is Settlement.OPEN or has_lot:
            ids.append(id_)
    if not ids:
        return {}
    expected = expectations(built, connection, law, ids, as_of, record=record or 0.0)
    if spec.unsettled == "posterior":
        return _less_terminal_price(built, connection, expected, spec)
    return expected


def _less_terminal_price(
    built: Built, connection: Connection, expected: Mapping[int, float], spec: RewardSpec
) -> dict[int, float]:
    """Returns expected payoffs less the price of the terminal rung, which would still have to run, but at least 0.

    Otherwise a candidate would earn more by never being verified than by being verified with the expected result.
    """
    terminal = built.rungs[built.terminal]
    ids = list(expected)
    payoffs: dict[int, float] = {}
    for start in range(0, len(ids), IDS_PER_READ):
        ids_of_read = ids[start : start + IDS_PER_READ]
        for id_, candidate in candidates.load(connection, ids_of_read).items():
            price = price_of(terminal.declared_cost(candidate) or {}, spec.prices)
            payoffs[id_] = max(0.0, expected[id_] - price)
    return payoffs


class CandidateFacts:
    """States, worths, costs and families of all candidates of the episodes."""

    def __init__(
        self,
        built: Built,
        connection: Connection,
        episodes_with_turns: Sequence[tuple[EpisodeRow, Sequence[EpisodeTurn]]],
        spec: RewardSpec,
        law: RewardLaw | None,
        as_of: int,
    ) -> None:
        self._records: Records | None = None
        if built.spec.goal.kind == "best":
            self._records = Records(built, connection, episodes_with_turns, as_of)
        # the worth of a candidate depends on the record that its episode had to beat
        ids_by_record: dict[float | None, set[int]] = {}
        for row, turns in episodes_with_turns:
            ids_of_record = ids_by_record.setdefault(self._record(row), set())
            for turn in turns:
                ids_of_record.update(turn.new_candidates)
        ids = sorted(set(chain.from_iterable(ids_by_record.values())))
        self.states = states(built, connection, ids, as_of)
        self._worth: dict[float | None, Mapping[int, CandidateWorth]] = {}
        for record, ids_of_record in ids_by_record.items():
            known = {id_: self.states[id_] for id_ in sorted(ids_of_record)}
            self._worth[record] = valuations(built, connection, known, as_of, law, spec, record)
        paid = [rung.verifier.computation for rung in built.paid]
        # imported values to which a rung was calibrated: (property, level)
        calibrating = set[tuple[str, str]]()
        for rung in rungs_as_of(built, connection, as_of):
            calibrating.update((name, fit.measured_level) for name, fit in rung.fits.items())
        self._costs = reward_inputs.costs_of(connection, built.row.id, paid, ids, as_of, imported=calibrating)
        inline = [rung.verifier.computation for rung in built.fast if rung.spec.inline]
        self._inline_costs = reward_inputs.of_computations(connection, inline, ids, as_of)
        self._key_and_families: dict[int, tuple[str, tuple[str, ...]]] = {}
        self.notations: dict[int, str] = {}
        """Notations of the candidates, by id."""
        for start in range(0, len(ids), IDS_PER_READ):
            ids_of_read = ids[start : start + IDS_PER_READ]
            for id_, candidate in candidates.load(connection, ids_of_read).items():
                notation = built.subject.notation(candidate)
                self.notations[id_] = notation
                self._key_and_families[id_] = candidate.key, built.subject.families(notation, spec.decay_by)

    def _record(self, row: EpisodeRow) -> float | None:
        """Returns the record that the episode had to beat; None unless the goal is the best candidates."""
        return None if self._records is None else self._records.of(row)

    def of_turn(self, row: EpisodeRow, turn: EpisodeTurn, terms: Mapping[str, float | None]) -> TurnFacts:
        """Returns the facts of a turn. row: its episode. terms: named terms before their weights."""
        worth_of_id = self._worth[self._record(row)]
        proposed = []
        for id_ in turn.new_candidates:
            cost = self._costs[id_] + self._reused_cost(id_, row, turn)
            key, families = self._key_and_families[id_]
            known = worth_of_id[id_]
            proposed.append(ProposedCandidate(key, families, known.value, known.settled, cost))
        return TurnFacts(proposed, turn.cost, terms, was_filtered=turn.was_filtered)

    def _reused_cost(self, candidate_id: int, row: EpisodeRow, turn: EpisodeTurn) -> Cost:
        """Returns the cost of inline evidence that the turn reused.

        The turn's own cost includes the evidence that the turn computed. In a group of rollouts it includes the reused
        evidence, too, so that nothing is added.
        """
        if row.group_id is not None:
            return Cost()
        total = Cost()
        for turn_id, cost in self._inline_costs.get(candidate_id, ()):
            if turn_id != turn.id:
                total += cost
        return total


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
    """Returns the rewards of episodes: for each its outcome first, then its turns.

    only: ids of trajectories, with all siblings of each; None: all trajectories.

    Raises UsageError for a campaign without episodes, or with terms that its candidates cannot have.
    """
    written: list[RewardRow] = []
    rewarded = _episodes(built, connection, spec, law, as_of, only)
    for group_id, members in groupby(rewarded, key=lambda episode: episode.row.group_id):
        group = list(members)
        if group_id is not None:
            advantages = _advantages(spec, group)
        else:  # without siblings there is no comparison
            advantages = [[None] * len(episode.turns) for episode in group]
        for episode, advantages_of_turns in zip(group, advantages, strict=True):
            written += _rows(episode, advantages_of_turns)
    return written


def _episodes(
    built: Built,
    connection: Connection,
    spec: RewardSpec,
    law: RewardLaw | None,
    as_of: int,
    only: Collection[int] | None,
) -> list[_Episode]:
    """Returns the episodes with their rewards; the episodes of a group stand one after the other."""
    rows = reward_inputs.episodes(connection, built.row.id, as_of, only)
    if not rows:
        raise UsageError(f'campaign "{built.row.name}" has no episodes of a model; rewards are given to its turns')
    turns = reward_inputs.turns_of(connection, [row.id for row in rows], as_of)
    episodes_with_turns = [(row, turns[row.id]) for row in rows]
    facts = CandidateFacts(built, connection, episodes_with_turns, spec, law, as_of)
    inputs = TermInputs(
        built=built,
        as_of=as_of,
        unsettled=spec.unsettled,
        episodes=episodes_with_turns,
        states=facts.states,
        notations=facts.notations,
    )
    terms = [UsedTerm(name, spec.settings_of(name)) for name, weight in spec.terms.items() if weight]
    for term in terms:
        term.prepare(connection, inputs)
    rewarded = []
    for row, episode_turns in episodes_with_turns:
        turn_facts = []
        for position, turn in enumerate(episode_turns):
            turn_of_episode = TurnOfEpisode(row, episode_turns, position)
            values = {term.name: term.of(turn_of_episode) for term in terms}
            turn_facts.append(facts.of_turn(row, turn, values))
        rewarded.append(_Episode(row, episode_turns, turn_facts, turn_rewards(turn_facts, spec)))
    return rewarded


def _advantages(spec: RewardSpec, group: Sequence[_Episode]) -> list[list[float | None]]:
    """Returns the advantages of the turns of each episode of a group, (siblings, turns)."""
    values: Group = [[reward.value for reward in episode.rewards] for episode in group]
    match spec.credit:
        case "outcome":
            return outcome_advantages(values)
        case "rtg":
            return return_to_go_advantages(values)
        case "gigpo":
            return gigpo_advantages(values, [[turn.state for turn in episode.turns] for episode in group])
        case "marginal":
            finds = [_finds(episode, spec) for episode in group]
            costs: Group = [[_net_cost(reward) for reward in episode.rewards] for episode in group]
            return contribution_to_group.advantages(finds, costs, spec.weight)


def _finds(episode: _Episode, spec: RewardSpec) -> list[list[Find]]:
    """Returns the candidates that each turn of an episode found."""
    finds = []
    for facts in with_limited_worths(episode.facts, spec):
        finds.append([Find(candidate.key, candidate.families, candidate.worth) for candidate in facts.candidates])
    return finds


def _net_cost(reward: TurnReward) -> float:
    """Returns what a turn took beside its evidence: its cost, less its named terms."""
    return -sum(amount for name, amount in reward.terms.items() if name != "evidence" and amount is not None)


def _rows(episode: _Episode, advantages: Sequence[float | None]) -> list[RewardRow]:
    """Returns the rows of an episode: its outcome first, then its turns."""
    to_go = returns([reward.value for reward in episode.rewards])
    total = to_go[0] if to_go else 0.0
    outcome_row = RewardRow(
        episode.row.id, turn_id=None, value=total, to_go=total, advantage=None, terms={}, candidates=()
    )
    rows = [outcome_row]
    for turn, facts, reward, return_from_turn, advantage in zip(
        episode.turns, episode.facts, episode.rewards, to_go, advantages, strict=True
    ):
        stored = []
        for candidate in facts.candidates:
            cost = dict(candidate.cost)
            stored.append({"key": candidate.key, "value": candidate.worth, "cost": cost, "settled": candidate.settled})
        row = RewardRow(
            episode.row.id,
            turn_id=turn.id,
            value=reward.value,
            to_go=return_from_turn,
            advantage=advantage,
            terms=reward.terms,
            candidates=stored,
        )
        rows.append(row)
    return rows
