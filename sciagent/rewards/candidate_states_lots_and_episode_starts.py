"""Derives the state of candidates from the evidence up to a watermark, a position in the ledger.

Neither the order in which the evidence arrived nor the standings that the campaign stored play a part, with one
exception: if several candidates relaxed to one structure, the first of them counts, as the ledger states it.

Where the goal is the best candidates, an episode is worth its improvement over the campaign's record when it began,
whatever its siblings (the other episodes of its group) find.

Candidates reach the terminal rung with a known chance by the lots of the scheduler `lottery`, or by the lots of the
audit, a random sample of the candidates that the scheduler `priced` passes over. A lot is a number in (0, 1); the
candidate is drawn if its lot is below the chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung, with_derived
from sciagent.campaign.core.record_results_and_place import answer_of, experimental_values_of
from sciagent.campaign.core.relaxed_to_same_structure import known_likenesses
from sciagent.campaign.core.verdicts_and_places import NO_VALUES, Answer, Place, place
from sciagent.domain.lab_messages_and_codes import NOT_OBTAINED
from sciagent.domain.outcomes_verdicts_and_reasons import Verdict
from sciagent.domain.states_and_needs import Standing
from sciagent.rewards.reward_term_contract import CandidateState, Settlement
from sciagent.scheduling.audit_of_dropped import lots
from sciagent.scheduling.rules.priced_settings import PricedSpec
from sciagent.store.campaign_state import candidate_standings, note_and_take_watermarks
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.condition_for_part_of_candidates import CandidatePart
from sciagent.store.learning import rollout_groups
from sciagent.store.learning.reward_inputs import EpisodeRow, EpisodeTurn
from sciagent.store.results import evidence, laws_and_audits, pooled_replicates

IDS_PER_READ = 2000
_REFUSALS = (Verdict.FAIL, Verdict.NOT_APPLICABLE)  # verdicts that say something about the candidate, unlike an error


def rungs_as_of(built: Built, connection: Connection, as_of: int) -> tuple[BuiltRung, ...]:
    """Returns the rungs with the calibrations that they had at a watermark."""
    fits = note_and_take_watermarks.current_fits(connection, built.row.id, as_of)
    return tuple(replace(rung, all_fits=fits.get(rung.id, {})) for rung in built.rungs)


def answers_as_of(
    built: Built, connection: Connection, candidate_ids: Sequence[int], as_of: int
) -> dict[int, list[Answer]]:
    """Returns the judged answers of all rungs at a watermark, by candidate id, in the order of the ladder."""
    source = evidence.evidence_as_of(as_of)
    answers: dict[int, list[Answer]] = {id_: [] for id_ in candidate_ids}
    experimental = experimental_values_of(connection, built, candidate_ids, as_of)
    for rung in rungs_as_of(built, connection, as_of):
        results = pooled_replicates.pooled_answers(connection, candidate_ids, rung.verifier.computation, source=source)
        for id_, result in results.items():
            with_all_values = with_derived(rung, result, earlier=answers[id_])
            answers[id_].append(answer_of(rung, with_all_values, experimental.get(id_, NO_VALUES)))
    return answers


def states(built: Built, connection: Connection, candidate_ids: Sequence[int], as_of: int) -> dict[int, CandidateState]:
    """Returns what is known of candidates at a watermark, by candidate id, without the law's expectations.

    Only evidence, the decisions to buy it and the likenesses of relaxed structures count. People's holds, vetoes and
    promotions do not: a reward says what the ladder found. Under the scheduler `lottery`, an answer of the terminal
    rung on a candidate that was not drawn does not count either, whoever asked for it: the drawn candidates stand for
    all.
    """
    state_of_id: dict[int, CandidateState] = {}
    for start in range(0, len(candidate_ids), IDS_PER_READ):
        ids = candidate_ids[start : start + IDS_PER_READ]
        answers = answers_as_of(built, connection, ids, as_of)
        likenesses = known_likenesses(connection, built, ids, as_of)
        experimental = experimental_values_of(connection, built, ids, as_of)
        ordered_positions = _ordered_positions(connection, built.row.id, ids, as_of)
        is_drawn = _drawn(built, connection, ids)  # empty without a lottery
        for id_ in ids:
            counted_answers = answers[id_]
            if id_ in is_drawn and not is_drawn[id_]:
                counted_answers = [answer for answer in answers[id_] if answer.position < built.terminal]
            likeness = likenesses.get(id_)
            values = experimental.get(id_, NO_VALUES)
            where = place(built.rules, built.objectives, counted_answers, likeness=likeness, experimental=values)
            answered = {answer.position for answer in counted_answers}
            state = _state(built, where, answered, ordered_positions.get(id_, frozenset()))
            if id_ in is_drawn:
                state = _state_by_lot(built, state, where, is_drawn[id_])
            state_of_id[id_] = state
    return state_of_id


def _state(built: Built, where: Place, answered: Set[int], ordered: Set[int]) -> CandidateState:
    """Returns a candidate's state.

    answered: positions of the rungs with an answer. ordered: positions of the rungs that the campaign decided to run.
    """
    if where.standing is Standing.SETTLED:
        counts_hits = built.spec.goal.kind == "hits" and any(o.accept for o in built.objectives)
        payoff = float(where.is_hit) if counts_hits else where.utility
        if where.reason in NOT_OBTAINED:
            payoff = 0.0  # what cannot be made or measured is worth nothing, which is an answer
        return CandidateState(Settlement.ANSWERED, payoff)
    if where.standing is Standing.DROPPED:
        if where.verdict not in _REFUSALS:
            return CandidateState(Settlement.UNDECIDED)
        return CandidateState(Settlement.REFUSED, screened=built.rungs[where.position].is_fast)
    due = {rung.rules.position for rung in built.fast} | ordered  # fast rungs run without a decision
    has_all_answers = due <= answered
    return CandidateState(Settlement.OPEN if has_all_answers else Settlement.UNDECIDED)


def _state_by_lot(built: Built, state: CandidateState, where: Place, is_drawn: bool) -> CandidateState:
    """Returns the state of a candidate of a lottery.

    A candidate that was not drawn is open once all rungs below the terminal one have answered. A drawn candidate is
    undecided until the terminal rung has answered, too.
    """
    if state.settlement is Settlement.REFUSED and where.position < built.terminal:
        return state  # thrown out before the lot
    chance = built.spec.scheduler.terminal_chance()
    is_waiting = where.standing is Standing.OPEN and (is_drawn or where.position < built.terminal)
    settlement = Settlement.UNDECIDED if is_waiting else state.settlement
    return state._replace(settlement=settlement, chance=chance)


def _drawn(built: Built, connection: Connection, candidate_ids: Sequence[int]) -> dict[int, bool]:
    """Returns by candidate id whether a lot sends it to the terminal rung; empty without known chances."""
    chance = built.spec.scheduler.terminal_chance()
    if chance is None:
        return {}
    keys = laws_and_audits.candidate_keys(connection, candidate_ids)
    drawn = lots(built.spec.seed, keys.values()) < chance
    return {id_: bool(is_drawn) for id_, is_drawn in zip(keys, drawn, strict=True)}


def _ordered_positions(
    connection: Connection, campaign_id: int, candidate_ids: Sequence[int], as_of: int
) -> dict[int, set[int]]:
    """Returns the positions of the rungs that the campaign had decided to run by a watermark, by candidate id."""
    d = t.decision.c
    r = t.rung.c
    query = (
        sa.select(d.candidate_id, r.position)
        .select_from(t.decision.join(t.rung, r.id == d.rung_id))
        # a decision that notes `as_of` itself was made after the version
        .where(d.campaign_id == campaign_id, d.action == "run", d.watermark < as_of)
        .where(among(connection, d.candidate_id, candidate_ids))
    )
    ordered: dict[int, set[int]] = {}
    for id_, position in connection.execute(query):
        ordered.setdefault(int(id_), set()).add(int(position))
    return ordered


class _AnsweredCandidate(NamedTuple):
    """A candidate with an answer of the terminal rung."""

    utility: float
    """Utility by that answer."""
    answered: int
    """Watermark of the first answer of the terminal rung; of the last evidence, if experimental values spared that
    rung."""
    seq: int
    """Sequence number in the campaign."""
    turn_id: int
    """Id of the turn that proposed it; 0, below all ids of turns, if a person did."""


class Beginning(NamedTuple):
    """The moment at which an episode began."""

    watermark: int
    part: CandidatePart | None
    """In a group, the candidates of its snapshot; None without a group."""
    turn_id: int
    """Id of its first turn; 0 in a group, where `part` says which candidates count."""


class Records:
    """The records at the beginnings of episodes.

    A record is the utility of the n-th best candidate that the terminal rung had answered by then, with n the count of
    the goal; 0 if there were fewer. Utilities follow from the evidence up to `as_of`, so that a correction of a record
    counts, and a late answer does not.
    """

    def __init__(
        self,
        built: Built,
        connection: Connection,
        episodes: Sequence[tuple[EpisodeRow, Sequence[EpisodeTurn]]],
        as_of: int,
    ) -> None:
        """episodes: each with its turns."""
        self._record_rank = built.spec.goal.count or 1
        answered = _answered_candidates(built, connection, as_of)
        self._best_first = sorted(answered, key=lambda candidate: -candidate.utility)
        beginning_of = beginnings(built, connection, episodes)
        self._records: dict[int, float] = {}
        record_by_beginning: dict[Beginning, float] = {}
        for row, _ in episodes:
            beginning = beginning_of[row.id]
            if beginning not in record_by_beginning:
                record_by_beginning[beginning] = self._record_at(beginning)
            self._records[row.id] = record_by_beginning[beginning]

    def of(self, row: EpisodeRow) -> float:
        """Returns the record at the beginning of an episode, in utility."""
        return self._records[row.id]

    def _record_at(self, beginning: Beginning) -> float:
        """Returns the record at a beginning, in utility."""
        rank = 0
        for candidate in self._best_first:
            if beginning.part is None:
                was_member = candidate.turn_id < beginning.turn_id
            else:
                was_member = beginning.part.holds(candidate.seq)
            if was_member and candidate.answered <= beginning.watermark:
                rank += 1
                if rank == self._record_rank:
                    return candidate.utility
        return 0.0


def _answered_candidates(built: Built, connection: Connection, as_of: int) -> list[_AnsweredCandidate]:
    """Returns all candidates of the campaign that are settled at a watermark: by an answer of the terminal rung, or
    without one where experimental values decide."""
    cc = t.campaign_candidate.c
    e = t.evidence.c
    p = t.proposal.c
    computation = built.rungs[built.terminal].verifier.computation
    first_answer = sa.func.min(e.watermark)
    query = (
        sa.select(cc.candidate_id, first_answer, cc.seq, sa.func.coalesce(p.turn_id, 0))
        .select_from(
            t.campaign_candidate.join(t.evidence, e.candidate_id == cc.candidate_id).outerjoin(
                t.proposal, p.id == cc.proposal_id
            )
        )
        .where(cc.campaign_id == built.row.id, e.watermark <= as_of)
        .where(e.verifier == computation.verifier, e.verifier_version == computation.version)
        .where(e.settings_hash == computation.settings_hash)
        .group_by(cc.candidate_id, cc.seq, p.turn_id)
    )
    rows = {int(row.candidate_id): row for row in connection.execute(query)}
    if built.measured_decides:
        measured_ids = candidate_standings.ids_with_imports_since(connection, built.row.id, 0)
        last_evidence = (
            sa.select(cc.candidate_id, sa.func.max(e.watermark), cc.seq, sa.func.coalesce(p.turn_id, 0))
            .select_from(
                t.campaign_candidate.join(t.evidence, e.candidate_id == cc.candidate_id).outerjoin(
                    t.proposal, p.id == cc.proposal_id
                )
            )
            .where(cc.campaign_id == built.row.id, e.watermark <= as_of)
            .where(among(connection, cc.candidate_id, [id_ for id_ in measured_ids if id_ not in rows]))
            .group_by(cc.candidate_id, cc.seq, p.turn_id)
        )
        rows |= {int(row.candidate_id): row for row in connection.execute(last_evidence)}
    answered = []
    for id_, state in states(built, connection, sorted(rows), as_of).items():
        if state.payoff is not None:
            _, watermark, seq, turn_id = rows[id_]
            answered.append(_AnsweredCandidate(state.payoff, int(watermark), int(seq), int(turn_id)))
    return answered


def beginnings(
    built: Built, connection: Connection, episodes: Sequence[tuple[EpisodeRow, Sequence[EpisodeTurn]]]
) -> dict[int, Beginning]:
    """Returns the beginnings of the episodes, by trajectory id. episodes: each with its turns.

    The episodes of a group are siblings: all begin with the group's snapshot of the campaign.
    """
    group_ids = {row.group_id for row, _ in episodes if row.group_id is not None}
    group_of_id = rollout_groups.of_ids(connection, sorted(group_ids))
    u = t.turn.c
    first_turns = sa.select(u.trajectory_id, sa.func.coalesce(u.asked_watermark, u.watermark)).where(u.number == 0)
    ids_without_group = [row.id for row, _ in episodes if row.group_id is None]
    rows = connection.execute(first_turns.where(among(connection, u.trajectory_id, ids_without_group)))
    first_watermark = {int(id_): int(watermark) for id_, watermark in rows}
    beginning_of = {}
    for row, turns in episodes:
        if row.group_id is not None:
            group = group_of_id[row.group_id]
            beginning_of[row.id] = Beginning(group.snapshot_watermark, group.part, turn_id=0)
        else:
            beginning_of[row.id] = Beginning(first_watermark[row.id], None, turns[0].id)
    return beginning_of


class Lot(NamedTuple):
    """The lot of a candidate."""

    chance: float
    """Chance with which the candidate is drawn, in (0, 1]."""
    is_drawn: bool


class Lots:
    """The lots of a campaign as of a watermark."""

    def __init__(self, built: Built, connection: Connection, as_of: int) -> None:
        scheduler = built.spec.scheduler
        self._chance = scheduler.terminal_chance()
        self._audit: Mapping[int, Lot] = {}
        if isinstance(scheduler, PricedSpec):
            log = laws_and_audits.audit_log(connection, built.row.id, as_of)
            passed_over = zip(log.ids, log.pi, log.lot, strict=True)
            # the chance is 0 until the audit has drawn for a candidate
            self._audit = {id_: Lot(chance, lot < chance) for id_, chance, lot in passed_over if chance > 0}

    @property
    def any(self) -> bool:
        """Whether any candidate has a lot."""
        return self._chance is not None or bool(self._audit)

    def of(self, candidate_id: int, state: CandidateState) -> Lot | None:
        """Returns the lot of a candidate that got as far as the lot; None for the others.

        state: under `lottery` it says whether the candidate was drawn.
        """
        if self._chance is None:
            return self._audit.get(candidate_id)
        if state.chance is None:
            return None
        is_drawn = state.settlement is not Settlement.OPEN  # see `_state_by_lot`
        return Lot(state.chance, is_drawn)
