"""What a hazard rule is: a named pattern with its group, its source and a reason in plain words.

Rules only recognise structures. They say nothing of how anything is made, handled or used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sciagent.domain.outcomes import Reason
from sciagent_verifiers.fast.hazards.drawing import Drawing

# gravest first: where rules of several groups match, the first names the refusal
GROUPS: tuple[Reason, ...] = (Reason.CHEMICAL_WEAPON, Reason.EXPLOSIVE, Reason.ACUTE_HAZARD)


@dataclass(frozen=True)
class Rule:
    """One class of structures.

    smarts: any of them matches. needs: the fewest atoms of each element that a match can have, as Drawing counts them.
    first: a simpler pattern that every match holds; looked for once for all rules that share it. at_least: how many
    matches of a pattern it takes, counted by sets of atoms. without: patterns that excuse the molecule. max_heavy:
    larger molecules are not meant. test: a condition beyond patterns.
    Patterns meet a drawing without isotopes, with charges neutralised by protons where that is possible.
    """

    name: str
    group: Reason
    reason: str
    source: str
    smarts: tuple[str, ...] = ()
    needs: Mapping[str, int] = field(default_factory=dict)
    first: str = ""
    at_least: int = 1
    without: tuple[str, ...] = ()
    max_heavy: int | None = None
    test: Callable[[Drawing], bool] | None = None

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise ValueError(f"{self.name}: {self.group} is no group of hazards; groups: {', '.join(GROUPS)}")


@dataclass(frozen=True)
class Substance:
    """One whole structure, by the first block of its standard InChIKey (constitution, whatever stereo or isotopes).

    formula: its heavy atoms in alphabetical order, which is compared before an InChI is made.
    """

    name: str
    group: Reason
    formula: str
    key: str
    reason: str
    source: str


@dataclass(frozen=True)
class Alert:
    """A rule that matched."""

    rule: str
    group: Reason
    reason: str
    source: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason} [{self.source}]"
