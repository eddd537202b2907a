"""`law`: proposes the seeds first, then the children that a law fitted to the campaign's own answers takes for hits.

Each turn fits a Gaussian process over structures to the answers of the terminal rung (`structure_process`), one for
each objective. A lot of the named edits of the best and the latest candidates is drawn, all children of these edits are
ranked by their chance to be hits, and the first are proposed. A turn depends on its seed and the ledger alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sciagent.agent.proposers.list_proposers import Screen
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import needed_edits
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.objectives import Objective
from sciagent.domain.proposer_interfaces import MeasuredCandidate, ProposalIn, ScriptBench, Turn
from sciagent.errors import InvalidCandidateError
from sciagent.scheduling.array_types import Array
from sciagent.scheduling.law.structure_process import Answers, ComparedStructures, fitted

PARENTS = 8  # of the best candidates, and as many of the latest
FEWEST = 3  # answers from which a law is fitted
MAX_ANSWERS = 1000  # answers to which it is fitted: the best, and the latest
LEAST_CHANCE = 1e-300  # smaller chances are equal
DIGITS = 6  # of the logarithm of a chance by which children are ranked, so that no rounding decides


class EditOption(NamedTuple):
    """A candidate with a named edit and what it puts in; the site is open."""

    parent: MeasuredCandidate
    edit: str
    what: str
    """Empty if the edit needs none."""
    sites: tuple[int, ...]


@dataclass(frozen=True)
class Child:
    """A child of a candidate that may be proposed."""

    text: str
    parent: str
    """Key of the parent."""
    operation: str


class LawProposer:
    """Proposes the seeds of a file, then the children with the largest chance to be hits.

    limits: bounds on children. pool: number of edits of a turn whose children are compared.
    """

    name = "law"
    total: int | None = None

    def __init__(
        self, subject: Subject, seeds: Screen, objectives: Sequence[Objective], *, limits: Any, pool: int
    ) -> None:
        self._subject = subject
        self._edits = needed_edits(subject)
        self._seeds = seeds
        self._objectives = [objective for objective in objectives if objective.accept is not None]
        self._limits = limits
        self._pool = pool

    def turn(self, workbench: ScriptBench, turn: Turn, limit: int) -> Mapping[str, Any] | None:
        """Proposes the next seeds, or at most `limit` children. Returns None if there is no candidate to start from."""
        if not turn.cursor.get("begun"):
            cursor = self._seeds.turn(workbench, turn, limit)
            if cursor is not None:
                return cursor
        known = workbench.measured()
        if not known:
            return None
        children = self._children(known, random.Random(turn.seed))
        workbench.propose(self._first_new(self._ranked(known, children), workbench, limit))
        return {"begun": True}

    def _children(self, known: Sequence[MeasuredCandidate], rng: random.Random) -> list[Child]:
        """Returns the children of a lot of edits of the best and the latest candidates, in a random order."""
        latest = sorted(known, key=lambda each: -each.seq)[:PARENTS]
        parents = {each.text: each for each in (*known[:PARENTS], *latest)}
        options = [option for parent in parents.values() for option in self._options(parent)]
        drawn = rng.sample(options, min(self._pool, len(options)))
        children: dict[str, Child] = {}
        for option in drawn:
            operation = f"modify: {option.edit} {option.what}".strip()
            for site in option.sites:
                for text in self._edits.children(
                    option.parent.text, option.edit, option.what or None, site, self._limits
                ):
                    children.setdefault(text, Child(text, option.parent.key, operation))
        found = list(children.values())
        rng.shuffle(found)
        return found

    def _options(self, parent: MeasuredCandidate) -> Iterator[EditOption]:
        for edit in self._edits.named:
            sites: dict[str, list[int]] = {}
            for what, site in self._edits.choices(parent.text, edit):
                sites.setdefault(what, []).append(site.number)
            for what, numbers in sites.items():
                yield EditOption(parent, edit, what, tuple(numbers))

    def _ranked(self, known: Sequence[MeasuredCandidate], children: Sequence[Child]) -> list[Child]:
        """Returns children by their chance to be hits, the largest first; as they are while too little is measured."""
        properties = {objective.property for objective in self._objectives}
        measured = [each for each in known if properties <= set(each.values)][:MAX_ANSWERS]
        if len(measured) < FEWEST or not children:
            return list(children)
        scores = self._log_chances(measured, [child.text for child in children])
        order = np.argsort(-np.round(scores, DIGITS), kind="stable")
        return [children[place] for place in order]

    def _log_chances(self, measured: Sequence[MeasuredCandidate], texts: Sequence[str]) -> Array:
        """Returns (n,) logarithms of the chance of candidates to be hits."""
        compared = ComparedStructures()
        compared.add([self._subject.structure(text) for text in (*(each.text for each in measured), *texts)])
        answered = np.arange(len(measured))
        asked = np.arange(len(measured), len(measured) + len(texts))
        total = np.zeros(len(texts))
        for objective in self._objectives:
            values = np.array([each.values[objective.property] for each in measured])
            process = fitted(compared, Answers(answered, values))
            window = objective.accept
            low = -math.inf if window is None or window.low is None else window.low
            high = math.inf if window is None or window.high is None else window.high
            total += np.log(np.maximum(process.chance(asked, low, high), LEAST_CHANCE))
        return total

    def _first_new(self, ranked: Sequence[Child], workbench: ScriptBench, limit: int) -> list[ProposalIn]:
        """Returns the first children that are new to the campaign and miss no gate."""
        chosen: dict[str, ProposalIn] = {}
        for child in ranked:
            if len(chosen) == limit:
                break
            candidate = self._read(child.text)
            if candidate is None or workbench.known(candidate) or workbench.missed_gate(candidate):
                continue
            chosen.setdefault(workbench.key_of(candidate), ProposalIn(child.text, (child.parent,), child.operation))
        return list(chosen.values())

    def _read(self, text: str) -> Candidate | None:
        """Returns the candidate of a notation; None for any other text."""
        try:
            return self._subject.read(text)
        except InvalidCandidateError:
            return None
