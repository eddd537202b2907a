"""Rows of the tables that a notebook gets: frozen, with units, and with what they look like."""

from __future__ import annotations

from dataclasses import dataclass

from sciagent.domain.quantities import show

SIGNS = {"below": "< ", "above": "> "}


@dataclass(frozen=True, repr=False)
class MeasuredValue:
    """A value with all that makes it one."""

    property: str
    """Name of the property."""
    value: float
    """In `unit`."""
    uncertainty: float | None
    """Standard uncertainty, k = 1, in `unit`; None where nobody knows it."""
    unit: str
    """Canonical unit of the property; `1` for a pure number."""
    level: str
    """How it was obtained: method, basis, phase and geometry."""
    rung: str = ""
    """The rung that measured it; empty for a value from a file."""
    censoring: str = "none"
    """`none`, or on which side of `value` the true value lies: `below`, `above`."""

    def __str__(self) -> str:
        """`2.92 ± 0.06 eV`"""
        return SIGNS.get(self.censoring, "") + show(self.value, self.uncertainty, self.unit)

    def __repr__(self) -> str:
        return f"<{self.property} = {self}  [{self.level}]>"


@dataclass(frozen=True, repr=False)
class CandidateRow:
    """A candidate of a campaign: where it stands, and every value that the rungs gave it."""

    key: str
    """Its identity in every ledger."""
    smiles: str
    """Canonical SMILES."""
    inchikey: str | None
    """None where InChI has none."""
    standing: str
    """`open`, `pending`, `dropped`, `settled`, `held` or `vetoed`."""
    rung: str | None
    """The rung that it waits for, runs at, or ended at."""
    verdict: str | None
    """Of that rung: `pass`, `fail`, `not_applicable`, `inconclusive` or `error`."""
    reason: str | None
    """Why it did not pass."""
    detail: str | None
    """The reason in words."""
    hit: bool
    """Whether it passes every gate and objective at the rung that decides."""
    utility: float | None
    """How well it meets the objectives, from 0 to 1, once the rung that decides has answered."""
    in_seeds: bool
    """Whether the proposer was given it."""
    values: tuple[MeasuredValue, ...] = ()
    """By rung, in ladder order."""

    def value(self, property: str) -> MeasuredValue | None:
        """The property at the highest rung that measured it."""
        return next((one for one in reversed(self.values) if one.property == property), None)

    def __repr__(self) -> str:
        return f"<{self.smiles}: {'hit' if self.hit else self.standing}, {len(self.values)} values>"


@dataclass(frozen=True)
class RungAnswer:
    """What one rung said of a candidate."""

    rung: str
    """Its label in the ladder."""
    tier: str
    """`fast`, `simulation`, `high_fidelity` or `world`."""
    verdict: str
    """`pass`, `fail`, `not_applicable`, `inconclusive` or `error`."""
    reason: str | None
    """Why it did not pass."""
    detail: str
    """The reason in words."""
    reused: bool
    """Whether the ledger knew the answer before."""
    core_seconds: float
    """What it cost; 0 if it was reused."""
    values: tuple[MeasuredValue, ...] = ()
    """What it measured."""
