"""Candidates, measured values and results of rungs as answers show them: `sciagent best` and `sciagent verify`.

Answers are frozen models without extra fields; each field is explained by the docstring below it.

`LimitMargin` states the distance of a value from the nearest limit of its objective, and two measures of the certainty
of that value. The repeatability is the spread of this molecule's value when the protocol is run again. The method's
error is the distance of the method's values from experiment for other molecules. Neither replaces the other, and they
are shown apart; only the probability that the true value lies within the limits (`p_inside`) counts both.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, PrivateAttr, TypeAdapter, computed_field
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from sciagent.domain.candidate_and_its_names_in_files import Names, identifier_text, smiles_of, structure_heading
from sciagent.domain.cost_and_budget import RESOURCE_UNITS
from sciagent.domain.evidence_keys_and_pooled_replicates import BETWEEN_LIMITS, MEAN, WEIGHTED_MEAN, Measured, file_of
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.quantities import MOST_DIGITS, Censoring, ComputedIsomer, hides_side, named_value_text, value_text
from sciagent.domain.worth import KnownError, percent_of


class AnswerModel(BaseModel):
    """An answer or a part of an answer; immutable, and compared by value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Returns the JSON schema with the docstrings of the fields. `use_attribute_docstrings` of pydantic would read
        the source of every model whenever a command starts."""
        schema = handler(core_schema)
        field_schemas = handler.resolve_ref_schema(schema)["properties"]
        for name, text in _docstrings(cls).items():
            key = cls.model_fields[name].serialization_alias or name
            if key in field_schemas:
                field_schemas[key].setdefault("description", text)
        return schema


def _docstrings(model: type[AnswerModel]) -> dict[str, str]:
    """Returns the docstrings below the fields of a model, by field name; inherited fields are included."""
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, AnswerModel) and base is not AnswerModel:
            texts |= _own_docstrings(base)
    return texts


@cache
def _own_docstrings(model: type[AnswerModel]) -> Mapping[str, str]:
    """Returns the docstrings below the fields that a model itself defines. It is slow, since it parses a module."""
    texts: dict[str, str] = {}
    source = dedent(inspect.getsource(model))
    [definition] = ast.parse(source).body
    for field, below in pairwise(getattr(definition, "body", ())):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = inspect.cleandoc(text)
    return texts


def plain(answer: Any) -> Any:
    """Returns JSON values for answers and dataclasses, alone or in collections; times stay `datetime`."""
    if isinstance(answer, BaseModel):
        return plain(answer.model_dump(by_alias=True))
    if is_dataclass(answer):
        return {field.name: plain(getattr(answer, field.name)) for field in fields(answer)}
    if isinstance(answer, Mapping):
        return {name: plain(part) for name, part in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [plain(part) for part in answer]
    return answer


def json_schema(answer: Any) -> Any:
    """Returns the JSON schema of the values that `plain` returns. answer: a model, or a type made of models."""
    return TypeAdapter(answer).json_schema(mode="serialization")


MEASURED = "measured values in this ledger"
"""The source of errors that come from imported values, not from a benchmark."""
REPEATABILITIES = {
    "molecule": "repeatability",
    "class": "repeatability of its class",
    "simulation": "repeatability over replicas and blocks",
    "relaxation": "repeatability of the relaxation",
    "fit": "with the error of the fit",
    MEAN: "standard error of the mean",
    WEIGHTED_MEAN: "standard error of the weighted mean",
    BETWEEN_LIMITS: "standard uncertainty between limits on both sides",
    None: "standard uncertainty",
}
"""The words for an uncertainty, by its kind; None: a value of people, or one that does not say."""


NOT_KNOWN = "not known"
"""The words for an error of which nothing is known."""
PROPAGATED = "errors of the parts of its formula"
"""The source of the error of a derived value."""


class MethodFigures(AnswerModel):
    """The error of a rung's method over a set of molecules, for one property; computed minus measured."""

    n: int
    """Number of molecules."""
    mean_error: float
    """Mean of computed minus measured, in `unit`."""
    mean_absolute_error: float
    """Mean of the absolute differences, in `unit`."""
    unit: str
    """Unit of all errors."""
    chemistry: str
    """The molecules in a few words."""
    reference: str
    """The source of the reference values: `experiment`, or the name of a better theory."""
    source: str
    """`measured values in this ledger`, the file of the benchmark, or `errors of the parts of its formula`."""
    root_mean_square: float | None
    """Root of the mean square difference, in `unit`; null if the benchmark does not state it."""
    low: float | None
    """Lower end of the 95 % interval of the mean absolute error, in `unit`; null for a benchmark."""
    high: float | None
    """Upper end of that interval."""
    charge: str
    """The molecules for which it holds: `neutral`, `ion` or `any`."""

    @property
    def known(self) -> KnownError:
        """The errors as a distribution, in `unit`."""
        return KnownError.of(self.mean_error, self.mean_absolute_error, self.root_mean_square, self.n)

    def __str__(self) -> str:
        tail = "" if self.unit == "1" else f" {self.unit}"
        figures = f"mean absolute error {self.mean_absolute_error:.2g}{tail}"
        if self.low is None or self.high is None:
            mean_error = f"mean error {self.mean_error:+.2g}{tail}"
            return f"{figures}, {mean_error} against {self.reference} (n = {self.n}, {self.chemistry})"
        interval = f"{self.low:.2g} to {self.high:.2g}, {self.n} of yours"
        return f"{figures} ({interval}), mean error {self.mean_error:+.2g}{tail} against {self.reference}"


class EstimatedError(AnswerModel):
    """The error of the method behind a value, computed minus true, as far as it is known."""

    mean_error: float
    """Expected error, in `unit`."""
    spread: float
    """Standard deviation of the errors around the mean error, in `unit`. Over own measured values it is pooled with
    that of the benchmark."""
    mean_absolute_error: float
    """Mean absolute error: of the benchmark or of the own measured values, or of the distribution pooled from both, in
    `unit`."""
    n: int
    """Number of molecules behind the mean error."""
    unit: str
    """Unit of all errors."""
    own: MethodFigures | None
    """Errors over the own measured values of such molecules; null for fewer than five."""
    benchmark: MethodFigures | None
    """Errors over a benchmark, or of a derived value by its formula; null without any."""

    @classmethod
    def of(cls, own: MethodFigures | None, benchmark: MethodFigures | None) -> Self | None:
        """Returns what both figures, in one unit, tell; None without any."""
        figures = own or benchmark
        if figures is None:
            return None
        known = figures.known
        absolute = figures.mean_absolute_error
        if own is not None and benchmark is not None:
            known = own.known.pooled_with(benchmark.known)
            absolute = known.mean_absolute
        return cls(
            mean_error=known.bias,
            spread=known.spread,
            mean_absolute_error=absolute,
            n=known.n,
            unit=figures.unit,
            own=own,
            benchmark=benchmark,
        )

    @property
    def known(self) -> KnownError:
        """The error as a distribution, in `unit`."""
        return KnownError(self.mean_error, self.spread, self.n)

    @property
    def source(self) -> str:
        """The sources of its figures."""
        return "; ".join(figures.source for figures in (self.own, self.benchmark) if figures is not None)

    def __str__(self) -> str:
        if self.own is None or self.benchmark is None:
            return str(self.own or self.benchmark)
        other = self.benchmark
        tail = "" if self.unit == "1" else f" {self.unit}"
        kind = "by the formula" if other.source == PROPAGATED else "benchmark"
        return f"{self.own}; {kind} {other.mean_absolute_error:.2g}{tail} (n = {other.n}, {other.chemistry})"


class IsomerAnswer(AnswerModel):
    """The stereoisomer for which a value was computed, of a candidate that leaves its stereo partly undefined."""

    smiles: str
    """Isomeric SMILES, from the geometry; several with ` and ` between them where the parts of a value have several."""
    label: str
    """`E` or `Z` of the double bonds, where only double bonds were undefined; else empty."""
    possible: int
    """Number of stereoisomers that the candidate leaves open."""
    different: int
    """Their number with each pair of mirror images counted once, since the values of mirror images are equal."""
    is_upper_bound: bool
    """Whether there may be fewer than `possible`."""

    @classmethod
    def of(cls, isomer: ComputedIsomer | None) -> IsomerAnswer | None:
        """Returns the answer on an isomer; None without one."""
        return None if isomer is None else cls(**vars(isomer))

    @property
    def computed(self) -> ComputedIsomer:
        return ComputedIsomer(**vars(self))

    def __str__(self) -> str:
        return str(self.computed)


class LimitMargin(AnswerModel):
    """The distance of a value from the nearest limit of its objective."""

    property: str
    """Name of the property."""
    rung: str
    """Label of the rung that measured the value."""
    margin: float
    """Distance from the nearest limit in `unit`; negative outside the limits."""
    unit: str
    """Unit of the value, of the margin and of the repeatability."""
    repeatability: float | None
    """Standard uncertainty (k = 1) of the value; null where it is unknown."""
    uncertainty_kind: str | None
    """`molecule` for the repeatability of this molecule, `class` for the usual one of such molecules, `fit` for either
    with the error of a calibration, `mean` or `weighted_mean` for the standard error of the mean of several
    measurements; null where the evidence does not say."""
    isomer: IsomerAnswer | None
    """The stereoisomer to which the value and its repeatability belong; null where no stereo is undefined."""
    method: EstimatedError | None
    """The method's error in `unit`; null where neither measured values nor a benchmark give it."""
    method_unknown: str | None
    """Why the method's error is null, such as `not known for ions`; null for a known one, and for an exact or measured
    value."""
    p_inside: float | None
    """Probability that the true value lies within the limits, the method's error included; null where that is unknown.
    Where the candidate has an experimental value of the property, it comes from that value and its uncertainty."""

    def cell(self) -> str:
        """Returns the distance in the unit of the value, with the method's error where it is known."""
        if self.method is not None:
            text = _distance_text(self.margin, self.method.mean_absolute_error, unit="1")
            return f"{text} (method)"
        # the repeatability decides only the digits of the distance
        distance, _, _ = _distance_text(self.margin, self.repeatability, unit="1").partition(" ±")
        return distance

    def __str__(self) -> str:
        side = "clear of the limits by" if self.margin >= 0 else "outside the limits by"
        distance = abs(self.margin)
        spread = self.repeatability
        of_isomer = ""
        if self.isomer is not None and self.isomer.computed.decides_value:
            of_isomer = f" of {self.isomer.computed.share}"
        if self.method is None:
            text = f"{side} {_distance_text(distance, spread, self.unit)}"
            if self.method_unknown is None:  # a descriptor of the structure is exact; a measured value has its own ±
                return text
            if spread:
                text += f" ({REPEATABILITIES.get(self.uncertainty_kind, REPEATABILITIES[None])}{of_isomer})"
            return f"{text}, the method's error is {self.method_unknown}"
        text = f"{side} {_distance_text(distance, self.method.mean_absolute_error, self.unit)} (method)"
        if not spread:
            return text
        _, _, spread_text = value_text(0.0, spread, self.unit).partition("±")
        kind_text = REPEATABILITIES.get(self.uncertainty_kind, REPEATABILITIES[None])
        return f"{text}, ±{spread_text} ({kind_text}{of_isomer})"


def _distance_text(distance: float, uncertainty: float | None, unit: str) -> str:
    """Returns a text such as `0.4 ± 1.1 eV`: the uncertainty has two digits if the first is 1, else one.

    A distance has as many digits as tell it from 0, such as `0.03 ± 0.40 eV`.
    """
    if not uncertainty:
        return value_text(distance, uncertainty, unit)
    exponent = math.floor(math.log10(uncertainty))
    starts_with_one = uncertainty < 2 * 10**exponent
    digits_after_first = 1 if starts_with_one else 0
    decimals = max(0, digits_after_first - exponent)
    most_decimals = decimals + MOST_DIGITS
    while hides_side(round(distance, decimals), distance, (0.0,)) and decimals < most_decimals:
        decimals += 1
    tail = "" if unit == "1" else f" {unit}"
    rounded = round(distance, decimals) + 0.0  # + 0.0 turns -0.0 into 0.0
    return f"{rounded:.{decimals}f} ± {uncertainty:.{decimals}f}{tail}"


def limits_chance_words(p_limits: float | None, unknown: Sequence[str], measured: Sequence[str]) -> str:
    """Returns the probability that the true values lie within all limits, in words.

    Such as `31 %`, `3 % with the measured gap`, or `unknown: dipole`.

    unknown: the objectives whose values or methods leave it unknown. measured: the objectives for which an experimental
    value of the candidate says where the true value lies. An empty text if the probability is not asked yet.
    """
    if p_limits is not None:
        source = f" with the measured {' and '.join(measured)}" if measured else ""
        return f"{percent_of(p_limits)}{source}"
    clauses = [f"{name} (measured without an uncertainty)" if name in measured else name for name in unknown]
    return f"unknown: {', '.join(clauses)}" if clauses else ""


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
    """Its names and remarks in input files, by column; every column has a text for each row, in the same order."""

    @property
    def label(self) -> str:
        """The structure as text, followed by the candidate's name if it has one."""
        return f"{self.text} ({self.name})" if self.names else self.text

    @property
    def name(self) -> str:
        """The candidate's identifier in the input files; empty without one."""
        return identifier_text(self.names)


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
    the usual one of such molecules. `mean`: the value is the mean of several measurements, and the uncertainty its
    standard error by their scatter. `weighted_mean`: each measurement has a standard uncertainty, the mean is weighted
    by 1/σ², and the uncertainty is the larger of the propagated one and the standard error by the scatter. Null where
    the evidence does not say."""
    censoring: Censoring = omitted_if_unset(Censoring.NONE)
    """`below` or `above` where the value is a limit, such as one of detection; left out otherwise."""
    isomer: IsomerAnswer | None
    """The stereoisomer to which the value and its uncertainty belong; null where no stereo is undefined."""

    _near: tuple[float, ...] = PrivateAttr(())  # limits from which the text tells the value, as of `Quantity`

    @classmethod
    def of(cls, measured: Measured, **more: object) -> Self:
        """Creates the value from a measured one. more: the fields that `measured` does not hold."""
        known = {"property": measured.property, "level": measured.level.label, **vars(measured.quantity)}
        known |= {"isomer": IsomerAnswer.of(measured.quantity.isomer), **more}
        shown = cls(**{name: known[name] for name in cls.model_fields})
        shown._near = measured.quantity.near
        return shown

    @property
    def of_one_isomer(self) -> str:
        """The words `for one isomer of 2`, if another isomer may have another value; else empty."""
        if self.isomer is None or not self.isomer.computed.decides_value:
            return ""
        return f"for {self.isomer.computed.share}"

    def __str__(self) -> str:
        return self.censoring.sign + value_text(self.value, self.uncertainty, self.unit, near=self._near)


def isomer_lines(values: Iterable[ShownValue]) -> list[str]:
    """Returns a line for each stereoisomer that values were computed for, where a candidate leaves its stereo open."""
    isomers = [value.isomer for value in values if value.isomer is not None]
    return list(dict.fromkeys(str(isomer) for isomer in isomers))


class RungValue(ShownValue):
    """A property's value at the highest rung that measured it."""

    rung: str
    """Label of the rung; `measured` where an imported experimental value decides the objective."""


class PropertyValue(ShownValue):
    """A value of a property. As text, a limit of detection is `< 0.1 eV`."""

    property: str
    """Name of the property."""
    censoring: Censoring
    """`below` or `above` where the value is a limit of detection."""

    def line(self) -> str:
        """Returns a line such as `homo_lumo_gap = 2.92 ± 0.06 eV  [GFN2-xTB]`."""
        return f"{named_value_text(self.property, self)}  [{self.level}]"


class EvidenceValue(PropertyValue):
    """A value that a verifier measured."""

    n: int
    """Number of replicates that the value is pooled from."""


class ImportedValue(PropertyValue):
    """A value that a person imported from a file. It is shown beside the rungs' values, and decides only where the
    campaign file says `measured: decide`."""

    as_typed: str | None
    """Digits and unit as they stand in the file."""
    source: str
    """File or publication."""
    who: str
    """Person who imported it."""
    why: str | None
    """Reason of the correction, if it has replaced an earlier value; null otherwise."""
    at: datetime
    """Time of the import (UTC)."""
    cost: Mapping[str, float]
    """Cost of the row of the file by resource, as its import stated it; empty if it did not."""

    @property
    def cost_text(self) -> str:
        """The cost in words, such as `25 EUR, 1 lab_slots`; empty without one."""
        # the names of the other resources tell their units
        units = {name: unit for name, unit in RESOURCE_UNITS.items() if unit not in ("s", "1")}
        return ", ".join(f"{amount:g} {units.get(name, name)}" for name, amount in sorted(self.cost.items()))

    def __str__(self) -> str:
        return self.censoring.sign + value_text(self.value, self.uncertainty, self.unit, self.as_typed)

    @property
    def file(self) -> str:
        """The source without the hash of its content."""
        return file_of(self.source)


class SameCompound(CandidateName):
    """A hit with the standard InChIKey of another candidate: both are one compound and count once."""

    relation: Literal["tautomer", "spin state"]
    """`spin state` where the spin multiplicities of the two differ, else `tautomer`."""


def same_compound_text(others: Sequence[SameCompound], is_hit: bool) -> str:
    """Returns a clause such as `tautomer of NAME, which counts once with it`; an empty text without others.

    others: hits of the same compound. is_hit: whether the candidate itself is a hit.
    """
    if not others:
        return ""
    listed = " and ".join(f"{other.relation} of {other.label}" for other in others)
    if len(others) == 1:
        return f"{listed}, which {'counts' if is_hit else 'is a hit and counts'} once with it"
    return f"{listed}, which {'count' if is_hit else 'are hits and count'} once with it"


class BestCandidate(CandidateName):
    """A candidate with its values.

    `sciagent best` lists hits first, then what may still be one by its probability, then known misses; ties by the
    expected utility, then by the distance from the limits.
    """

    formula: str
    """Sum formula."""
    inchikey: str | None
    """InChIKey; null for a candidate without one."""
    utility: float | None
    """Weighted geometric mean of the desirabilities, in (0, 1]; null until the terminal rung has answered."""
    p_hit: float | None
    """Probability to be a hit: 1 or 0 once decided; null where it is unknown, or where no objective has limits."""
    expected_utility: float | None
    """Expected utility, in (0, 1]; the utility, once every objective is answered; 0 if people could not obtain what
    decides; null before a paid rung answers."""
    basis: str | None
    """Weakest source of the two: `answered`, `measured` (an imported value decides), `law`, `line` (a straight line
    from a lower rung) or `none`."""
    verified: bool
    """Whether the terminal rung has answered."""
    hit: bool
    """Whether the candidate is a hit."""
    in_seeds: bool
    """Whether a seed file contains the candidate."""
    standing: str
    """`open`, `pending`, `held` (by a person), `settled` or `dropped`."""
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
    p_limits: float | None
    """Probability that the true values lie within the limits of all objectives, the errors of the methods included;
    null where one is unknown, before the deciding rungs have answered, and where no objective has limits."""
    p_limits_unknown: tuple[str, ...]
    """The objectives for which the deciding rung has answered and that leave `p_limits` unknown: the error of the
    method or of a measured value is not known, the value is a bound that could lie on either side of a limit, or it is
    that of one stereoisomer of several."""
    p_limits_measured: tuple[str, ...]
    """The objectives whose part of `p_limits` comes from an experimental value of the candidate, not from the error of
    a method."""
    margins: tuple[LimitMargin, ...]
    """Distance of each objective's value from its limits, with the two uncertainties."""
    same_compound: tuple[SameCompound, ...]
    """Hits with its standard InChIKey, at most three, which count once with it; empty where there are none, and for a
    candidate that is neither a hit nor open."""


class CandidateList(AnswerModel):
    """A page of the list of a campaign's candidates."""

    candidates: tuple[BestCandidate, ...]
    """The candidates."""
    next: str | None
    """Path of the next page; null on the last page."""


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
