"""Candidates, measured values and results of rungs as answers show them: `sciagent best` and `sciagent verify`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Self

from pydantic import Field, computed_field

from sciagent.domain.answers.margins import LimitMargin
from sciagent.domain.answers.model import AnswerModel
from sciagent.domain.candidate_names import Names, label
from sciagent.domain.candidates import smiles_of, structure_heading
from sciagent.domain.cost import RESOURCE_UNITS
from sciagent.domain.evidence import Measured, file_of
from sciagent.domain.quantities import Censoring, show, stated


class StructureText(AnswerModel):
    """A structure as text."""

    kind: str
    """Subject of the campaign: `molecule` or `crystal`."""
    text: str
    """Canonical SMILES of a molecule; reduced formula and space group of a crystal."""

    drawn_from: str = Field(default="", exclude=True)
    """Notation from which the structure is drawn; empty where it is the text. Not part of the answer's JSON."""

    @computed_field
    def smiles(self) -> str | None:
        """Canonical SMILES; null for a candidate that is no molecule."""
        return smiles_of(self.kind, self.text)

    @property
    def column(self) -> str:
        """Heading of a table's column with such structures."""
        return structure_heading(self.kind)

    def __str__(self) -> str:
        return self.text


class CandidateName(StructureText):
    """A candidate by its key and its structure."""

    key: str
    """Key of the candidate, 64 hexadecimal digits."""
    names: Names
    """Its names and remarks in input files, by column; a candidate that stands twice in a file has two texts."""

    @property
    def label(self) -> str:
        """The structure with its name, if it has one."""
        return f"{self.text} ({self.name})" if self.names else self.text

    @property
    def name(self) -> str:
        """Its identifier in the input files; empty without one."""
        return label(self.names)


class ShownValue(AnswerModel):
    """A number with its unit, uncertainty and level; `2.92 ± 0.06 eV` as text, and `< 0.1 eV` for a limit."""

    value: float
    """Value in `unit`."""
    unit: str
    """The unit that the campaign states for the property; else its canonical unit."""
    uncertainty: float | None
    """Standard uncertainty (k = 1) in `unit`; null where it is unknown."""
    level: str
    """Level of theory, or the experimental method."""
    uncertainty_kind: str | None
    """`molecule`: the uncertainty is the spread over conformers, seeds or replicates of this molecule. `class`: it is
    the usual one of such molecules. Null where the evidence does not say."""
    censoring: Censoring = Field(default=Censoring.NONE, exclude_if=lambda censoring: censoring is Censoring.NONE)
    """`below` or `above` where the value is a limit, such as one of detection; left out otherwise."""

    @classmethod
    def of(cls, measured: Measured, **more: object) -> Self:
        """Creates the value from a measured one. more: the fields that `measured` does not hold."""
        fields = {"property": measured.property, "level": measured.level.label, **vars(measured.quantity), **more}
        return cls(**{name: fields[name] for name in cls.model_fields})

    def __str__(self) -> str:
        return self.censoring.sign + show(self.value, self.uncertainty, self.unit)


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

    def line(self) -> str:
        """Returns a line such as `homo_lumo_gap = 2.92 ± 0.06 eV  [GFN2-xTB]`."""
        return f"{stated(self.property, self)}  [{self.level}]"


class EvidenceValue(PropertyValue):
    """A value that a verifier measured."""

    n: int
    """Number of replicates that the value is pooled from."""


class ImportedValue(PropertyValue):
    """A value that a person imported from a file. It is shown beside the rungs' values and decides nothing."""

    as_typed: str | None
    """Digits and unit as they stand in the file."""
    source: str
    """File or publication."""
    who: str
    """Person who imported it."""
    at: datetime
    """Time of the import (UTC)."""
    cost: Mapping[str, float]
    """Cost of the row of the file by resource, as its import stated it; empty if it did not."""

    @property
    def cost_text(self) -> str:
        """The cost in words, such as `25 EUR, 1 lab_slots`; empty without one."""
        units = {name: unit for name, unit in RESOURCE_UNITS.items() if unit not in ("s", "1")}
        return ", ".join(f"{amount:g} {units.get(name, name)}" for name, amount in sorted(self.cost.items()))

    def __str__(self) -> str:
        return self.censoring.sign + show(self.value, self.uncertainty, self.unit, self.as_typed)

    @property
    def file(self) -> str:
        """The source without the hash of its content."""
        return file_of(self.source)


class BestCandidate(CandidateName):
    """A candidate with its values. `sciagent best` lists hits first, by utility, then by depth reached and score."""

    formula: str
    """Sum formula."""
    inchikey: str | None
    """InChIKey; null for a candidate without one."""
    utility: float | None
    """Weighted geometric mean of the desirabilities, in (0, 1]; null until the terminal rung has answered."""
    p_hit: float | None
    """Chance of a hit: 1 or 0 once settled; before that the estimate of the `priced` law, null without a law. Null
    where no objective has limits."""
    verified: bool
    """Whether the terminal rung has answered."""
    hit: bool
    """Whether the candidate is a hit."""
    in_seeds: bool
    """Whether a seed file contains the candidate."""
    score: float | None
    """Score that orders open candidates, in (0, 1], from gates and objectives; not a probability."""
    reason: str | None
    """Reason why the candidate was dropped or is not a hit."""
    detail: str | None
    """The reason with numbers."""
    values: Mapping[str, RungValue]
    """Value of each property at the highest rung that measured it, by property name."""
    imported: tuple[ImportedValue, ...]
    """Values imported from files."""
    contradicted: str | None
    """The imported values that contradict the verdict, as a sentence: for a hit those that lie outside the limits of an
    objective by more than their uncertainty, for a miss those that lie inside the limits it missed; null where none
    does."""
    margins: tuple[LimitMargin, ...]
    """Distance of each objective's value from its limits, with the two uncertainties."""


class RungResult(AnswerModel):
    """The result of a rung on a candidate, with its cost."""

    rung: str
    """Label of the rung."""
    tier: str
    """Tier of its verifier."""
    outcome: str | None
    """`ok`, or another outcome; null where the rung did not run."""
    verdict: str | None
    """`pass`, `fail`, `not_applicable`, `inconclusive` or `error`, by gate and objectives; null where there is none."""
    reason: str | None
    """Reason why the candidate did not pass."""
    detail: str
    """The reason with numbers."""
    reused: bool
    """Whether the answer comes from earlier evidence."""
    core_seconds: float
    """Cost in core-seconds; 0 for a reused answer."""


class RungAnswer(RungResult):
    """The result of a rung on a molecule of `sciagent verify`, with the measured values."""

    values: Mapping[str, ShownValue]
    """Measured values, by property."""


class CalculatedCandidate(AnswerModel):
    """The answer of `sciagent calc` on one structure."""

    text: str
    """The structure as it was given."""
    names: Names = {}
    """{column: texts} that the molecule's file has beside the structure."""
    key: str | None = None
    """Key of the candidate; null where the text could not be read."""
    smiles: str | None = None
    """Canonical SMILES; null for a candidate that is no molecule, and where the text could not be read."""
    structure: str | None = None
    """The candidate as text: SMILES, or formula and space group; null where the text could not be read."""
    formula: str | None = None
    """Sum formula; null where the text could not be read."""
    outcome: str
    """`ok`, or another outcome; `refused` also where the text could not be read or the safety screen refused."""
    reason: str | None
    """Reason for an outcome other than `ok`."""
    detail: str
    """The reason in words."""
    reused: bool = False
    """Whether the answer comes from earlier evidence."""
    core_seconds: float = 0.0
    """Cost in core-seconds; 0 for a reused answer."""
    values: tuple[PropertyValue, ...] = ()
    """Measured values, in the unit that was asked for."""


class LadderAnswer(AnswerModel):
    """The answer of `sciagent verify`."""

    key: str | None
    """Key of the candidate; null where the text could not be read."""
    kind: str
    """Subject of the campaign: `molecule` or `crystal`."""
    text: str
    """SMILES of a molecule, formula and space group of a crystal; the text as it was given where it was not read."""
    formula: str | None = None
    """Sum formula; null where the text could not be read."""
    smiles: str | None = None
    """Canonical SMILES; null for a candidate that is no molecule, and where the text could not be read."""
    drawn_from: str = Field(default="", exclude=True)
    """Notation from which the structure is drawn. Not part of the answer's JSON."""
    verdict: str
    """`pass` for a hit, `fail` for no hit; `inconclusive` or `error` where the rungs could not decide."""
    reason: str | None
    """Reason why the candidate is not a hit."""
    detail: str
    """The reason with numbers."""
    rungs: tuple[RungAnswer, ...]
    """Answers, one per rung, up to the rung that the candidate failed."""
