"""What is refused: a named class of structures or a whole structure, with its group, its source and a reason.

Rules only recognise structures. They say nothing of how anything is made, handled or used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sciagent.chemistry.rdkit_log import rdkit_messages
from sciagent.domain.outcomes import Reason
from sciagent_verifiers.fast.hazards.drawing import Drawing

# gravest first: where rules of several groups match, the first names the refusal
GROUPS: tuple[Reason, ...] = (Reason.CHEMICAL_WEAPON, Reason.EXPLOSIVE, Reason.ACUTE_HAZARD)


@dataclass(frozen=True)
class Hazard:
    """What a molecule may match."""

    name: str
    group: Reason
    reason: str
    source: str

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise ValueError(f"{self.name}: {self.group} is no group of hazards; groups: {', '.join(GROUPS)}")

    def __str__(self) -> str:
        return f"{self.name}: {self.reason} [{self.source}]"


@dataclass(frozen=True)
class Substance(Hazard):
    """A whole structure."""

    formula: str
    """Heavy atoms in alphabetical order, which are compared before an InChI is made."""
    key: str
    """First block of the standard InChIKey: the constitution, whatever stereo or isotopes."""


@dataclass(frozen=True)
class Rule(Hazard):
    """A class of structures.

    Patterns meet a drawing without isotopes, with charges neutralised by protons where that is possible.
    """

    smarts: tuple[str, ...] = ()
    """Any of them matches."""
    needs: Mapping[str, int] = field(default_factory=dict)
    """The fewest atoms of each element that a match can have, as Drawing counts them."""
    first: str = ""
    """A simpler pattern that every match holds; looked for once for all rules that share it."""
    at_least: int = 1
    """How many matches of a pattern it takes, counted by sets of atoms."""
    without: tuple[str, ...] = ()
    """Patterns that excuse the molecule."""
    max_heavy: int | None = None
    """Larger molecules are not meant."""
    test: Callable[[Drawing], bool] | None = None
    """A condition beyond patterns."""

    @cached_property
    def rarest_first(self) -> tuple[tuple[str, int], ...]:
        """(element, how many atoms it needs)."""
        return tuple(sorted(self.needs.items(), key=lambda need: need[0] in ("C", "N", "O")))

    @cached_property
    def patterns(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """`smarts` and `without`, parsed. Raises ValueError for what is no SMARTS."""
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
