"""Fits, lists, shows, checks and deletes law entries, and predicts structures with them.

The functions are the commands `sciagent law` and `sciagent predict`, and their answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import open_within
from sciagent.campaign.core.value_sources import ValueSource
from sciagent.campaign.law.fit_law import CampaignValues, campaign_values, fit_law, read_campaigns
from sciagent.campaign.law.law_entries import LawEntry, QuantityLaw
from sciagent.campaign.law.past_values import loaded_entry
from sciagent.campaign.law.predictions import AskedStructure, LawCheck, LawPredictor, PredictedStructure
from sciagent.chemistry.molecule_files import StructureRecord
from sciagent.chemistry.subjects.base import Reading
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.objectives import Objective
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError, UsageError
from sciagent.scheduling.law.left_out_calibration import WidthCalibration
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import law_entries

AT_ONCE = 1000  # structures that are compared with all remembered ones at a time


@dataclass(frozen=True)
class ListedQuantity:
    """A quantity of a law entry in a list."""

    name: str
    unit: str
    level: str
    source: ValueSource
    n: int
    """Number of candidates with a value."""


@dataclass(frozen=True)
class ListedLaw:
    """A law entry in a list."""

    law: str
    """Name and hash, such as `edits@5c22afeb`."""
    kind: str
    """Kind of the candidates, such as `molecule`."""
    quantities: tuple[ListedQuantity, ...]
    n_campaigns: int
    """Number of campaigns to whose values it was fitted."""
    at: datetime
    who: str


@dataclass(frozen=True)
class ShownQuantity:
    """The law of one quantity."""

    name: str
    unit: str
    level: str
    verifier: str
    version: str
    n: int
    transform: str
    amplitude_similarity: float
    """Standard deviation of what similar structures share, in units of the spread of the values."""
    amplitude_linear: float
    """Standard deviation of what atom environments add, in the same units."""
    noise: float
    """Standard deviation of a value about the mean of its structure, in the same units."""
    held: WidthCalibration
    """The share of left-out answers in their intervals; they were left out with their whole campaign, or family."""


@dataclass(frozen=True)
class ShownLaw:
    """A law entry, its origin and its calibration."""

    law: str
    hash: str
    before: str | None
    """Hash of the version before; None for the first."""
    kind: str
    campaigns: tuple[str, ...]
    used_by: tuple[str, ...]
    """Campaigns that use it."""
    quantities: tuple[ShownQuantity, ...]
    at: datetime
    who: str


def fit(
    ledger: Ledger,
    name: str,
    campaigns: Sequence[str],
    *,
    others: Sequence[Ledger] = (),
    quantities: Sequence[str] = (),
    who: str,
) -> ShownLaw:
    """Fits a law to what campaigns measured, and writes it as the newest version of a name.

    others: ledgers in which the campaigns are looked for, too. quantities: names of properties; all that decide an
    objective by default. A law that the ledger has already is written no second time. Raises UsageError as `fit_law`.
    """
    entry = fit_law(read_campaigns([ledger, *others], campaigns), quantities)
    summary = {
        "campaigns": list(entry.campaigns),
        "quantities": [
            {"name": law.name, "unit": law.unit, "level": law.level, "source": asdict(law.source), "n": len(law.rows)}
            for law in entry.quantities
        ],
    }
    new = law_entries.NewEntry(name, entry.hash, entry.kind, summary, entry.text(), who)
    with ledger.begin() as connection:
        row = law_entries.enter(connection, new)
        return _shown(connection, row, entry)


def listed(ledger: Ledger) -> list[ListedLaw]:
    """Returns all law entries of a ledger, the oldest first."""
    with ledger.read() as connection:
        rows = law_entries.rows(connection)
    return [
        ListedLaw(
            law=row.version,
            kind=row.kind,
            quantities=tuple(_listed_quantity(**each) for each in row.summary["quantities"]),
            n_campaigns=len(row.summary["campaigns"]),
            at=row.at,
            who=row.who,
        )
        for row in rows
    ]


def _listed_quantity(source: Any, **more: Any) -> ListedQuantity:
    return ListedQuantity(source=ValueSource(**source), **more)


def show(ledger: Ledger, name: str) -> ShownLaw:
    """Returns a law entry. name: `NAME` or `NAME@HASH`. Raises UnknownNameError."""
    with ledger.read() as connection:
        row = law_entries.find(connection, name)
        return _shown(connection, row, loaded_entry(connection, row))


def _shown(connection: Connection, row: law_entries.EntryRow, entry: LawEntry) -> ShownLaw:
    return ShownLaw(
        law=row.version,
        hash=row.hash,
        before=row.parent_hash,
        kind=row.kind,
        campaigns=entry.campaigns,
        used_by=tuple(law_entries.users(connection, row.id)),
        quantities=tuple(_shown_quantity(law) for law in entry.quantities),
        at=row.at,
        who=row.who,
    )


def _shown_quantity(law: QuantityLaw) -> ShownQuantity:
    similar, linear, noise = law.amplitudes
    return ShownQuantity(
        name=law.name,
        unit=law.unit,
        level=law.level,
        verifier=law.source.verifier,
        version=law.source.version,
        n=len(law.rows),
        transform=str(law.transform),
        amplitude_similarity=similar,
        amplitude_linear=linear,
        noise=noise,
        held=law.calibration,
    )


def delete(ledger: Ledger, name: str) -> ListedLaw:
    """Removes a law entry, and returns it. Raises UnknownNameError; UsageError if a campaign uses it."""
    with ledger.read() as connection:
        version = law_entries.find(connection, name).version
    [removed] = [each for each in listed(ledger) if each.law == version]
    with ledger.begin() as connection:
        law_entries.remove(connection, law_entries.find(connection, version))
    return removed


def check(ledger: Ledger, name: str, campaigns: Sequence[str]) -> LawCheck:
    """Returns how the predictions of a law hold for campaigns that it was not fitted to; candidates that it knows are
    left out. Raises UnknownNameError; UsageError for values of another level, or if nothing is left."""
    with ledger.read() as connection:
        row = law_entries.find(connection, name)
        entry = loaded_entry(connection, row)
        read = [_with_objectives(connection, ledger, each) for each in dict.fromkeys(campaigns)]
    found = LawPredictor(entry, subject_of(entry.kind)).check(read)
    if not found.quantities:
        raise UsageError(f"{row.version} knows all {found.known} candidates that these campaigns have measured")
    return found


def _with_objectives(
    connection: Connection, ledger: Ledger, campaign: str
) -> tuple[CampaignValues, Sequence[Objective]]:
    built = open_within(connection, ledger, campaign)
    return campaign_values(connection, built), built.objectives


@dataclass(frozen=True)
class UnreadText:
    """A text that is no structure."""

    text: str
    reason: str
    name: str
    """The first of its names in the file; empty without one."""


@dataclass(frozen=True)
class Predictions:
    """The predictions of a law for structures."""

    law: str
    """Name and hash of the law; the campaign's name for a law that was fitted to it alone, and is not kept."""
    campaign: str | None
    """The campaign whose objectives are asked for, and whose own answers count."""
    structures: tuple[PredictedStructure, ...]
    unread: tuple[UnreadText, ...]
    """Texts that are no structures."""


def predict(
    ledger: Ledger,
    given: Sequence[StructureRecord],
    *,
    files: Sequence[Path] = (),
    column: str | None = None,
    law: str | None = None,
    campaign: str | None = None,
) -> Predictions:
    """Returns predictions for structures, in their order.

    given: structures with their names, or why one cannot be read. files: with further structures. column: of a
    csv, the column with the structures. law: `NAME` or `NAME@HASH`; None: one that is fitted to the campaign alone.
    campaign: its answers count as well, and its objectives are those of a hit. Raises UsageError without both of them.
    """
    with ledger.read() as connection:
        built = None if campaign is None else open_within(connection, ledger, campaign)
        own = None if built is None else campaign_values(connection, built)
        entry, name = _entry_or_fitted(connection, law, own)
    subject = subject_of(entry.kind)
    reading = subject.reading() if built is None else built.spec.standardisation
    of_files = (record for file in files for record in subject.records(file, column))
    read = _read_structures(chain(given, of_files), reading)
    predictor = LawPredictor(entry, subject)
    own = own if law is not None else None  # a law that is fitted to the campaign has its answers
    predicted = list[PredictedStructure]()
    for begin in range(0, len(read.asked), AT_ONCE):
        some = read.asked[begin : begin + AT_ONCE]
        structures = [AskedStructure(subject.notation(candidate), candidate.charge) for candidate, _ in some]
        found = predictor.predict(structures, () if built is None else built.objectives, own)
        for each, (candidate, record) in zip(found, some, strict=True):
            missed = None if built is None else _missed(built, candidate)
            p_hit = 0.0 if missed and each.p_hit is not None else each.p_hit
            predicted.append(replace(each, p_hit=p_hit, missed=missed, name=record.name))
    return Predictions(name, campaign, tuple(predicted), tuple(read.unread))


def _missed(built: Built, candidate: Candidate) -> str | None:
    """Returns in one line why the safety screen refuses a candidate, or which gate that needs no engine it misses; None
    if nothing does."""
    first = built.fast[0] if built.fast else None
    if first is not None and first.verifier.name == built.subject.screen:
        refusal = first.verifier.accepts(candidate)
        if refusal is not None:
            return f"{refusal.reason}: {refusal.detail}"
    return built.free_gates.missed(candidate)


class _ReadStructures(NamedTuple):
    """Structures that were read, and texts that were not."""

    asked: list[tuple[Candidate, StructureRecord]]
    unread: list[UnreadText]


def _read_structures(records: Iterable[StructureRecord], reading: Reading) -> _ReadStructures:
    """Returns the candidates with their records, and the texts that are no structures."""
    read = _ReadStructures([], [])
    for record in records:
        try:
            if record.fault:
                raise InvalidCandidateError(Reason.UNPARSABLE, record.fault)
            read.asked.append((reading.apply(record.text).candidate, record))
        except InvalidCandidateError as error:
            read.unread.append(UnreadText(record.text, str(error), record.name))
    return read


def records_of(texts: Iterable[str]) -> list[StructureRecord]:
    """Returns texts as structures without names."""
    return [StructureRecord(number, text) for number, text in enumerate(texts)]


def _entry_or_fitted(connection: Connection, law: str | None, own: CampaignValues | None) -> tuple[LawEntry, str]:
    """Returns the entry of a name, or one that is fitted to a campaign alone, with what it is called."""
    if law is not None:
        row = law_entries.find(connection, law)
        return loaded_entry(connection, row), row.version
    if own is None:
        raise UsageError("name a law or a campaign: a prediction rests on what was measured")
    return fit_law([own]), own.name


@dataclass(frozen=True)
class PredictionRow:
    """The prediction of one quantity for one structure, or the reason why a text has none."""

    structure: str
    quantity: str | None = None
    value: float | None = None
    """Median of the predicted distribution, in the canonical unit."""
    uncertainty: float | None = None
    """Half the width of the interval that holds 68.3 % of it."""
    low: float | None = None
    """Lower end of the 90 % interval."""
    high: float | None = None
    unit: str | None = None
    level: str | None = None
    known: float | None = None
    """The value that was measured already."""
    p_hit: float | None = None
    nearest: str | None = None
    """The nearest measured structure."""
    similarity: float | None = None
    """Its similarity, in [0, 1]."""
    reason: str | None = None
    """Why the text is no structure, why the campaign would refuse it, or why the interval may not hold."""
    name: str = ""
    """The first of its names in the file; empty without one."""


def prediction_rows(found: Predictions) -> list[PredictionRow]:
    """Returns a row for each structure and quantity, then one for each text that is no structure."""
    rows = []
    for each in found.structures:
        for quantity in each.quantities:
            nearest = quantity.nearest[0] if quantity.nearest else None
            rows.append(
                PredictionRow(
                    structure=each.structure,
                    quantity=quantity.name,
                    value=quantity.value,
                    uncertainty=quantity.uncertainty,
                    low=quantity.low,
                    high=quantity.high,
                    unit=quantity.unit,
                    level=quantity.level,
                    known=quantity.known,
                    p_hit=each.p_hit,
                    nearest=None if nearest is None else nearest.structure,
                    similarity=None if nearest is None else nearest.similarity,
                    reason=each.missed or quantity.caveat,
                    name=each.name,
                )
            )
    for unread in found.unread:
        rows.append(PredictionRow(unread.text, reason=unread.reason, name=unread.name))
    return rows
