"""The report's answer to "Can it be made?", from the rungs' values on synthesis and from the user's own file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sciagent.domain.properties import PURCHASABLE, SA_SCORE, SYNTHESIS_STEPS, Property
from sciagent.report.parts.candidates import Card
from sciagent.report.parts.wording import many


class Synthesis(NamedTuple):
    """The answer."""

    figure: str
    """The answer in a few words."""
    lines: list[str]
    """The sentences below it."""


def synthesis(best: Sequence[Card]) -> Synthesis:
    """Returns the answer for the hits among the best candidates, or for all of them if none is a hit."""
    cards = [card for card in best if card.candidate.hit] or list(best)
    of = many(len(cards), "hit" if cards and cards[0].candidate.hit else "candidate")
    parts = list(_parts(cards, of))
    figures, lines = [figure for figure, _ in parts if figure], [line for _, line in parts]
    if not figures:
        lines.append("No rung has assessed the synthesis; a rung with molecule.synthesis does.")
    return Synthesis(figures[-1] if figures else "not asked", lines)


def _parts(cards: Sequence[Card], of: str) -> Iterator[tuple[str, str]]:
    """Yields figures and sentences; the last figure counts, and a part without one has an empty text. of: the cards."""
    if scores := _values(cards, SA_SCORE):
        ends = dict.fromkeys(f"{end:.1f}" for end in (min(scores), max(scores)))
        line = f"Of {of} shown below; 1 is easy, 10 is hard. It is a heuristic of the structure, not a route."
        yield f"SA score {' to '.join(ends)}", line
    if steps := _values(cards, SYNTHESIS_STEPS):
        yield f"{len(steps)} of {of} with a route", f"The shortest route has {many(int(min(steps)), 'step')}."
    if available := _values(cards, PURCHASABLE):
        n = sum(value > 0 for value in available)
        verb = "is" if n < 2 else "are"
        yield "", f"{n or 'None'} of {len(available)} {verb} in the file of what can be bought."
    if n := sum(card.candidate.in_seeds for card in cards):
        yield "", f"{n} of {of} {'was' if n == 1 else 'were'} in your own file."


def _values(cards: Sequence[Card], prop: Property) -> list[float]:
    """Returns the values of a property, each from the highest rung that measured it; cards without one are left out."""
    measured = ({m.property: m.quantity.value for answer in card.answers for m in answer.measured} for card in cards)
    return [values[prop.name] for values in measured if prop.name in values]
