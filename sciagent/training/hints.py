"""Hints from a verdict: what a teacher may know of an answer that failed, without the answer itself.

The hint is for self-distillation: the model with the hint teaches the model without it. A hint that states the answer
or its value would only teach to copy it, so such hints are never written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum

from sciagent.campaign.core.build import Built
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.candidates import MOLECULE_KIND
from sciagent.domain.chosen_units import shown_quantity
from sciagent.domain.objectives import Window
from sciagent.domain.outcomes import Reason
from sciagent.errors import InvalidCandidateError
from sciagent.training.reading import AnsweredTurn
from sciagent.training.verdicts import CandidateVerdict

CLOSE = 0.02  # a number this near to a value, as a share of it, gives the value away
SIDES = {Reason.ABOVE_WINDOW: ("above", "lower"), Reason.BELOW_WINDOW: ("below", "higher")}
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w)")


class NoHint(StrEnum):
    """The reasons for which an answer has no hint."""

    NOTHING_PROPOSED = "the answer proposed nothing"
    NOTHING_KNOWN = "the verdict names no property and no reason"
    LEAK = "the hint would give the answer away"


def hint_of(built: Built, turn: AnsweredTurn, verdict: CandidateVerdict | None) -> str | NoHint:
    """Returns the hint for a turn that failed. verdict: on its best candidate; None if it had no new one."""
    if not turn.proposals:
        return NoHint.NOTHING_PROPOSED
    hint = _of_refusal(turn, built.subject) if verdict is None else _of_verdict(built, verdict)
    if hint is None:
        return NoHint.NOTHING_KNOWN
    texts = [proposal.text for proposal in turn.proposals]
    numbers: list[float] = []
    if verdict is not None:
        texts += [verdict.text, verdict.key, verdict.key[:8], *filter(None, [verdict.inchikey])]
        for name, quantity in verdict.values.items():
            numbers += [quantity.value, shown_quantity(name, quantity, built.row.units).value]
    return NoHint.LEAK if leaks(hint, texts, numbers, built.subject) else hint


def leaks(hint: str, texts: Iterable[str], numbers: Iterable[float], subject: Subject | None = None) -> bool:
    """Returns whether a hint states the answer, in any spelling, or one of its values.

    texts: notations of the answer's candidates. numbers: their values, in every unit that they are shown in. subject:
    None means molecules.
    """
    subject = subject or subject_of(MOLECULE_KIND)
    answers = [text for text in texts if text]
    words = [stripped for word in hint.split() if (stripped := word.strip(".,;:!?\"'`"))]
    if any(text in words or (len(text) >= 4 and text in hint) for text in answers):
        return True
    if _keys(answers, subject) & _keys(words, subject):
        return True
    stated = [float(number) for number in _NUMBER.findall(hint)]
    return any(abs(one - value) <= CLOSE * abs(value) for one in stated for value in numbers)


def _keys(texts: Iterable[str], subject: Subject) -> set[str]:
    """Returns the keys of the texts that are candidates."""
    found = set()
    for text in texts:
        with suppress(InvalidCandidateError):
            found.add(subject.read(text).key)
    return found


def _of_refusal(turn: AnsweredTurn, subject: Subject) -> str | None:
    """Returns the hint for a turn whose proposals were all known or refused."""
    first = turn.proposals[0]
    if first.status == "duplicate":
        return (
            f"The {subject.words.one} that comes to mind first is known to the campaign already. Propose another one."
        )
    if first.reason is None:
        return None
    why = first.reason.replace("_", " ")
    return f"The answer that comes to mind first is refused: {why}. Write one that is not."


def _of_verdict(built: Built, verdict: CandidateVerdict) -> str | None:
    """Returns the hint by the first limit that the candidate missed, else by the reason of the verdict."""
    rung = built.rungs[min(verdict.place.position, len(built.rungs) - 1)]
    is_last = rung.rules.is_terminal
    limits: dict[str, Window | None] = {**rung.rules.gate}
    if is_last:
        limits |= {objective.property: objective.accept for objective in built.objectives}
    for name, window in limits.items():
        quantity = verdict.values.get(name)
        side = SIDES.get(missed) if window and quantity and (missed := window.misses(quantity)) else None
        if side is not None:
            where = "was verified" if is_last else f"missed a gate at the rung {rung.spec.rung}"
            return (
                f"An answer like the one that comes to mind first {where}: its {name} came out {side[0]} what is "
                f"wanted. Aim for a {side[1]} {name}."
            )
    if verdict.place.reason is None:
        return None
    why = verdict.place.reason.replace("_", " ")
    return f"The rung {rung.spec.rung} threw out an answer like the one that comes to mind first: {why}."
