"""Goals in hindsight: a verified candidate that missed its goal is a hit of another one.

Source: Andrychowicz et al., NeurIPS 2017, arXiv 1707.01495. The other goal is the old one, moved by whole widths of its
window, so that it looks like a goal that somebody states and does not tell where in the window the value lies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from sciagent.agent.messages import Message
from sciagent.campaign.core.build import Built
from sciagent.domain.chosen_units import show_window
from sciagent.domain.objectives import Objective, Window
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.training.reading import AnsweredTurn
from sciagent.training.verdicts import CandidateVerdict

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
    low, high = window.low, window.high
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
