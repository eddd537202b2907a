"""Finds what a model names: candidates by notation, number or the first digits of the key, and predictions of their
properties.

A number is given to each candidate that an episode lists or proposes, in that order. It names the same candidate until
the episode ends, whatever is found later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, Field

from sciagent.agent.tools.tool_contract_and_calls import STRICT, AgentBench, CallError
from sciagent.chemistry.subjects.base import Subject, Words
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.safe_text_and_durations import short, shown
from sciagent.errors import InvalidCandidateError, did_you_mean

MAX_LOOKED_UP = 200  # number of best and of latest candidates in which a key is looked up

MAX_NOTATION = 400

_NUMBER = re.compile(r"#(\d{1,6})")
_KEY = re.compile(r"[0-9a-f]{8,64}")


def reference_type(words: Words) -> Any:
    """Returns the type of an argument that names a candidate."""
    about = (
        f'a {words.notation}, the number by which a {words.one} was shown, such as "#1", or 8 digits or more of a key'
    )
    return Annotated[str, Field(min_length=1, max_length=MAX_NOTATION, description=about)]


class Numbered(Protocol):
    """The part of a tool's context that knows candidates."""

    @property
    def bench(self) -> AgentBench: ...
    @property
    def subject(self) -> Subject: ...
    @property
    def numbered(self) -> list[str]: ...


def plain_notation(text: str, subject: Subject) -> str:
    """Returns the text if it may be a notation. Raises CallError."""
    fault = subject.fault_of(text)
    if fault:
        raise CallError(fault)
    return text


def find(reference: str, run: Numbered) -> Candidate:
    """Returns the candidate that the reference names. Raises CallError."""
    number = _NUMBER.fullmatch(reference)
    if number:
        return _read(_of_number(int(number[1]), run), run.subject)
    if _KEY.fullmatch(reference):
        text = _by_key(reference, run.bench)
        if text is not None:
            return _read(text, run.subject)
    if reference.startswith("#"):
        one = run.subject.words.one
        raise CallError(f'{shown(reference)} is no number; write "#1" for the first {one} shown, "#2" for the next')
    return _read(plain_notation(reference, run.subject), run.subject)


def number_of(text: str, numbered: list[str]) -> int:
    """Returns the number of a candidate, from 1; one that has none gets the next. text: its notation."""
    if text not in numbered:
        numbered.append(text)
    return numbered.index(text) + 1


def _of_number(number: int, run: Numbered) -> str:
    """Returns the notation of a numbered candidate. Raises CallError."""
    numbered: Sequence[str] = run.numbered
    if not 1 <= number <= len(numbered):
        nothing = f"nothing has a number yet; give a {run.subject.words.notation}"
        have = f"the last so far is #{len(numbered)}" if numbered else nothing
        raise CallError(f"there is no #{number}; {have}")
    return numbered[number - 1]


def _by_key(digits: str, bench: AgentBench) -> str | None:
    """Returns the notation of the candidate whose key begins with these digits; None if there is none: the text may be
    a notation, such as `c1ccccc1` for benzene. Raises CallError for several candidates."""
    matches = {row.key: row.text for row in bench.best(MAX_LOOKED_UP) if row.key.startswith(digits)}
    for past in bench.recent(MAX_LOOKED_UP):
        if past["key"] and past["key"].startswith(digits):
            matches.setdefault(past["key"], past["text"])
    if len(matches) > 1:
        keys = ", ".join(sorted(matches)[:3])
        raise CallError(f"{len(matches)} keys begin with {digits}; write more digits of one: {keys}")
    notations = list(matches.values())
    return notations[0] if notations else None


def _read(text: str, subject: Subject) -> Candidate:
    """Returns the candidate of a notation. Raises CallError."""
    words = subject.words
    try:
        return subject.read(text)
    except InvalidCandidateError as error:
        if _KEY.fullmatch(text):
            raise CallError(
                f"no key among the best and the latest {MAX_LOOKED_UP} begins with {text}; "
                f"give the {words.one}'s {words.notation}"
            ) from None
        raise CallError(
            f"{shown(text)} is no {words.one} ({error.reason}: {short(error.detail, 160)}); "
            f'write a valid {words.notation} of one {words.one}, or "#1" for the first one shown'
        ) from None


MAX_PREDICTED = 1e9  # largest number that a model may write; no property comes near it in its own unit


class Prediction(BaseModel):
    model_config = STRICT

    property: Annotated[
        str, Field(min_length=1, max_length=60, description="as the goal names it, such as homo_lumo_gap")
    ]
    value: Annotated[float, Field(ge=-MAX_PREDICTED, le=MAX_PREDICTED, description="in the unit of the goal")]
    error: Annotated[float, Field(ge=0, le=MAX_PREDICTED, description="one standard deviation, in the same unit")]


Predictions = Annotated[
    list[Prediction], Field(max_length=8, description="what you expect to be measured; each property once")
]


def checked_predictions(predictions: Sequence[Prediction]) -> dict[str, dict[str, float]]:
    """Returns value and error by property. Raises CallError for a property that is named twice or is unknown."""
    names = [p.property for p in predictions]
    for name in names:
        if names.count(name) > 1:
            raise CallError(f"predictions: {short(name)} is predicted twice; predict each property once")
    for name in names:
        if name not in properties():
            hint = did_you_mean(name, list(properties()))
            raise CallError(f"predictions: {short(name)!r} is no property{hint}; name one as the goal does")
    return {p.property: {"value": p.value, "error": p.error} for p in predictions}
