"""Whether the best candidates can be made: what the rungs found of their synthesis, and which the files named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sciagent.domain.properties import PURCHASABLE, SA_SCORE, SYNTHESIS_STEPS
from sciagent.report.parts.candidates import Card
from sciagent.report.parts.wording import many


class Synthesis(NamedTuple):
    """What is known of the synthesis of the best candidates."""

    figure: str
    """The answer in a few words; empty for a part that only adds sentences."""
    lines: list[str]
    """The sentences below it."""


def synthesis(best: Sequence[Card]) -> Synthesis:
    """Returns what is known of the hits among the best; of all the best if none is a hit."""
    cards = [card for card in best if card.candidate.hit] or list(best)
    of = many(len(cards), "hit" if cards and cards[0].candidate.hit else "candidate")
    values = [_values(card) for card in cards]
    parts = [_scores(values, of), _routes(values, of), _bought(values), _seeds(cards, of)]
    lines = [line for _, own in parts for line in own]
    figures = [figure for figure, _ in parts if figure]
    if not figures:
        lines.append("No rung looked at synthesis; molecule.synthesis does.")
    return Synthesis(figures[-1] if figures else "not asked", lines)


def _scores(values: Sequence[Mapping[str, float]], of: str) -> Synthesis:
    scores = [found[SA_SCORE.name] for found in values if SA_SCORE.name in found]
    if not scores:
        return Synthesis("", [])
    low, high = f"{min(scores):.1f}", f"{max(scores):.1f}"
    line = f"Of {of} shown below; 1 is easy, 10 is hard. It is a heuristic of the structure, not a route."
    return Synthesis(f"SA score {low}" + ("" if low == high else f" to {high}"), [line])


def _routes(values: Sequence[Mapping[str, float]], of: str) -> Synthesis:
    steps = [int(found[SYNTHESIS_STEPS.name]) for found in values if SYNTHESIS_STEPS.name in found]
    if not steps:
        return Synthesis("", [])
    return Synthesis(f"{len(steps)} of {of} with a route", [f"The shortest route has {many(min(steps), 'step')}."])


def _bought(values: Sequence[Mapping[str, float]]) -> Synthesis:
    bought = [found[PURCHASABLE.name] > 0 for found in values if PURCHASABLE.name in found]
    n = sum(bought)
    line = f"{n or 'None'} of {len(bought)} {'is' if n < 2 else 'are'} in the file of what can be bought."
    return Synthesis("", [line] if bought else [])


def _seeds(cards: Sequence[Card], of: str) -> Synthesis:
    n = sum(card.candidate.in_seeds for card in cards)
    return Synthesis("", [f"{n} of {of} {'was' if n == 1 else 'were'} in your own file."] if n else [])


def _values(card: Card) -> dict[str, float]:
    """Returns {property: value} of the card's answers; that of the highest rung counts."""
    return {measured.property: measured.quantity.value for answer in card.answers for measured in answer.measured}
