"""A policy without a model: random named edits of the candidates that it sees, for demonstrations and baselines."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence

from sciagent.agent.messages import EpisodeQuestion, Message, PolicyError, Sampled, ToolCall
from sciagent.agent.tools.calls import SHOWN
from sciagent.chemistry.subjects.base import EditSet, Subject
from sciagent.chemistry.subjects.registry import needed_edits, subject_of
from sciagent.domain.candidates import MOLECULE_KIND
from sciagent.domain.policy_identity import SCRIPT, PolicyIdentity

NAME = "scripted"
VERSION = "scripted@2"  # raised when the script draws other calls from the same seeds


# the best in the opening, and its own new molecules, with their numbers
_SEEN = re.compile(r"^(?:new )?(#\d+):? ([^\s:;]+)", re.MULTILINE)
_NUMBER = json.dumps("#1")  # in the schemas of tools that take molecules by number
TRIES = 20  # edits that are drawn until one fits


class ScriptedPolicy:
    """Calls `modify` on a candidate of the conversation, with an edit and what it puts in, each drawn uniformly.

    The draw depends on the conversation and on the question's seed alone. The call has the form that the tools ask for:
    a JSON object where answers are structured, and a parent by its number where tools take molecules so.
    """

    name = VERSION

    def __init__(self, subject: Subject | None = None) -> None:
        """subject: what the candidates are; None means molecules."""
        self._subject = subject or subject_of(MOLECULE_KIND)

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        return [_drawn(question, self._subject) for question in questions]

    def identity(self, served: str) -> PolicyIdentity:
        return PolicyIdentity(VERSION, SCRIPT)

    def close(self) -> None:
        """Does nothing: a script holds no resources."""


def _drawn(question: EpisodeQuestion, subject: Subject) -> Sampled:
    rng = random.Random(f"{VERSION} {question.sampling.seed}")
    schema = question.sampling.schema
    found = [seen for message in question.messages for seen in _SEEN.findall(message.content)]
    if not subject.texts_are_notations:
        parents = {number: number for number, _ in found}
    elif _NUMBER in (offered := json.dumps([schema, question.tools])):
        parents = {number: text for number, text in found if json.dumps(number) in offered}
    else:
        parents = {text: text for _, text in found}
    parent = rng.choice(list(parents)) if parents else f"#{rng.randint(1, SHOWN)}"
    arguments = {"parent": parent, **_edit(parents.get(parent, parent), rng, needed_edits(subject)), "where": None}
    if schema is None:
        message = Message("assistant", "", calls=(ToolCall("call_1", "modify", json.dumps(arguments)),))
    else:
        message = Message("assistant", json.dumps({"name": "modify", "arguments": arguments}))
    return Sampled(message, "calls", None, VERSION, prompt_tokens=0, output_tokens=0, seconds=0.0)


def _edit(parent: str, rng: random.Random, edits: EditSet) -> dict[str, str | None]:
    """Returns an edit that fits the candidate, and what it puts in; the last one drawn if none of them fits."""
    chosen: tuple[str, str | None] = ("", None)
    for _ in range(TRIES):
        edit = rng.choice(list(edits.named.values()))
        chosen = edit.name, rng.choice(edit.whats) if edit.whats else None
        if parent.startswith("#") or edits.choices(parent, *chosen):
            break
    return {"edit": chosen[0], "what": chosen[1]}
