"""Goals in hindsight: a verified candidate that missed its goal is a hit of another one.

Source: Andrychowicz et al., NeurIPS 2017, arXiv 1707.01495. The other goal is the old one, moved by whole widths of its
window, so that it looks like a goal that somebody states and does not tell where in the window the value lies.

Reads from the evidence up to a watermark how the candidates of a turn turned out.

Hints from a verdict: what a teacher may know of an answer that failed, without the answer itself.

The hint is for self-distillation: the model with the hint teaches the model without it. A hint that states the answer
or its value would only teach to copy it, so such hints are never written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from sqlalchemy.engine import Connection

from sciagent.agent.messages import Message
from sciagent.campaign.core.build import Built
from sciagent.campaign.core.judge import Place, place
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.candidates import MOLECULE_KIND
from sciagent.domain.chosen_units import show_window, shown_quantity
from sciagent.domain.evidence import Measured, at_highest_rung
from sciagent.domain.objectives import Objective, Window
from sciagent.domain.outcomes import Reason
from sciagent.domain.properties import JUDGED_SCORE
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.errors import InvalidCandidateError
from sciagent.rewards.contract import CandidateState, Settlement
from sciagent.rewards.states import answers_as_of, states
from sciagent.store.results import candidates
from sciagent.training.reading import AnsweredTurn


@dataclass(frozen=True)
class CandidateVerdict:
    """A candidate with what is known of it."""

    key: str
    text: str
    """Canonical SMILES of a molecule, name of a crystal."""
    inchikey: str | None
    scaffold: str
    """Murcko scaffold; empty for a molecule without rings, the key for a crystal."""
    state: CandidateState
    place: Place
    """Its place on the ladder, with the reason."""
    measured: Mapping[str, Measured]
    """By property, the value of the highest rung that measured it, in canonical units."""

    @property
    def values(self) -> Mapping[str, Quantity]:
        """The measured values by property, without their levels."""
        return {name: measured.quantity for name, measured in self.measured.items()}

    @property
    def judged(self) -> Measured | None:
        """The score that a judge gave by a rubric; None if no rung judged."""
        return self.measured.get(JUDGED_SCORE.name)

    @property
    def payoff(self) -> float | None:
        """In hits or utility; 0 if it was thrown out, None if nothing is decided."""
        match self.state.settlement:
            case Settlement.ANSWERED:
                return self.state.payoff
            case Settlement.REFUSED:
                return 0.0
        return None


def verdicts(
    built: Built, connection: Connection, candidate_ids: Sequence[int], as_of: int
) -> dict[int, CandidateVerdict]:
    """Returns the verdicts by candidate id, as of a watermark."""
    if not candidate_ids:
        return {}
    known = states(built, connection, candidate_ids, as_of)
    answers = answers_as_of(built, connection, candidate_ids, as_of)
    found = {}
    for id_, candidate in candidates.load(connection, candidate_ids).items():
        answered = [answer for answer in answers[id_] if answer.measured]
        found[id_] = CandidateVerdict(
            candidate.key,
            candidate.text,
            candidate.inchikey,
            built.subject.features(built.subject.notation(candidate)).family,
            known[id_],
            place(built.rules, built.objectives, answers[id_]),
            {name: measured for name, (_, measured) in at_highest_rung(answered).items()},
        )
    return found


_OF_THE_OLD_GOAL = (
    (re.compile(r"(?m)^Hits so far: \d+\.\n?"), ""),
    (re.compile(r"(?m)^(#\d+ \S+): score \d\.\d\d; "), r"\1: "),  # the digest
    (re.compile(r"(?m)^(#\d+ \S+): score \d\.\d\d$"), r"\1"),
    (re.compile(r", \d+ hits?(?=[,;.])"), ""),
    (re.compile(r", best score \d\.\d\d"), ""),
    (re.compile(r"(?m)^((?:new|duplicate) #\d+: .*?); score \d\.\d+"), r"\1"),  # what an inline rung answered
    (re.compile(r"(?m)^(#\d+) \d\.\d{3} "), r"\1 "),  # the tool `best`
    (re.compile(r"(?m)^(\S+) \d\.\d{3} (?=[a-z])"), r"\1 "),  # the tool `history`
    (re.compile(r" \((?:above|below)_window\)"), ""),
)
"""Texts in prompts that judge molecules by the old goal, each with its replacement."""


class NotRelabelled(StrEnum):
    """The reasons for which a turn gets no other goal."""

    NO_VALUE = "an objective has no plain value"
    NO_LIMIT = "no limit was missed by the values"
    NOT_STATED = "the prompt does not state the goal in sciagent's words"
    OLD_GOAL = "the prompt or the answer names the old goal"


def relabelled_prompt(
    built: Built, turn: AnsweredTurn, verdict: CandidateVerdict
) -> tuple[Message, ...] | NotRelabelled:
    """Returns the prompt of a turn with the goal that its candidate achieved; scores under the old goal are removed."""
    windows = achieved(built.objectives, verdict.values)
    if isinstance(windows, NotRelabelled):
        return windows
    old = {o.property: o.accept for o in built.objectives if o.property in windows and o.accept is not None}
    units = built.row.units
    swaps = {show_window(name, old[name], units): show_window(name, windows[name], units) for name in windows}
    if not all(any(f"Wanted: {text}." in message.content for message in turn.prompt) for text in swaps):
        return NotRelabelled.NOT_STATED
    described = built.spec.description.strip() if built.spec.description else ""
    prompt = tuple(_rewritten(message, swaps, described) for message in turn.prompt)
    return NotRelabelled.OLD_GOAL if _names_the_goal(prompt, turn.answer, list(swaps)) else prompt


def _names_the_goal(prompt: Sequence[Message], answer: Message, goal: Sequence[str]) -> bool:
    """Returns whether a message states a part of the goal, or the answer one of its limits."""
    texts = [_text(message) for message in (*prompt, answer)]
    if any(part in text for part in goal for text in texts):
        return True
    return bool(_limits(_text(answer)) & set[str]().union(*map(_limits, goal)))


def achieved(objectives: Sequence[Objective], values: Mapping[str, Quantity]) -> dict[str, Window] | NotRelabelled:
    """Returns, for each objective that the values missed, the moved window that they meet, in canonical units."""
    windows: dict[str, Window] = {}
    for objective in objectives:
        quantity = values.get(objective.property)
        if quantity is None or quantity.censoring is not Censoring.NONE or not math.isfinite(quantity.value):
            return NotRelabelled.NO_VALUE
        if objective.accept is not None and objective.accept.misses(quantity) is not None:
            windows[objective.property] = _moved(objective, objective.accept, quantity.value)
    return windows or NotRelabelled.NO_LIMIT


def _moved(objective: Objective, window: Window, value: float) -> Window:
    """Returns the window, moved by the smallest whole number of steps that brings the value inside.

    A step is the width of a window, or the scale of a single limit.
    """
    low = window.low
    high = window.high
    step = high - low if low is not None and high is not None and high > low else objective.scale
    distance = window.distance(value)
    steps = math.ceil(distance / step) * (1 if high is not None and value > high else -1)

    def moved(limit: float | None) -> float | None:
        return None if limit is None else float(f"{limit + steps * step:.12g}")

    if low is not None and high is not None and high == low:
        return Window(value - step, value + step)
    return Window(moved(low), moved(high))


def _rewritten(message: Message, swaps: Mapping[str, str], described: str) -> Message:
    """Returns a message under the new goal. described: a description of the campaign, which may name the old one."""
    text = message.content
    if described:
        text = text.replace(described, "").lstrip("\n")
    for old, new in swaps.items():
        text = text.replace(f"Wanted: {old}.", f"Wanted: {new}.")
    if message.role != "assistant":
        for pattern, instead in _OF_THE_OLD_GOAL:
            text = pattern.sub(instead, text)
    return replace(message, content=text)


def _text(message: Message) -> str:
    return message.content + message.thinking + "".join(call.arguments for call in message.calls)


def _limits(text: str) -> set[str]:
    """Returns the numbers in a text that are not parts of words, as written."""
    return set(re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])", text)) - {"0", "1"}


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
