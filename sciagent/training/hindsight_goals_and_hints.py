"""Lessons from failed answers in hindsight: verdicts on their candidates, other goals, and hints.

`verdicts` reads the results of candidates from the evidence up to a watermark.

`relabelled_prompt` states another goal, of which a verified candidate that missed its goal is a hit. The other goal is
the old one, moved by whole widths of its window. It looks like a goal that a person states, and does not tell where in
the window the value lies. Source: Andrychowicz et al., NeurIPS 2017, arXiv 1707.01495.

`hint_of` writes a hint for self-distillation: the model with the hint teaches the model without it. A hint that states
the answer or its value would only teach to copy it, so such hints are never written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from sqlalchemy.engine import Connection

from sciagent.agent.messages_sampling_and_policy_client import Message
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.record_results_and_place import experimental_values_of
from sciagent.campaign.core.verdicts_and_places import NO_VALUES, Place, place
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND
from sciagent.domain.display_units import quantity_in_chosen_unit, window_text
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured, at_highest_rung
from sciagent.domain.objectives import Objective, Window
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import JUDGED_SCORE
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.worth import WORTH_PATTERN
from sciagent.errors import InvalidCandidateError
from sciagent.rewards.candidate_states_lots_and_episode_starts import answers_as_of, states
from sciagent.rewards.reward_term_contract import CandidateState, Settlement
from sciagent.store.results import candidates
from sciagent.training.read_turns import AnsweredTurn


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
        """The candidate's payoff, in hits or utility; 0 if the ladder threw it out, None while it is undecided."""
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
    candidate_states = states(built, connection, candidate_ids, as_of)
    answers = answers_as_of(built, connection, candidate_ids, as_of)
    experimental = experimental_values_of(connection, built, candidate_ids, as_of)
    verdicts_by_id = {}
    for id_, candidate in candidates.load(connection, candidate_ids).items():
        measured_answers = [answer for answer in answers[id_] if answer.measured]
        verdicts_by_id[id_] = CandidateVerdict(
            key=candidate.key,
            text=candidate.text,
            inchikey=candidate.inchikey,
            scaffold=built.subject.features(built.subject.notation(candidate)).family,
            state=candidate_states[id_],
            place=place(built.rules, built.objectives, answers[id_], experimental=experimental.get(id_, NO_VALUES)),
            measured={name: measured for name, (_, measured) in at_highest_rung(measured_answers).items()},
        )
    return verdicts_by_id


_OLD_GOAL_TEXTS = (
    (re.compile(r"(?m)^Hits so far: \d+(?:, [^\n]*)?\.\n?"), ""),
    (re.compile(rf"(?m)^(#\d+ \S+): {WORTH_PATTERN}; "), r"\1: "),  # the digest
    (re.compile(rf"(?m)^(#\d+ \S+): {WORTH_PATTERN}$"), r"\1"),
    (re.compile(r", \d+ hits?(?=[,;.])"), ""),
    (re.compile(r", best (?:chance \d+ %|expected utility \d\.\d\d)"), ""),
    (re.compile(rf"(?m)^((?:new|duplicate) #\d+: .*?); {WORTH_PATTERN}"), r"\1"),  # what an inline rung answered
    (re.compile(rf"(?m)^(#\d+ .* \[\w{{8}}\]) {WORTH_PATTERN};?"), r"\1"),  # the tool `best`
    (re.compile(rf"(?m)^(\S+ \S+) \({WORTH_PATTERN}\)"), r"\1"),  # the tool `history`
    (re.compile(r" \((?:above|below)_window\)"), ""),
    (re.compile(r"(?m)^(not verified: .*?); the law gives it a chance of [^;\n]*"), r"\1"),  # a proposer's filter
)
"""Patterns of texts in prompts that judge molecules by the old goal, each with what replaces it."""


class NotRelabelled(StrEnum):
    """The reasons for which a turn gets no other goal."""

    NO_VALUE = "an objective has no plain value"
    NO_LIMIT = "no limit was missed by the values"
    NOT_STATED = "the prompt does not state the goal in sciagent's words"
    OLD_GOAL = "the prompt or the answer names the old goal"


def relabelled_prompt(
    built: Built, turn: AnsweredTurn, verdict: CandidateVerdict
) -> tuple[Message, ...] | NotRelabelled:
    """Returns the prompt of a turn with the goal that its candidate achieved, without scores under the old goal; or why
    there is none."""
    new_windows = achieved(built.objectives, verdict.values)
    if isinstance(new_windows, NotRelabelled):
        return new_windows
    units = built.row.units
    new_texts: dict[str, str] = {}  # by the text of the old window
    for objective in built.objectives:
        name = objective.property
        if name in new_windows and objective.accept is not None:
            old_text = window_text(name, objective.accept, units)
            new_texts[old_text] = window_text(name, new_windows[name], units)
    for old_text in new_texts:
        if not any(f"Wanted: {old_text}." in message.content for message in turn.prompt):
            return NotRelabelled.NOT_STATED
    description = built.spec.description.strip() if built.spec.description else ""
    prompt = tuple(_rewritten(message, new_texts, description) for message in turn.prompt)
    if _names_goal(prompt, turn.answer, list(new_texts)):
        return NotRelabelled.OLD_GOAL
    return prompt


def _names_goal(prompt: Sequence[Message], answer: Message, goal: Sequence[str]) -> bool:
    """Returns whether a message states a part of the goal, or the answer states one of its limits."""
    texts = [_text(message) for message in (*prompt, answer)]
    numbers_of_answer = _numbers(_text(answer))
    for part in goal:
        is_stated = any(part in text for text in texts)
        if is_stated or numbers_of_answer & _numbers(part):
            return True
    return False


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
    step = objective.scale
    if low is not None and high is not None and high > low:
        step = high - low
    n_steps = math.ceil(window.distance(value) / step)
    is_above = high is not None and value > high
    shift = n_steps * step if is_above else -n_steps * step

    def moved(limit: float | None) -> float | None:
        return None if limit is None else float(f"{limit + shift:.12g}")

    if low is not None and high is not None and high == low:  # a window without width: around the value
        return Window(value - step, value + step)
    return Window(moved(low), moved(high))


def _rewritten(message: Message, new_texts: Mapping[str, str], description: str) -> Message:
    """Returns a message under the new goal.

    new_texts: windows of the new goal, by the text of the old window. description: of the campaign; it is removed,
    since it may name the old goal.
    """
    text = message.content
    if description:
        text = text.replace(description, "").lstrip("\n")
    for old_text, new_text in new_texts.items():
        text = text.replace(f"Wanted: {old_text}.", f"Wanted: {new_text}.")
    if message.role != "assistant":
        for pattern, replacement in _OLD_GOAL_TEXTS:
            text = pattern.sub(replacement, text)
    return replace(message, content=text)


def _text(message: Message) -> str:
    """Returns all texts of a message: content, thinking, and the arguments of its calls."""
    return message.content + message.thinking + "".join(call.arguments for call in message.calls)


def _numbers(text: str) -> set[str]:
    """Returns the numbers in a text that are not parts of words, as written, without 0 and 1, which are common."""
    return set(re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])", text)) - {"0", "1"}


CLOSE_SHARE = 0.02  # a number that differs from a value by less than this share of it gives the value away
SIDE_AND_AIM = {Reason.ABOVE_WINDOW: ("above", "lower"), Reason.BELOW_WINDOW: ("below", "higher")}
MIN_PART_LENGTH = 4  # characters of a notation that is sought inside words, too
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w)")


class NoHint(StrEnum):
    """The reasons for which an answer has no hint."""

    NOTHING_PROPOSED = "the answer proposed nothing"
    NOTHING_KNOWN = "the verdict names no property and no reason"
    LEAK = "the hint would give the answer away"


def hint_of(built: Built, turn: AnsweredTurn, verdict: CandidateVerdict | None) -> str | NoHint:
    """Returns the hint for a turn that failed, or why there is none. verdict: on the turn's best candidate; None if the
    turn had no new candidate."""
    if not turn.proposals:
        return NoHint.NOTHING_PROPOSED
    if verdict is None:
        hint = _hint_by_refusal(turn, built.subject)
    else:
        hint = _hint_by_verdict(built, verdict)
    if hint is None:
        return NoHint.NOTHING_KNOWN
    texts = [proposal.text for proposal in turn.proposals]
    numbers: list[float] = []
    if verdict is not None:
        texts += [verdict.text, verdict.key, verdict.key[:8]]
        if verdict.inchikey:
            texts.append(verdict.inchikey)
        for name, quantity in verdict.values.items():
            numbers += [quantity.value, quantity_in_chosen_unit(name, quantity, built.row.units).value]
    if leaks(hint, texts, numbers, built.subject):
        return NoHint.LEAK
    return hint


def leaks(hint: str, texts: Iterable[str], numbers: Iterable[float], subject: Subject | None = None) -> bool:
    """Returns whether a hint states the answer, in any spelling, or one of its values.

    texts: notations of the answer's candidates. numbers: their values, in every unit that they are shown in. subject:
    None means molecules.
    """
    subject = subject or subject_of(MOLECULE_KIND)
    answers = [text for text in texts if text]
    stripped_words = [word.strip(".,;:!?\"'`") for word in hint.split()]
    words = [word for word in stripped_words if word]
    for text in answers:
        if text in words or (len(text) >= MIN_PART_LENGTH and text in hint):
            return True
    # a word may be another spelling of a candidate
    if _candidate_keys(answers, subject) & _candidate_keys(words, subject):
        return True
    hint_numbers = [float(number) for number in _NUMBER.findall(hint)]

    def is_given_away(value: float) -> bool:
        return any(abs(number - value) <= CLOSE_SHARE * abs(value) for number in hint_numbers)

    return any(is_given_away(value) for value in numbers)


def _candidate_keys(texts: Iterable[str], subject: Subject) -> set[str]:
    """Returns the keys of the texts that are candidates."""
    keys = set()
    for text in texts:
        with suppress(InvalidCandidateError):
            keys.add(subject.read(text).key)
    return keys


def _hint_by_refusal(turn: AnsweredTurn, subject: Subject) -> str | None:
    """Returns the hint for a turn whose proposals were all known or refused; None if no reason is known."""
    first_proposal = turn.proposals[0]
    if first_proposal.status == "duplicate":
        return (
            f"The {subject.words.one} that comes to mind first is known to the campaign already. Propose another one."
        )
    if first_proposal.reason is None:
        return None
    why = first_proposal.reason.replace("_", " ")
    return f"The answer that comes to mind first is refused: {why}. Write one that is not."


def _hint_by_verdict(built: Built, verdict: CandidateVerdict) -> str | None:
    """Returns the hint by the first limit that the candidate missed, else by the reason of the verdict; None without
    either."""
    rung = built.rungs[min(verdict.place.position, len(built.rungs) - 1)]  # the last one if it is past all rungs
    is_last = rung.rules.is_terminal
    windows: dict[str, Window | None] = {**rung.rules.gate}
    if is_last:
        windows |= {objective.property: objective.accept for objective in built.objectives}
    for name, window in windows.items():
        quantity = verdict.values.get(name)
        if not window or not quantity:
            continue
        missed = window.misses(quantity)
        if missed in SIDE_AND_AIM:
            side, aim = SIDE_AND_AIM[missed]
            event = "was verified" if is_last else f"missed a gate at the rung {rung.spec.rung}"
            return (
                f"An answer like the one that comes to mind first {event}: its {name} came out {side} what is "
                f"wanted. Aim for a {aim} {name}."
            )
    if verdict.place.reason is None:
        return None
    why = verdict.place.reason.replace("_", " ")
    return f"The rung {rung.spec.rung} threw out an answer like the one that comes to mind first: {why}."
