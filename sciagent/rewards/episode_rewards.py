"""Computes the rewards of a campaign's episodes at a watermark (a position in the ledger), as rows of a version.

`valuations` gives the worth of candidates: a function of evidence, of a law and of a description of rewards.
`CandidateFacts` reads worths, costs and families once for all turns. `reward_rows` makes the rows of a version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.domain.cost import Cost
from sciagent.errors import UsageError
from sciagent.rewards.candidate_states import IDS_PER_READ, Records, rungs_as_of, states
from sciagent.rewards.contract import CandidateState, Settlement, TermInputs, TurnOfEpisode, UsedTerm
from sciagent.rewards.credit import gigpo, marginal_contribution, outcome, return_to_go
from sciagent.rewards.credit.marginal_contribution import Find
from sciagent.rewards.credit.returns_and_baselines import Group, returns
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.turn_rewards import (
    ProposedCandidate,
    TurnFacts,
    TurnReward,
    limited,
    price_of,
    turn_rewards,
    worth,
)
from sciagent.rewards.unanswered_values import RewardLaw, expectations
from sciagent.store.learning import episodes
from sciagent.store.learning.episodes import EpisodeRow, EpisodeTurn
from sciagent.store.learning.reward_versions import RewardRow
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

    Parameters as of `valuations`.
    """
    ids = []
    for id_, state in known.items():
        has_lot = spec.unsettled == "robust" and state.chance
        if state.settlement is Settlement.OPEN or has_lot:
            ids.append(id_)
    if not ids:
        return {}
    expected = expectations(built, connection, law, ids, as_of, record or 0.0)
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
            price = price_of(terminal.declared(candidate) or {}, spec.prices)
            payoffs[id_] = max(0.0, expected[id_] - price)
    return payoffs


class CandidateFacts:
    """States, worths, costs and families of all candidates of the episodes."""

    def __init__(
        self,
        built: Built,
        connection: Connection,
        held: Sequence[tuple[EpisodeRow, Sequence[EpisodeTurn]]],
        spec: RewardSpec,
        law: RewardLaw | None,
        as_of: int,
    ) -> None:
        """held: the episodes with their turns."""
        self._records = Records(built, connection, held, as_of) if built.spec.goal.kind == "best" else None
        by_record: dict[float | None, set[int]] = {}
        for row, turns in held:
            ids_of_record = by_record.setdefault(self._record(row), set())
            for turn in turns:
                ids_of_record.update(turn.new_candidates)
        ids = sorted(set(chain.from_iterable(by_record.values())))
        self.states = states(built, connection, ids, as_of)
        self._worth: dict[float | None, Mapping[int, CandidateWorth]] = {}
        for record, of_record in by_record.items():
            known = {id_: self.states[id_] for id_ in sorted(of_record)}
            self._worth[record] = valuations(built, connection, known, as_of, law, spec, record)
        paid = [rung.verifier.computation for rung in built.paid]
        fits = set[tuple[str, str]]()
        for rung in rungs_as_of(built, connection, as_of):
            fits.update((name, fit.measured_level) for name, fit in rung.fits.items())
        self._costs = episodes.costs_of(connection, built.row.id, paid, ids, as_of, fits)
        inline = [rung.verifier.computation for rung in built.fast if rung.spec.inline]
        self._inline = episodes.of_computations(connection, inline, ids, as_of)
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
        worth = self._worth[self._record(row)]
        proposed = []
        for id_ in turn.new_candidates:
            cost = self._costs[id_] + self._reused_cost(id_, row, turn)
            key, families = self._key_and_families[id_]
            proposed.append(ProposedCandidate(key, families, worth[id_].value, worth[id_].settled, cost))
        return TurnFacts(proposed, turn.cost, terms)

    def _reused_cost(self, candidate_id: int, row: EpisodeRow, turn: EpisodeTurn) -> Cost:
        """Returns the cost of inline evidence that the turn reused.

        The turn's own cost holds the evidence that the turn computed, and in a group of rollouts also the evidence that
        it reused.
        """
        if row.group_id is not None:
            return Cost()
        total = Cost()
        for turn_id, cost in self._inline.get(candidate_id, ()):
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
    found = _episodes(built, connection, spec, law, as_of, only)
    for group_id, members in groupby(found, key=lambda episode: episode.row.group_id):
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
    """Returns the episodes; the episodes of a group stand one after the other."""
    rows = episodes.episodes(connection, built.row.id, as_of, only)
    if not rows:
        raise UsageError(f'campaign "{built.row.name}" has no episodes of a model; rewards are given to its turns')
    turns = episodes.turns_of(connection, [row.id for row in rows], as_of)
    held = [(row, turns[row.id]) for row in rows]
    facts = CandidateFacts(built, connection, held, spec, law, as_of)
    inputs = TermInputs(built, as_of, spec.unsettled, held, facts.states, facts.notations)
    terms = [UsedTerm(name, spec.settings_of(name)) for name, weight in spec.terms.items() if weight]
    for term in terms:
        term.prepare(connection, inputs)
    found = []
    for row, of_episode in held:
        turn_facts = []
        for position, turn in enumerate(of_episode):
            place = TurnOfEpisode(row, of_episode, position)
            values = {term.name: term.of(place) for term in terms}
            turn_facts.append(facts.of_turn(row, turn, values))
        found.append(_Episode(row, of_episode, turn_facts, turn_rewards(turn_facts, spec)))
    return found


def _advantages(spec: RewardSpec, group: Sequence[_Episode]) -> list[list[float | None]]:
    """Returns the advantages of the turns of each episode of a group, (siblings, turns)."""
    values: Group = [[reward.value for reward in episode.rewards] for episode in group]
    match spec.credit:
        case "outcome":
            return outcome.advantages(values)
        case "rtg":
            return return_to_go.advantages(values)
        case "gigpo":
            return gigpo.advantages(values, [[turn.state for turn in episode.turns] for episode in group])
        case "marginal":
            finds = [_finds(episode, spec) for episode in group]
            costs: Group = [[_net_cost(reward) for reward in episode.rewards] for episode in group]
            return marginal_contribution.advantages(finds, costs, spec.weight)


def _finds(episode: _Episode, spec: RewardSpec) -> list[list[Find]]:
    """Returns the candidates that each turn of an episode found."""
    finds = []
    for facts in limited(episode.facts, spec):
        finds.append([Find(found.key, found.families, found.worth) for found in facts.candidates])
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
    for turn, facts, reward, later, advantage in zip(
        episode.turns, episode.facts, episode.rewards, to_go, advantages, strict=True
    ):
        stored = []
        for candidate in facts.candidates:
            cost = dict(candidate.cost)
            stored.append({"key": candidate.key, "value": candidate.worth, "cost": cost, "settled": candidate.settled})
        rows.append(RewardRow(episode.row.id, turn.id, reward.value, later, advantage, reward.terms, stored))
    return rows
