"""Candidates and measured values as answers show them."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.evidence import Measured
from sciagent.domain.quantities import Censoring, show


class CandidateName(AnswerModel):
    """A candidate by its key and its structure."""

    key: str
    """Key of the candidate, 64 hexadecimal digits."""
    smiles: str
    """The structure as text."""


class ShownValue(AnswerModel):
    """A number with its unit, uncertainty and level; `2.92 ± 0.06 eV` as text."""

    value: float
    """Value in `unit`."""
    unit: str
    """The property's canonical unit."""
    uncertainty: float | None
    """Standard uncertainty (k = 1) in `unit`; null where it is unknown."""
    level: str
    """Level of theory, or the experimental method."""

    @classmethod
    def of(cls, measured: Measured, **more: object) -> Self:
        """Creates the value from a measured one. more: the fields that `measured` does not hold."""
        fields = {"property": measured.property, "level": measured.level.label, **vars(measured.quantity), **more}
        return cls(**{name: fields[name] for name in cls.model_fields})

    def __str__(self) -> str:
        return show(self.value, self.uncertainty, self.unit)


class RungValue(ShownValue):
    """A property's value at the highest rung that measured it."""

    rung: str
    """Label of the rung."""


class PropertyValue(ShownValue):
    """A value of a property. As text, a limit of detection is `< 0.1 eV`."""

    property: str
    """Name of the property."""
    censoring: Censoring
    """`below` or `above` where the value is a limit of detection."""

    def __str__(self) -> str:
        return self.censoring.sign + super().__str__()

    def line(self) -> str:
        """Returns a line such as `homo_lumo_gap = 2.92 ± 0.06 eV  [GFN2-xTB]`."""
        return f"{self.property} = {self}  [{self.level}]"


class EvidenceValue(PropertyValue):
    """A value that a verifier measured."""

    n: int
    """Number of replicates that the value is pooled from."""


class ImportedValue(PropertyValue):
    """A value that a person imported from a file. It is shown beside the rungs' values and decides nothing."""

    source: str
    """File or publication."""
    who: str
    """Person who imported it."""
    at: datetime
    """Time of the import (UTC)."""

    @property
    def file(self) -> str:
        """The source without the hash of its content."""
        return self.source.split(" sha256")[0]
