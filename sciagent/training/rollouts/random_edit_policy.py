"""A policy without a model, for demonstrations and baselines: it draws random named edits of the candidates it sees."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, Message, PolicyError, Sampled, ToolCall
from sciagent.agent.tools.toolbox import SHOWN
from sciagent.chemistry.subjects.base import EditSet, Subject
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import needed_edits, subject_of
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND
from sciagent.domain.policy_identity import SCRIPT, PolicyIdentity

SCRIPTED = "scripted"
VERSION = "scripted@2"  # raised when the script draws other calls from the same seeds

_SEEN = re.compile(r"^(?:new )?(#\d+):? ([^\s:;]+)", re.MULTILINE)
"""A candidate's number and text: one of the best in the episode's opening, or a new one that the policy has made."""
_NUMBER = json.dumps("#1")  # occurs in the schemas of tools that take molecules by number
TRIES = 20  # most edits that are drawn to find one that fits


class ScriptedPolicy:
    """Calls the tool `modify` on a candidate of the conversation. The candidate, the edit and the part that the edit
    puts in are each drawn uniformly.

    The draw depends on the conversation and on the question's seed alone. The call is a JSON object if answers are
    structured, and names the candidate by its number if the tools take molecules by number.
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
    """Returns the answer that the question's seed draws."""
    rng = random.Random(f"{VERSION} {question.sampling.seed}")
    schema = question.sampling.schema
    parents = _parents(question, subject)
    # in a conversation without candidates, it guesses a number
    parent = rng.choice(list(parents)) if parents else f"#{rng.randint(1, SHOWN)}"
    edit, what = _edit(parents.get(parent, parent), rng, needed_edits(subject))
    arguments = {"parent": parent, "edit": edit, "what": what, "where": None}
    if schema is None:
        call = ToolCall("call_1", "modify", json.dumps(arguments))
        message = Message("assistant", "", calls=(call,))
    else:
        message = Message("assistant", json.dumps({"name": "modify", "arguments": arguments}))
    return Sampled(message, "calls", tokens=None, policy=VERSION, prompt_tokens=0, output_tokens=0, seconds=0.0)


def _parents(question: EpisodeQuestion, subject: Subject) -> dict[str, str]:
    """Returns the texts of the conversation's candidates, by what the tools take for a candidate: a number or a text.

    The text is the number where the subject's texts are no notation that a policy could write.
    """
    seen: list[tuple[str, str]] = []
    for message in question.messages:
        seen.extend(_SEEN.findall(message.content))
    if not subject.texts_are_notations:
        return {number: number for number, _ in seen}
    offered = json.dumps([question.sampling.schema, question.tools])
    if _NUMBER in offered:
        return {number: text for number, text in seen if json.dumps(number) in offered}
    return {text: text for _, text in seen}


def _edit(parent: str, rng: random.Random, edits: EditSet) -> tuple[str, str | None]:
    """Returns the name of an edit that fits the candidate, and the part that it puts in (None if it puts in none).

    If none of the `TRIES` edits fits, it is the last one drawn. parent: text of the candidate; a number such as `#1`
    takes any edit, since its structure is not known here.
    """
    name = ""
    what: str | None = None
    for _ in range(TRIES):
        edit = rng.choice(list(edits.named.values()))
        name = edit.name
        what = rng.choice(edit.whats) if edit.whats else None
        if parent.startswith("#") or edits.choices(parent, name, what):
            break
    return name, what
