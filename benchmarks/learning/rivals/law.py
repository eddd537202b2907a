"""`learning.law`: all children of the best molecules, ranked by the law that the priced scheduler fits to a campaign.

Before the campaign has enough results, random children are proposed; its setting `results` says how many are enough.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from benchmarks.learning.rivals.children import BEST, Array, Edited, edits_of, first_new, one_new_of_each
from sciagent.agent.proposers.plugin_proposers import CampaignView, ProposerTask
from sciagent.chemistry.fingerprints_and_families import StructureFingerprint, structure_of
from sciagent.domain.objectives import Objective
from sciagent.domain.proposer_interfaces import MeasuredCandidate, ProposalIn
from sciagent.scheduling.law.answer_transforms import TruthTransform
from sciagent.scheduling.law.similarity import GrowingStructures
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Question, Stack, mixture

FEWEST = 16  # results from which a law is fitted: the board, and a first batch


class LawRanking:
    """The proposer of the law. Children and fingerprints are kept while it runs."""

    def __init__(self, task: ProposerTask) -> None:
        self._task = task
        self._enough = int(task.settings.get("results", FEWEST))
        self._children: dict[str, dict[str, Edited]] = {}
        self._structures: dict[str, StructureFingerprint | None] = {}

    def ask(self, campaign: CampaignView, n: int, rng: random.Random) -> Sequence[ProposalIn]:
        """Returns the n new children with the largest probability to be hits."""
        measured = [each for each in campaign.measured() if self._properties <= set(each.values)]
        parents = measured[:BEST]
        if len(measured) < self._enough:
            options = [edited for parent in parents for edited in edits_of(parent)]
            rng.shuffle(options)
            return one_new_of_each(options, campaign, self._task.limits, n, rng)
        known = {each.text for each in measured}
        children = {text: edited for parent in parents for text, edited in self._children_of(parent).items()}
        texts = [text for text in children if text not in known]
        if not texts:
            return []
        order = np.argsort(-self._chances(measured, texts), kind="stable")
        return first_new(((texts[place], children[texts[place]]) for place in order), campaign, n)

    @property
    def _properties(self) -> set[str]:
        return {objective.property for objective in self._task.objectives}

    def _children_of(self, parent: MeasuredCandidate) -> dict[str, Edited]:
        """Returns all children of a molecule, each with the first edit that makes it."""
        if parent.text not in self._children:
            found: dict[str, Edited] = {}
            for edited in edits_of(parent):
                for text in edited.children(self._task.limits):
                    found.setdefault(text, edited)
            self._children[parent.text] = found
        return self._children[parent.text]

    def _chances(self, measured: Sequence[MeasuredCandidate], texts: Sequence[str]) -> Array:
        """Returns (n,) probabilities of a hit of molecules that are not measured."""
        similarity = GrowingStructures()
        similarity.add([self._structure(text) for text in (*(each.text for each in measured), *texts)])
        of = np.arange(len(measured), len(measured) + len(texts))
        questions = [self._question(objective, measured, len(texts)) for objective in self._task.objectives]
        laws = Stack(similarity).fit(questions, len(measured))
        chance = np.ones(len(texts))
        for place, question in enumerate(questions):
            mean, sd, _ = mixture(laws, place, of)
            chance = chance * question.truth.chance(mean, sd)
        return chance

    def _question(self, objective: Objective, measured: Sequence[MeasuredCandidate], others: int) -> Question:
        seen = np.array([each.values[objective.property] for each in measured])
        window = objective.accept
        low = -np.inf if window is None or window.low is None else window.low
        high = np.inf if window is None or window.high is None else window.high
        scores = np.concatenate([seen, np.full(others, np.nan)])[:, None]
        return Question(scores, TruthTransform.within(seen, low, high))

    def _structure(self, text: str) -> StructureFingerprint | None:
        if text not in self._structures:
            self._structures[text] = structure_of(text)
        return self._structures[text]
