"""Children of the best molecules by the named edits of the tool `modify`, and the chance that they are hits."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sciagent.agent.proposers.plugin_proposers import CampaignView
from sciagent.chemistry.editing import named_edits
from sciagent.chemistry.editing.mutate_and_crossover import EditLimits
from sciagent.chemistry.editing.named_edits import NAMED_EDITS
from sciagent.chemistry.molecule import molecule_or_none
from sciagent.domain.objectives import Objective
from sciagent.domain.proposer_interfaces import MeasuredCandidate, ProposalIn

Array = NDArray[np.float64]
BEST = 8  # parents, as many as a prompt shows


class Edited(NamedTuple):
    """A molecule with an edit, and what it puts in; the site is open."""

    parent: MeasuredCandidate
    edit: str
    what: str
    """Empty if the edit needs none."""

    @property
    def operation(self) -> str:
        """Returns the operation of a proposal, as `modify` writes it."""
        return f"modify: {self.edit} {self.what}".strip()

    def children(self, limits: EditLimits) -> list[str]:
        """Returns the SMILES of all children, sorted."""
        return named_edits.children(self.parent.text, self.edit, self.what or None, limits=limits)


def edits_of(parent: MeasuredCandidate) -> Iterator[Edited]:
    """Yields each edit that a molecule has a site for, with everything that it may put in."""
    for edit in NAMED_EDITS:
        for what in dict.fromkeys(what for what, _ in named_edits.choices(parent.text, edit)):
            yield Edited(parent, edit, what)


def chance_of_hit(objectives: Sequence[Objective], means: dict[str, Array], spreads: dict[str, Array]) -> Array:
    """Returns (n,) probabilities that all windows are met, for independent normal predictions by property."""
    chance = np.ones(len(next(iter(means.values()))))
    for objective in objectives:
        if (window := objective.accept) is not None:
            mean = means[objective.property]
            spread = spreads[objective.property]
            low = -np.inf if window.low is None else window.low
            high = np.inf if window.high is None else window.high
            chance = chance * (ndtr((high - mean) / spread) - ndtr((low - mean) / spread))
    return chance


def one_new_of_each(
    ordered: Iterable[Edited], campaign: CampaignView, limits: EditLimits, n: int, rng: random.Random
) -> list[ProposalIn]:
    """Returns proposals of a random new child of each of the first n edits that have one."""
    chosen: dict[str, ProposalIn] = {}
    for edited in ordered:
        if len(chosen) == n:
            break
        found = edited.children(limits)
        rng.shuffle(found)
        for proposal in first_new(((text, edited) for text in found if text not in chosen), campaign, 1):
            chosen[proposal.text] = proposal
    return list(chosen.values())


def first_new(ordered: Iterable[tuple[str, Edited]], campaign: CampaignView, n: int) -> list[ProposalIn]:
    """Returns proposals of the first n children that are new to the campaign and miss no gate."""
    chosen: dict[str, ProposalIn] = {}
    for text, edited in ordered:
        if len(chosen) == n:
            break
        molecule = molecule_or_none(text)
        if molecule is None or molecule.key in chosen or campaign.known(molecule) or campaign.missed_gate(molecule):
            continue
        chosen[molecule.key] = ProposalIn(text, (edited.parent.key,), edited.operation)
    return list(chosen.values())
