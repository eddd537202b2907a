"""The texts that tell a model about a campaign before its first turn (goal, ladder, budget, results), and the workbench
that its tools use.

A text may be limited to a part of the candidates (`CandidatePart`): the candidates up to an earlier point of the
campaign, or a sample of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.agent.tools.tool_contract_and_calls import Past
from sciagent.agent.tools.toolbox import SHOWN
from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.create_and_open import open_within
from sciagent.campaign.proposing.campaign_workbench import CampaignWorkbench
from sciagent.campaign.proposing.law_filter import LawFilter
from sciagent.campaign.proposing.prediction_scores import in_canonical, latest_scores
from sciagent.campaign.proposing.proposal_novelty import best_candidates
from sciagent.campaign.proposing.rungs_on_unwritten_proposals import BenchEntry, Runs
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import RESOURCE_UNITS, Cost
from sciagent.domain.display_units import chosen_unit_of, in_chosen_units, window_text
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.proposer_interfaces import FILTERED, HELD_WORDS, ProposalIn, ProposalOut
from sciagent.domain.quantities import value_text
from sciagent.domain.safe_text_and_durations import short
from sciagent.domain.states_and_needs import Standing
from sciagent.domain.worth import Worth
from sciagent.errors import InvalidCandidateError
from sciagent.store.campaign_state import campaigns, candidate_standings, directives
from sciagent.store.campaign_state.candidate_standings import WORTH_COLUMNS
from sciagent.store.database import tables as t
from sciagent.store.database.condition_for_part_of_candidates import WHOLE, CandidatePart
from sciagent.store.results import candidates, pooled_replicates
from sciagent.store.views import campaign_counts_and_remarks

MANY = 4000  # number of latest proposals and candidates that are counted
CLASSES = 8  # number of scaffolds shown
SCORED = 2000  # number of latest predictions that are scored
NOTES = 3  # number of latest notes shown
MAX_TEXT = 4000  # characters of a digest
MAX_FAMILY = 100  # characters of the name of a family
MAX_REASONS = 4  # number of most frequent reasons shown
MAX_ECHOED = 200  # characters of a proposed text that a reply repeats
MAX_DETAIL = 300  # characters of the reason for a refusal in a reply
MAX_NOTE = 500  # characters stored of a note


def goal(built: Built) -> str:
    """Returns the objectives and the ladder in a few lines."""
    lines = [built.spec.description.strip()] if built.spec.description else []
    units = built.row.units
    for objective in built.objectives:
        if objective.accept is not None:
            wanted = window_text(objective.property, objective.accept, units)
        else:
            unit = chosen_unit_of(objective.property, units)
            wanted = f"{objective.property} as {objective.direction} as can be"
            if unit != "1":
                wanted += f", in {unit}"
        lines.append(f"Wanted: {wanted}.")
    for rung in built.rungs:
        facts = []
        if rung.is_fast or rung.spec.inline:
            facts.append("at once")
        if not rung.is_fast:
            facts.append("costs the budget")
        if rung.rules.is_terminal:
            facts.append("decides")
        line = f"Rung {rung.spec.rung} ({rung.verifier.name}): {', '.join(facts)}"
        gate = ", ".join(window_text(name, window, units) for name, window in rung.rules.gate.items())
        if gate:
            line += f"; gate {gate}"
        lines.append(line)
    return "\n".join(lines)


def remaining_budget_text(left: Mapping[str, float]) -> str:
    """Returns the remaining budget, by resource or rung, in one line."""
    parts = []
    for name, amount in left.items():
        unit = RESOURCE_UNITS.get(name, "")
        text = f"{name}: {amount:.4g}"
        if unit not in ("", "1"):
            text += f" {unit}"
        parts.append(text)
    return "; ".join(parts) or "no limit"


def digest(connection: Connection, built: Built, part: CandidatePart = WHOLE) -> str:
    """Returns a summary of the campaign's results in at most MAX_TEXT characters.

    It lists the best candidates with their results, outcomes by scaffold, reasons for refusals, scores of earlier
    predictions, and the latest notes. part: the candidates that count; without all of them, predictions and notes are
    left out.
    """
    campaign_id = built.row.id
    lines = _best_lines(connection, built, part)
    hit_counts = campaign_counts_and_remarks.hits(connection, campaign_id, part)
    if hit_counts.hits > 0:
        count_once = "" if hit_counts.hits == hit_counts.distinct else "; tautomers of one compound count once"
        lines.append(f"Hits so far: {hit_counts.text(str(hit_counts.hits))}{count_once}.")
    families = _family_lines(connection, built, part)
    if families:
        lines.append(f"Tried so far, by {built.subject.words.family}: {'; '.join(families)}.")
    reasons = _reasons(connection, campaign_id, part)
    if reasons:
        counts = ", ".join(f"{n} x {reason}" for reason, n in reasons)
        lines.append(f"Turned down so far: {counts}.")
    if part.is_whole:
        lines += _lines_of_models(connection, built)
    return "\n".join(lines)[:MAX_TEXT]


def _lines_of_models(connection: Connection, built: Built) -> list[str]:
    """Returns the scores of predictions, and the latest notes."""
    campaign_id = built.row.id
    lines = list[str]()
    for (rung, name), record in latest_scores(connection, built.row, SCORED).items():
        unit = chosen_unit_of(name, built.row.units)
        lines.append(
            f"Predictions of {name} against {rung}: {record.n}, mean score (CRPS) {record.crps:.2g} {unit}, "
            f"{100 * record.within / record.n:.0f} % within the error given, "
            f"{record.bias:+.2g} {unit} too high on average."
        )
    e = t.event.c
    notes = sa.select(e.payload).where(e.campaign_id == campaign_id, e.kind == "note")
    latest = connection.execute(notes.order_by(e.id.desc()).limit(NOTES)).scalars().all()
    for payload in reversed(latest):
        lines.append(f"Note of an earlier episode: {payload['text']}")
    return lines


def numbered_notations(connection: Connection, built: Built) -> list[str]:
    """Returns the notations of the candidates that the digest of the whole campaign lists, in the order of their
    numbers."""
    return [candidate.text for candidate in best_candidates(connection, built, SHOWN).values()]


def _best_lines(connection: Connection, built: Built, part: CandidatePart) -> list[str]:
    """Returns one line `#1 TEXT: worth; results` per best candidate."""
    top = candidate_standings.best_with_worth(connection, built.row.id, SHOWN, part)
    results = measured_lines(connection, built, [row["candidate_id"] for row in top])
    lines = []
    for place, row in enumerate(top, start=1):
        held = f", {HELD_WORDS}" if row["standing"] == Standing.HELD else ""
        parts = [f"{row['text']}: {Worth.from_columns(row)}{held}", *results[row["candidate_id"]]]
        lines.append(f"#{place} {'; '.join(parts)}")
    return lines


def measured_lines(connection: Connection, built: Built, candidate_ids: Sequence[int]) -> dict[int, list[str]]:
    """Returns, by candidate id, one line per paid or terminal rung with its values of the objectives' properties.

    What another campaign has computed is left out until the candidate is placed by it here, as its worth is.
    """
    lines: dict[int, list[str]] = {id_: [] for id_ in candidate_ids}
    depths = candidate_standings.depths(connection, built.row.id, candidate_ids)
    for rung in built.rungs:
        if rung.is_fast and not rung.rules.is_terminal:
            continue
        derived = [prop.settings_hash for prop in rung.spec.derived]
        known = pooled_replicates.pooled_answers(connection, candidate_ids, rung.verifier.computation, derived)
        for id_, row in known.items():
            if depths.get(id_, -1) < rung.rules.position:
                continue
            lines[id_].append(values_line(built, rung, row.measured, row.outcome))
    return lines


def values_line(built: Built, rung: BuiltRung, measured: Sequence[Measured], otherwise: str = "not measured") -> str:
    """Returns a line with a rung's values of the objectives' properties. otherwise: the text if there are none."""
    wanted = {objective.property for objective in built.objectives}
    values = ", ".join(
        f"{m.property} {value_text(m.quantity.value, None, m.quantity.unit)}"
        for m in in_chosen_units(measured, built.row.units)
        if m.property in wanted
    )
    return f"{rung.spec.rung}: {values or otherwise}"


def _family_lines(connection: Connection, built: Built, part: CandidatePart) -> list[str]:
    """Returns one line per frequent family of the latest candidates, with counts of hits and rejections."""
    lines = []
    tried = candidates.results_by_family(connection, built.row.id, MANY, CLASSES, part)
    notations = candidates.notations(connection, built.subject, {each.first: each.text for each in tried})
    for family in tried:
        full_name = built.subject.features(notations[family.first]).family
        name = full_name[:MAX_FAMILY] or built.subject.words.no_family
        facts = [str(family.n)]
        if family.hits:
            facts.append("1 hit" if family.hits == 1 else f"{family.hits} hits")
        if family.dropped:
            facts.append(f"{family.dropped} turned down")
        if family.best is not None:
            facts.append(f"best {family.best}")
        lines.append(f"{name}: {', '.join(facts)}")
    return lines


def _reasons(connection: Connection, campaign_id: int, part: CandidatePart) -> list[tuple[str, int]]:
    """Returns (reason, count) of the most frequent refusals of proposals and drops of candidates."""
    cc = t.campaign_candidate.c
    refused = _proposals(sa.select(t.proposal.c.reason), campaign_id, part)
    dropped = sa.select(cc.reason).where(cc.campaign_id == campaign_id, cc.standing == "dropped")
    dropped = dropped.where(part.condition)
    counts: Counter[str] = Counter()
    for query in (refused, dropped.order_by(cc.position, cc.seq)):
        counts.update(reason for reason in connection.execute(query.limit(MANY)).scalars() if reason)
    most_frequent_first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return most_frequent_first[:MAX_REASONS]


def _proposals(query: sa.Select[Any], campaign_id: int, part: CandidatePart) -> sa.Select[Any]:
    """Returns a query of a campaign's proposals, newest first.

    part: of a sample of candidates, only the proposals that brought them count; of a part with an end, only the
    proposals before the first one of a model.
    """
    p = t.proposal.c
    turn = t.turn.c
    query = query.where(p.campaign_id == campaign_id).order_by(p.id.desc())
    if part.seqs is not None:
        cc = t.campaign_candidate.c
        return query.where(p.id.in_(sa.select(cc.proposal_id).where(cc.campaign_id == campaign_id, part.condition)))
    if part.end is None:
        return query
    other = t.proposal.alias()
    of_models = sa.select(other.c.id).join(t.turn, turn.id == other.c.turn_id).where(turn.message.is_not(None))
    of_models = of_models.where(other.c.campaign_id == campaign_id).order_by(other.c.id).limit(1)
    first = of_models.scalar_subquery()
    return query.where(sa.or_(first.is_(None), p.id < first))


def remaining_budget(connection: Connection, built: Built) -> dict[str, float]:
    """Returns the budget that is neither spent nor reserved: by resource, in runs of each limited rung, and in
    proposals and verifications."""
    campaign_id = built.row.id
    built = as_amended(connection, built)
    budget = BudgetTracker(built, connection)
    used = budget.used()
    used["proposals"] = campaign_counts_and_remarks.proposals(connection, campaign_id)
    used["verifications"] = campaign_counts_and_remarks.verifications(connection, campaign_id, built.terminal)
    labels = _labels_of_limits(built)
    left = {}
    for name, limit in _limits(built, budget).items():
        left[labels.get(name, name)] = max(limit - used.get(name, 0.0), 0.0)
    return left


def as_amended(connection: Connection, built: Built) -> Built:
    """Returns the campaign with its limits and its wall time as the ledger has them now.

    `built` may be from before an amendment, and its wall time is that of when it was opened.
    """
    row = campaigns.get(connection, built.row.name)
    if row.spec_hash != built.row.spec_hash:
        return open_within(connection, built.ledger, row.name)
    present = copy(built)
    present.row = row
    return present


def whole_budget(built: Built, connection: Connection) -> dict[str, float]:
    """Returns the budget before anything of it was spent, as `remaining_budget` does."""
    labels = _labels_of_limits(built)
    limits = _limits(built, BudgetTracker(built, connection))
    return {labels.get(name, name): limit for name, limit in limits.items()}


def _labels_of_limits(built: Built) -> dict[str, str]:
    """Returns the words for the limits of rungs, by their names in `BudgetTracker.limits`."""
    return {f"rung {rung.rules.position}": f"runs of {rung.spec.rung}" for rung in built.rungs}


def _limits(built: Built, budget: BudgetTracker) -> dict[str, float]:
    """Returns the limits of the budget, by resource or rung, and those of proposals and verifications. The limit of the
    control is left out."""
    limits = dict(budget.limits())
    stated = built.spec.budget
    for name, number in (("proposals", stated.proposals), ("verifications", stated.verifications)):
        if number is not None:
            limits[name] = float(number)
    if built.control is not None:  # a model that knows of the control could learn which candidates score well by it
        limits.pop(f"rung {built.control.rules.position}", None)
    return limits


def recent(connection: Connection, built: Built, n: int, part: CandidatePart = WHOLE) -> list[Past]:
    """Returns the latest n proposals of the campaign with their outcome, newest first. part: as in `_proposals`."""
    p = t.proposal.c
    c = t.candidate.c
    cc = t.campaign_candidate.c
    reason = sa.func.coalesce(p.reason, cc.reason, "")
    member = sa.and_(cc.campaign_id == p.campaign_id, cc.candidate_id == p.candidate_id)
    # a refused text may be anybody's free text, so a model never sees it
    text = sa.func.coalesce(c.text, f"(no {built.subject.words.one})")
    query = (
        sa.select(
            c.id, text.label("text"), c.key, p.status, cc.standing, reason.label("reason"), p.operation, *WORTH_COLUMNS
        )
        .select_from(t.proposal.outerjoin(t.candidate, c.id == p.candidate_id))
        .outerjoin(t.campaign_candidate, member)
        .limit(n)
    )
    rows = [dict(row) for row in connection.execute(_proposals(query, built.row.id, part)).mappings()]
    ids = [row.pop("id") for row in rows]
    text_of_id = {id_: row["text"] for id_, row in zip(ids, rows, strict=True) if id_ is not None}
    notations = candidates.notations(connection, built.subject, text_of_id)
    past = []
    for id_, row in zip(ids, rows, strict=True):
        row["text"] = notations.get(id_, row["text"])
        worth = Worth.from_columns(row)
        row = {name: value for name, value in row.items() if name not in Worth.__dataclass_fields__}
        row["worth"] = None if worth is None else str(worth)
        past.append(Past(**row))  # type: ignore[typeddict-item]
    return past


FULL_TURN = "no more proposals in this turn"
NONE_LEFT = "all proposals of the budget are made"


class AgentWorkbench(CampaignWorkbench):
    """The workbench for one turn of a model."""

    def __init__(
        self,
        built: Built,
        worker: Runs,
        *,
        room: int,
        trajectory: int,
        full: str = FULL_TURN,
        law_filter: LawFilter | None = None,
    ) -> None:
        """room: number of proposals that the workbench accepts; more are refused, for the reason `full`. Proposals that
        the filter drops take no room, up to the number of which `room` would go on. trajectory: id of the episode."""
        super().__init__(built, worker, law_filter)
        self._room = room
        self._room_filtered = 0 if law_filter is None else law_filter.most_dropped(room)
        self.filter_core_seconds = 0.0
        """Computing time of the filter in this turn, in core-seconds."""
        self._full = full
        self._trajectory = trajectory

    def propose(self, proposals: Sequence[ProposalIn]) -> list[ProposalOut]:
        return [self._refused_by_gate(proposal) or self._propose_one(proposal) for proposal in proposals]

    def _refused_by_gate(self, proposal: ProposalIn) -> ProposalOut | None:
        """Returns the reply to a new candidate that misses a free gate; None if it misses none.

        A candidate that misses a gate is not proposed and does not count among the proposals of the turn.
        """
        try:
            candidate = self._built.subject.read(proposal.text)
        except InvalidCandidateError:
            return None
        if self.known(candidate):
            return None
        missed = self.missed_gate(candidate)
        if missed is None:
            return None
        return ProposalOut(proposal.text[:MAX_ECHOED], "refused", reason="misses a gate", detail=missed[:MAX_DETAIL])

    def _propose_one(self, proposal: ProposalIn) -> ProposalOut:
        if self._room <= 0:
            return ProposalOut(proposal.text[:MAX_ECHOED], "refused", reason="too_many", detail=self._full)
        began = 0.0 if self._filter is None else self._filter.core_seconds
        [entry] = self._enter([self._in_canonical_units(proposal)])
        if self._filter is not None:
            core_seconds = self._filter.core_seconds - began
            self.filter_core_seconds += core_seconds
            self.charged += Cost(core_seconds=core_seconds)
        if entry.status == FILTERED and self._room_filtered > 0:
            self._room_filtered -= 1
        else:
            self._room -= 1
        return replace(entry.out(), results=self._inline_results(entry))

    def _inline_results(self, entry: BenchEntry) -> tuple[str, ...]:
        """Returns the worth and one line per inline rung that answered; empty if none did."""
        inline = [rung for rung in self._built.fast if not rung.is_fast]
        lines = self.lines_on(entry, inline)
        if not lines:
            return ()
        if entry.place is None or entry.place.worth is None:
            return tuple(lines)
        return (str(entry.place.worth), *lines)

    def lines_on(self, entry: BenchEntry, rungs: Sequence[BuiltRung]) -> list[str]:
        """Returns a line with the values of each of these rungs that answered on a proposal of the turn."""
        answer_at = {answer.position: answer for answer in entry.answers}
        lines = []
        for rung in rungs:
            answer = answer_at.get(rung.rules.position)
            if answer is not None:
                lines.append(values_line(self._built, rung, answer.measured))
        return lines

    def _in_canonical_units(self, proposal: ProposalIn) -> ProposalIn:
        """Returns the proposal with its predictions converted from the units of the goal to canonical units."""
        units = self._built.row.units
        canonical = {}
        for name, stated in proposal.predicted.items():
            if name in units:
                value, error = in_canonical(name, stated["value"], stated["error"], units)
                canonical[name] = {"value": value, "error": error}
        return replace(proposal, predicted=proposal.predicted | canonical)

    def results_of(self, key: str) -> list[str]:
        """Returns one line per paid rung with evidence on the candidate."""
        with self._built.ledger.read() as connection:
            ids = list(candidates.ids_of(connection, [key]).values())
            members = candidate_standings.members(connection, self._built.row.id, ids)
            lines = measured_lines(connection, self._built, list(members))
        in_order = []  # lines of the one candidate; none if it is not in the campaign
        for lines_of_candidate in lines.values():
            in_order.extend(lines_of_candidate)
        return in_order

    def recent(self, n: int) -> list[Past]:
        """Returns the latest n proposals of the campaign with their outcome, newest first."""
        with self._built.ledger.read() as connection:
            return recent(connection, self._built, n)

    def barred(self, candidate: Candidate) -> str | None:
        with self._built.ledger.read() as connection:
            for id_ in candidates.ids_of(connection, [self.key_of(candidate)]).values():
                steering = directives.steering_of(connection, self._built.row.id, id_)
                if steering.vetoed:
                    return f"vetoed by {steering.who}: {short(steering.why, MAX_DETAIL)}"
        return None

    def left(self) -> dict[str, float]:
        with self._built.ledger.read() as connection:
            left = remaining_budget(connection, self._built)
        if "proposals" in left:  # those of this turn are not in the ledger yet
            left["proposals"] = max(left["proposals"] - self.n_proposals, 0.0)
        return left

    def goal(self) -> str:
        return goal(self._built)

    def note(self, text: str) -> None:
        self.events.append(("note", {"text": text[:MAX_NOTE], "trajectory": self._trajectory}))
