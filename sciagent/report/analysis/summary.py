"""The summary of the report: answers to a chemist's questions, from the figures of the other sections.

"Can it be made?" is answered from the rungs' values on synthesis and from the user's own file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.answers.status_and_comparison import CampaignCounts, JudgeAgreement
from sciagent.domain.properties_and_levels import PURCHASABLE, SA_SCORE, SYNTHESIS_STEPS, Property
from sciagent.domain.states_and_needs import CampaignState
from sciagent.domain.worth import SURE_PERCENT
from sciagent.report.analysis.rejections_and_sessions import Rejection
from sciagent.report.campaigns_at_work import time_left
from sciagent.report.parts.best_candidate_cards_and_table import KIND_PLACE, Card, HitsInDoubt, Table
from sciagent.report.parts.rung_and_judge_agreement import decided_by_opinion
from sciagent.report.parts.wording import (
    MEANS,
    after_number,
    amount,
    duration,
    let_through_sentence,
    many,
    resource_words,
    uncertainties_text,
    value,
    words,
)
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.views.report_queries import Passage

if TYPE_CHECKING:
    from sciagent.report.analysis.rung_spending_comparisons_and_worth import Compared, Spending


MAX_REASONS = 3  # reasons of rejections that are listed


class Synthesis(NamedTuple):
    """The answer to "Can it be made?"."""

    figure: str
    """The answer in a few words."""
    lines: list[str]
    """The sentences below it."""


def synthesis(best: Sequence[Card]) -> Synthesis:
    """Returns the answer for the hits among the best candidates, or for all of them if none is a hit."""
    hits = [card for card in best if card.candidate.hit]
    cards = hits or list(best)
    counted_cards = many(len(cards), "hit" if hits else "candidate")
    parts = list(_parts(cards, counted_cards))
    figures = [figure for figure, _ in parts if figure]
    lines = [line for _, line in parts]
    if not figures:
        lines.append("No rung has assessed the synthesis; a rung with molecule.synthesis does.")
    return Synthesis(figures[-1] if figures else "not asked", lines)


def _parts(cards: Sequence[Card], counted_cards: str) -> Iterator[tuple[str, str]]:
    """Yields (figure, sentence); the last figure counts, and a part without a figure has an empty text.

    counted_cards: number of the cards with a noun, such as `3 hits`.
    """
    scores = _values(cards, SA_SCORE)
    if scores:
        lowest = f"{min(scores):.1f}"
        highest = f"{max(scores):.1f}"
        figure = f"SA score {lowest}" if lowest == highest else f"SA score {lowest} to {highest}"
        scale = "1 is easy, 10 is hard. It is a heuristic of the structure, not a route."
        yield figure, f"Of {counted_cards} shown below; {scale}"
    steps = _values(cards, SYNTHESIS_STEPS)
    if steps:
        figure = f"{len(steps)} of {counted_cards} with a route"
        yield figure, f"The shortest route has {many(int(min(steps)), 'step')}."
    available = _values(cards, PURCHASABLE)
    if available:
        n_purchasable = len([value for value in available if value > 0])
        verb = "is" if n_purchasable < 2 else "are"
        yield "", f"{n_purchasable or 'None'} of {len(available)} {verb} in the file of what can be bought."
    n_seeds = len([card for card in cards if card.candidate.in_seeds])
    if n_seeds:
        yield "", f"{n_seeds} of {counted_cards} {'was' if n_seeds == 1 else 'were'} in your own file."


def _values(cards: Sequence[Card], prop: Property) -> list[float]:
    """Returns the values of a property, each from the highest rung that measured it; cards without one are left out.

    An imported value stands before those of rungs.
    """
    values = []
    for card in cards:
        measured = chain.from_iterable(answer.measured for answer in card.answers)
        of_property = [each.quantity.value for each in measured if each.property == prop.name]
        if of_property:
            values.append(of_property[-1])
    return values


@dataclass(frozen=True)
class QuestionAnswered:
    """A question of a chemist with its answer."""

    question: str
    figure: str
    """The answer in a few words."""
    lines: list[str]
    """The sentences below it."""


def answers(
    row: CampaignRow,
    status: CampaignCounts,
    passages: Sequence[Passage],
    spending: Spending,
    best: Sequence[Card],
    table: Table,
    pairs: Sequence[Compared],
    rejections: Sequence[Rejection],
    unread: Sequence[Rejection],
    judged: Sequence[JudgeAgreement] = (),
    measured: Sequence[Compared] = (),
) -> list[QuestionAnswered]:
    """Returns the answers to all questions.

    pairs: comparisons of rungs with the next rung. measured: comparisons of imported values with rungs. judged:
    agreement of language models that judge with the values.
    """
    answered = [
        _found(row, status, passages, best),
        _sure(row, status, table, pairs=pairs, best=best, judged=judged, measured=measured),
    ]
    if subject_of(row.spec["subject"]).synthesis:
        can_be_made = synthesis(best)
        answered.append(QuestionAnswered("Can it be made?", can_be_made.figure, can_be_made.lines))
    answered.append(_cost(status, spending, row))
    answered.append(_thrown_away(rejections, unread, status))
    return answered


def terminal(row: CampaignRow, passages: Sequence[Passage]) -> Passage:
    """Returns how many candidates reached, passed and failed the terminal rung."""
    return next(passage for passage in passages if passage.rung.name == row.spec["terminal"])


def _found(
    row: CampaignRow, status: CampaignCounts, passages: Sequence[Passage], best: Sequence[Card]
) -> QuestionAnswered:
    end = terminal(row, passages)
    n = end.passed + end.failed
    n_left = sum(passage.waiting + passage.running for passage in passages)
    counts = f"{many(status.candidates, 'candidate')} from {many(status.proposals, 'proposal')}; {n} verified"
    lines = [f"{counts}, {n_left} left: neither verified nor dropped." if n_left else f"{counts}, none left."]
    figure = f"{n} verified"
    if row.has_limits:
        no_hit = "no hit" if n else "no hit yet"
        figure = status.hit_counts.text(many(status.hits, "hit")) if status.hits else no_hit
    n_seeds = len([card for card in best if card.candidate.hit and card.candidate.in_seeds])
    if n_seeds:
        lines.append(f"{many(n_seeds, 'hit')} among the best {'was' if n_seeds == 1 else 'were'} in the seeds.")
    if decided_by_opinion(row):
        lines.append("A language model has judged, by a rubric; nothing was computed or measured at the end.")
    sentences_on_best = _best(best)
    if not sentences_on_best and not n and not status.hits:
        lines.append("Nothing has been verified at the terminal rung yet.")
    lines += sentences_on_best
    lines += _level(row, best, passages, status.hits)
    return QuestionAnswered("What was found?", figure, lines)


def _best(best: Sequence[Card]) -> list[str]:
    """Returns sentences on the best candidate that is a hit or has a utility."""
    ranked = [card for card in best if card.candidate.hit or card.candidate.utility is not None]
    if not ranked:
        return []
    top = ranked[0]
    shown = [f"{words(measured.property)} {value(measured)}" for _, measured in top.headline]
    if not shown:  # imported values alone
        shown = [f"measured {words(measured.property)} {value(measured)}" for _, measured in top.imported]
    if not shown:
        return []
    values = "; ".join(shown)
    sentences = [f"Best: {top.candidate.label} with {values}."]
    if top.candidate.utility is not None:
        sentences.append(f"Its utility is {top.candidate.utility:.3g}; 1 is best.")
    if top.contradicted is not None:
        sentences.append(f"A measurement contradicts it: {top.contradicted}.")
    return sentences


def certainty_sentence(doubts: HitsInDoubt, hits: int) -> str:
    """Returns the one sentence on the hits that may be misses. hits: number of hits that were looked at."""
    counted_hits = many(hits, "hit")
    clauses = []
    if doubts.unknown < hits:
        what = "a miss" if doubts.by_method == 1 else "misses"
        could_be = f"{doubts.by_method or 'none'} of {counted_hits} could be {what}"
        cause = "the method's error or their measured values" if doubts.by_measurement else "the method's error"
        clause = f"{could_be} by {cause} (P(limits) < {SURE_PERCENT} %)"
        if doubts.by_method_near:
            clause += f", {doubts.by_method_near} of them also by repeatability alone"
        clauses.append(clause)
    if doubts.unknown:
        number = str(doubts.unknown)
        if doubts.unknown == hits:
            number = "the only hit" if hits == 1 else f"all {counted_hits}"
        clause = f"{_unknown_error(doubts)} for {number}"
        if doubts.unknown_near:
            clause += f", {doubts.unknown_near} of which could be a miss by repeatability alone"
        clauses.append(clause)
    sentence = "; ".join(clauses)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _unknown_error(doubts: HitsInDoubt) -> str:
    """Returns a clause on what leaves P(limits) unknown."""
    if doubts.unknown_measured:
        return "the error of the method, or of the measured value, is unknown"
    return "the method's error is unknown"


def _hits_in_doubt(status: CampaignCounts, table: Table, lines: list[str]) -> str:
    """Adds sentences on the hits that may be misses to `lines`; returns the figure of the question."""
    kinds = [row[KIND_PLACE] for row in table.rows]
    contradicted = kinds.count("contradicted")
    shown = min(status.hits, contradicted + kinds.count("hit"))
    if not shown:
        return ""
    doubts = table.doubts
    lines.append(certainty_sentence(doubts, shown))
    if contradicted:
        verb = "is" if contradicted == 1 else "are"
        lines.append(f"{contradicted} of {many(shown, 'hit')} {verb} contradicted by a measured value.")
    if doubts.unknown == shown:
        return _unknown_error(doubts)
    sure = shown - doubts.by_method - doubts.unknown
    return f"{sure} of {shown} with P(limits) ≥ {SURE_PERCENT} %"


def _sure(
    row: CampaignRow,
    status: CampaignCounts,
    table: Table,
    pairs: Sequence[Compared],
    best: Sequence[Card],
    judged: Sequence[JudgeAgreement],
    measured: Sequence[Compared],
) -> QuestionAnswered:
    lines, figure = against_imported(row, measured)
    if status.hits:
        figure = _hits_in_doubt(status, table, lines)
    if table.contradicted_misses:
        candidates = many(table.contradicted_misses, "candidate")
        lines.append(f"{candidates} missed a limit although a measured value lies inside it.")
    with_terminal = [p for p in pairs if p.upper == row.spec.get("terminal") and p.figures.spearman is not None]
    for comparison in with_terminal[:2]:
        figures = comparison.figures
        interval = "" if figures.low is None else f" [{figures.low:.2f}, {figures.high:.2f}]"
        ranks = f"{comparison.lower} ranks {comparison.property} as {comparison.upper} does with Spearman"
        lines.append(f"{ranks} {figures.spearman:.2f}{interval}, n = {figures.n}.")
        figure = figure or f"Spearman {figures.spearman:.2f}"
    lines += [f"{judge.words[0].upper()}{judge.words[1:]}." for judge in judged]
    lines.append(_meaning_of_uncertainties(row, status, best))
    lines += _caution(row)
    return QuestionAnswered("How sure is it?", figure or "not yet known", lines)


def _meaning_of_uncertainties(row: CampaignRow, status: CampaignCounts, best: Sequence[Card]) -> str:
    """Returns a sentence on what the ± of the best candidates' values is, or on why there are no values."""
    shown = [measured.quantity for card in best for _, measured in card.headline]
    if not shown:
        without_values = "No value has been measured at a paid rung"
        return without_values + ("; imported values have decided." if status.hits else ".")
    text = headline_uncertainties(row, best)
    kinds = {quantity.uncertainty_kind for quantity in shown}
    is_computed = any(kind is not None and kind not in MEANS for kind in kinds)
    return f"{text}, not the method's error." if is_computed else f"{text}."


def headline_uncertainties(row: CampaignRow, best: Sequence[Card]) -> str:
    """Returns a sentence without a full stop on what the ± of the cards' headline values is."""
    quantities = [measured.quantity for card in best for _, measured in card.headline]
    kinds = {quantity.uncertainty_kind for quantity in quantities if quantity.uncertainty}
    return uncertainties_text(kinds, subject_of(row.spec["subject"]).words)


def against_imported(row: CampaignRow, measured: Sequence[Compared]) -> tuple[list[str], str]:
    """Returns sentences on the distance of the terminal rung's values from imported ones, and the first in short."""
    lines = []
    figure = ""
    wanted = [words(o["property"]) for o in row.spec.get("objectives", ())]
    for comparison in measured:
        mae = comparison.figures.mae
        bias = comparison.figures.bias
        unit = after_number(comparison.unit)
        if comparison.upper == row.spec["terminal"] and comparison.property in wanted and mae is not None:
            molecules = f" {comparison.molecules}" if comparison.molecules else ""
            against = f"against {comparison.x_level} (imported, n = {comparison.figures.n}{molecules})"
            errors = f"mean absolute error {mae:.3g}{unit}, mean error {bias:+.3g}{unit}"
            if comparison.left_out_error is not None:
                mae = comparison.left_out_error
                errors = f"calibrated on them; each left out in turn, mean absolute error {mae:.3g}{unit}"
            lines.append(f"{comparison.property} by {comparison.upper} {against}: {errors}.")
            figure = figure or f"mean absolute error {mae:.3g}{unit}"
    return lines, figure


def _caution(row: CampaignRow) -> list[str]:
    if not any(o["property"] == "homo_lumo_gap" for o in row.spec.get("objectives", ())):
        return []
    return ["The gap is an orbital gap, not optical: LUMO minus HOMO energy of the stated method."]


def _level(row: CampaignRow, best: Sequence[Card], passages: Sequence[Passage], hits: int) -> list[str]:
    """Returns sentences on the level at which the terminal rung decides. hits: number of hits of the campaign."""
    name = terminal(row, passages).rung.name
    labels: dict[str, dict[str, None]] = {}  # {level: ordered set of its properties}
    for answer, measured in chain.from_iterable(card.headline for card in best):
        if answer.rung == name:
            labels.setdefault(measured.level.label, {})[words(measured.property)] = None
    if not labels and hits:
        return [f"The rung {name} decides; imported values have decided in its place so far."]
    if not labels:
        return [f"The rung {name} decides; it has measured nothing yet."]
    if len(labels) == 1:
        [only_label] = labels
        return [f"Level: {only_label}."]
    clauses = [f"{label} ({', '.join(names)})" for label, names in labels.items()]
    return [f"Levels: {'; '.join(clauses)}."]


def _cost(status: CampaignCounts, spending: Spending, row: CampaignRow) -> QuestionAnswered:
    totals = {resource: spending.total(resource) for resource in spending.resources}
    amounts = [amount(resource, total) for resource, total in totals.items()]
    lines = []
    if amounts[MAX_AMOUNTS_IN_FIGURE:]:
        lines.append(f"And {', '.join(amounts[MAX_AMOUNTS_IN_FIGURE:])}.")
    driven = duration(status.spent["wall_minutes"] * 60)
    if status.tasks is None:
        lines.append(f"{driven} on the clock.")
    else:
        elapsed = duration((row.updated_at - row.created_at).total_seconds())
        lines.append(f"{elapsed} from the start to the last change; a driver worked for {driven} of them.")
    if status.state == CampaignState.RUNNING:
        remaining = time_left(status, row.spec.get("workers") or 1)
        if remaining:
            lines.append(f"{remaining[0].upper()}{remaining[1:]}.")
    if status.hits and totals:
        per_compound = ""
        if status.distinct_hits != status.hits:
            per_compound = f", {_each(totals, status.distinct_hits)} a distinct compound"
        lines.append(f"{_each(totals, status.hits)} a hit{per_compound}.")
    lines += _wasted(spending)
    lines += [f"{clause}." for clause in _shares(spending)]
    if status.reused:
        lines.append(f"{many(status.reused, 'answer')} reused at no cost.")
    return QuestionAnswered("What did it cost?", ", ".join(amounts[:MAX_AMOUNTS_IN_FIGURE]) or "nothing", lines)


MAX_AMOUNTS_IN_FIGURE = 2  # resources in the answer itself; the others are told below it


def _each(totals: Mapping[str, float], n: int) -> str:
    """Returns what each of n hits cost, of the most telling resources."""
    first = list(totals.items())[:MAX_AMOUNTS_IN_FIGURE]
    return " and ".join(amount(resource, total / n) for resource, total in first)


def _wasted(spending: Spending) -> list[str]:
    """Returns a sentence on what was spent on jobs without a usable answer; none if nothing was."""
    clauses = []
    for resource in spending.resources:
        wasted = spending.wasted(resource)
        if wasted:
            share = f"{wasted / spending.total(resource):.0%}"
            clauses.append(f"{share} of the {resource_words(resource)}")
    if not clauses:
        return []
    verb = "was" if len(clauses) == 1 else "were"
    return [f"{_listed(clauses)} {verb} wasted on jobs without an answer, or with an inconclusive one."]


def _shares(spending: Spending) -> list[str]:
    """Returns, for each rung that took the greatest share of a resource, which shares it took."""
    shares: dict[str, list[str]] = {}
    for resource in spending.resources:
        rung = spending.dearest(resource)
        share = spending.cost(rung, resource) / spending.total(resource)
        shares.setdefault(rung, []).append(f"{share:.0%} of the {resource_words(resource)}")
    return [f"{rung} took {_listed(of_rung)}" for rung, of_rung in shares.items()]


def _listed(parts: Sequence[str]) -> str:
    """Returns the parts as `a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def _thrown_away(
    rejections: Sequence[Rejection], unread: Sequence[Rejection], status: CampaignCounts
) -> QuestionAnswered:
    n = sum(rejection.n for rejection in rejections)
    lines = []
    most_frequent_first = sorted(rejections, key=lambda rejection: -rejection.n)
    for rejection in most_frequent_first[:MAX_REASONS]:
        reason = f"{rejection.what} {rejection.reason}" if rejection.what else rejection.reason
        lines.append(f"{rejection.n} at {rejection.where}: {reason}.")
    n_duplicates = sum(rejection.n for rejection in unread if rejection.verdict == words("duplicate"))
    n_filtered = sum(rejection.n for rejection in unread if rejection.verdict == words("filtered"))
    n_unread = sum(rejection.n for rejection in unread) - n_duplicates - n_filtered
    if n_unread:
        lines.append(f"{many(n_unread, 'proposal')} could not be read or taken.")
    if n_duplicates:
        lines.append(f"{many(n_duplicates, 'duplicate')}.")
    if n_filtered:
        lines.append(f"{many(n_filtered, 'proposal')} filtered by the law, and kept with the chance that it said.")
    if status.filter is not None:
        text = let_through_sentence(status.filter, status.hits_defined)
        lines.append(f"{text[0].upper()}{text[1:]}.")
    if not n:
        lines.insert(0, "No candidate has been dropped.")
    return QuestionAnswered("What was thrown away?", many(n, "candidate") if n else "nothing", lines)
