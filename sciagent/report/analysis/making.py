"""Whether the best candidates can be made: what the rungs found of their synthesis, and which the files named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sciagent.domain.properties import PURCHASABLE, SA_SCORE, SYNTHESIS_STEPS
from sciagent.report.parts.candidates import Card
from sciagent.report.parts.wording import many


class Synthesis(NamedTuple):
    """What is known of the synthesis of the best candidates."""

    figure: str
    """The answer in a few words."""
    lines: list[str]
    """The sentences below it."""


def synthesis(best: Sequence[Card]) -> Synthesis:
    """Returns what is known of the hits among the best; of all the best if none is a hit."""
    cards = [card for card in best if card.candidate.hit] or list(best)
    of = many(len(cards), "hit" if cards and cards[0].candidate.hit else "candidate")
    values = [_values(card) for card in cards]
    lines, figure = [], "not asked"
    if scores := [found[SA_SCORE.name] for found in values if SA_SCORE.name in found]:
        low, high = min(scores), max(scores)
        figure = f"SA score {low:.1f}" + ("" if f"{low:.1f}" == f"{high:.1f}" else f" to {high:.1f}")
        lines.append(f"Of {of} shown below; 1 is easy, 10 is hard. It is a heuristic of the structure, not a route.")
    if steps := [int(found[SYNTHESIS_STEPS.name]) for found in values if SYNTHESIS_STEPS.name in found]:
        figure = f"{len(steps)} of {of} with a route"
        lines.append(f"The shortest route has {many(min(steps), 'step')}.")
    if bought := [found[PURCHASABLE.name] for found in values if PURCHASABLE.name in found]:
        n = sum(value > 0 for value in bought)
        lines.append(f"{n or 'None'} of {len(bought)} {'is' if n < 2 else 'are'} in the file of what can be bought.")
    if seeds := sum(card.candidate.in_seeds for card in cards):
        lines.append(f"{seeds} of {of} {'was' if seeds == 1 else 'were'} in your own file.")
    if figure == "not asked":
        lines.append("No rung looked at synthesis; molecule.synthesis does.")
    return Synthesis(figure, lines)


def _values(card: Card) -> dict[str, float]:
    """Returns {property: value} of the card's answers; that of the highest rung counts."""
    return {measured.property: measured.quantity.value for answer in card.answers for measured in answer.measured}
