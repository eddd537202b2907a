"""Hazard rules: named classes of structures or whole structures, each with group, source and reason.

Rules only recognise structures. They contain nothing on synthesis, handling or use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sciagent.chemistry.rdkit_log import rdkit_messages
from sciagent.domain.outcomes import Reason
from sciagent_verifiers.fast.hazards.normalised_molecule import Drawing

# The gravest group comes first. If rules of several groups match, it gives the reason of the refusal.
GROUPS: tuple[Reason, ...] = (Reason.CHEMICAL_WEAPON, Reason.EXPLOSIVE, Reason.ACUTE_HAZARD)


@dataclass(frozen=True)
class Hazard:
    """A rule or substance that a molecule can match."""

    name: str
    group: Reason
    reason: str
    source: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason} [{self.source}]"


@dataclass(frozen=True)
class Substance(Hazard):
    """A hazard that is one whole structure."""

    formula: str
    """Heavy atoms in alphabetical order; they are compared before an InChI is computed."""
    key: str
    """First block of the standard InChIKey: the constitution without stereo and isotopes."""


@dataclass(frozen=True)
class Rule(Hazard):
    """A hazard that is a class of structures.

    Its patterns are matched to a `Drawing`, without isotopes and with charges neutralised by protons where possible.
    """

    smarts: tuple[str, ...] = ()
    """SMARTS patterns, of which one must match."""
    needs: Mapping[str, int] = field(default_factory=dict)
    """Smallest number of atoms of each element in a match, by the symbols of `Drawing.counts`."""
    first: str = ""
    """A simpler pattern contained in every match; it is searched once for all rules that share it."""
    at_least: int = 1
    """Smallest number of matches of a pattern, counted by sets of atoms."""
    without: tuple[str, ...] = ()
    """SMARTS patterns that exempt a molecule from the rule."""
    max_heavy: int | None = None
    """Largest number of heavy atoms to which the rule applies; None for no limit."""
    test: Callable[[Drawing], bool] | None = None
    """A further condition, besides the patterns."""

    @cached_property
    def rarest_first(self) -> tuple[tuple[str, int], ...]:
        """Pairs (element, smallest number of atoms), with C, N and O last."""
        return tuple(sorted(self.needs.items(), key=lambda need: need[0] in ("C", "N", "O")))

    @cached_property
    def patterns(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """`smarts` and `without`, parsed. Raises ValueError for an invalid pattern."""
        return _parsed(self.smarts), _parsed(self.without)

    def matches(self, drawing: Drawing) -> bool:
        mol, counts = drawing.mol, drawing.counts
        for symbol, n in self.rarest_first:
            if counts.get(symbol, 0) < n:
                return False
        if self.max_heavy is not None and drawing.heavy > self.max_heavy:
            return False
        if self.first and not drawing.has(self.first):
            return False
        patterns, without = self.patterns
        if self.at_least > 1:
            met = any(len(mol.GetSubstructMatches(pattern)) >= self.at_least for pattern in patterns)
        else:
            met = any(map(mol.HasSubstructMatch, patterns))
        return met and not any(map(mol.HasSubstructMatch, without)) and (self.test is None or self.test(drawing))


def _parsed(smarts: Sequence[str]) -> tuple[Any, ...]:
    from rdkit import Chem

    with rdkit_messages():
        patterns = tuple(Chem.MolFromSmarts(text) if text.strip() else None for text in smarts)
    if None in patterns:
        raise ValueError(f'"{smarts[patterns.index(None)]}" is not a SMARTS pattern')
    return patterns
