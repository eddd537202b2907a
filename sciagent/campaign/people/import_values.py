"""Imports measured or computed values from a CSV or an Excel workbook as evidence. The whole file is checked before any
write."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.people import import_corrections_or_replicates
from sciagent.chemistry.mass_concentrations import to_canonical_by_mass
from sciagent.chemistry.molecule_files import names_in
from sciagent.chemistry.subjects.base import Reading, Standardised
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND, STANDARDISED, Candidate, identifier_columns
from sciagent.domain.cost_and_budget import RESOURCE_UNITS, Cost
from sciagent.domain.display_units import Column
from sciagent.domain.evidence_keys_and_pooled_replicates import EvidenceKey, Finding, Measured, content_hash
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import BARE_PHASES, Level, Property, phase_named, properties
from sciagent.domain.quantities import Censoring, Quantity, check_possible
from sciagent.errors import InputFileError, InvalidCandidateError, UnitError, UsageError, did_you_mean
from sciagent.inputs.saved_tables import TableRow, read_table
from sciagent.inputs.yaml_validation import file_hash
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts
from sciagent.store.people import audit
from sciagent.store.results import candidates, evidence
from sciagent.store.results.candidates import enter_names
from sciagent.store.results.evidence import NewEvidence
from sciagent.store.results.evidence_seals import answered_for

VERIFIER = "import"
VERSION = "1"  # version of the verifier
MAX_FAULTS = 50  # faults that an error lists
MAX_ROWS = 2_000_000  # rows of a file
ROWS_PER_WRITE = 500
MAX_NAME = 120  # characters of a file's name in the source of a value
FILLED = "cells that were empty before were filled"  # why evidence with more values supersedes an earlier row
HASH_DIGITS = 16  # digits of a file's hash in the source of a value


@dataclass
class ImportReport:
    """The counts of an import, and the rows that were left out."""

    rows: int = 0
    """Number of rows in the file."""
    recorded: int = 0
    """Number of evidence rows written now."""
    known: int = 0
    """Number of rows whose values are in the ledger already."""
    revised: int = 0
    """Number of evidence rows that supersede an earlier value."""
    empty: int = 0
    """Number of empty cells."""
    faults: list[str] = field(default_factory=list)
    """Messages on rows that were left out: `file:line:cell: fault`, or `file:B3: fault` for a workbook."""
    remark: str = ""
    """A remark on the phase of the values, if no computed value of the ledger is in it; else empty."""

    def lines(self, most: int) -> Iterator[str]:
        """Yields the messages on rows that were left out, at most so many, and the remark."""
        for fault in self.faults[:most]:
            yield f"left out: {fault}"
        if self.remark:
            yield self.remark


class _Row(NamedTuple):
    """A parsed row of the file."""

    candidate: Candidate
    key: EvidenceKey
    measured: tuple[Measured, ...]
    names: Mapping[str, str]
    """Texts of the columns that stay with the candidate as remarks, by column."""
    cost: Cost
    """Cost of the values of the row, as the file states it."""


class _CellError(ValueError):
    """A fault in one cell: its place, such as `3:2` or `B3`, and a message."""


def import_file(
    ledger: Ledger,
    path: Path,
    *,
    columns: Sequence[Column],
    level: Level,
    subject: str = MOLECULE_KIND,
    structure: str | None = None,
    standardise: Literal["refuse", "parent"] = "refuse",
    who: str = "unknown",
    skip_bad: bool = False,
    revise: str | None = None,
    replicate: bool = False,
    dry_run: bool = False,
    keep: Sequence[str] | None = None,
    ph: float | None = None,
    costs: Mapping[str, str] | None = None,
) -> ImportReport:
    """Records each row of a file as evidence of the verifier `import` at the stated level.

    A candidate with two rows gets two replicates. Values that are in the ledger already are not written again, even if
    they came from a file of another name, or together with values of other columns. If the ledger has another value for
    the same molecule, property and level, from whichever file, UsageError is raised. The phase of the level is recorded
    by its usual name, `acetonitrile` for `MeCN`.

    subject: kind of candidate that a row is about. structure: the column with the structures; None: the column that the
    subject usually has. revise: reason for which a differing value supersedes the old value. replicate: whether a value
    that differs from the value of another file is kept beside it instead. keep: columns whose texts stay with the
    molecules as remarks and never replace their names; None: the column that looks like an identifier. ph: the values
    were measured on the dominant protonation states at this pH; None: on the structures as they are. costs: {resource:
    amount, or column with the amount of each row}; the cost of each recorded row is kept as an attempt that counts
    towards no campaign's spend.

    Raises InputFileError, with the first faults, and writes nothing if a row is faulty and skip_bad is False.
    """
    report = ImportReport()
    level = replace(level, phase=phase_named(level.phase))
    rules = _reading(subject, standardise, ph)
    structure = structure or subject_of(subject).words.column
    _check_columns(columns)
    stated_costs = _checked_costs(costs or {})
    columns_with_property = [(column, properties()[column.property]) for column in columns]
    property_names = sorted(column.property for column in columns)
    settings_hash = content_hash({"level": level.hash, "source": path.name, "properties": property_names})
    rows: list[_Row] = []
    replicates = Counter[str]()  # number of rows so far, by candidate key
    table = read_table(path, (structure, *(column.name for column in columns), *(keep or ())))
    name_columns = identifier_columns(table.header, structure) if keep is None else keep
    for row in table.rows(numbers=_number_columns(columns, stated_costs)):
        report.rows += 1
        if report.rows > MAX_ROWS:
            raise InputFileError(f"{path}:{row.line}:1: more than {MAX_ROWS} rows; split the file")
        try:
            made, measured = _parse(row, structure, rules, columns_with_property, level)
            cost = _cost(row, stated_costs)
        except _CellError as error:
            place, message = error.args
            report.faults.append(f"{path}:{place}: {message}")
            continue
        report.empty += len(columns) - len(measured)
        if measured:
            candidate = made.candidate
            names = _with_remark(names_in(row.cells, name_columns), made)
            key = EvidenceKey(candidate.key, VERIFIER, VERSION, settings_hash, replicate=replicates[candidate.key])
            replicates[candidate.key] += 1
            rows.append(_Row(candidate, key, measured, names, cost))
    if report.faults and not skip_bad:
        raise _faulty(report.faults)
    if not dry_run:
        _write(ledger, path, rows, who, revise, replicate, report)
    with ledger.read() as connection:
        report.remark = _remark_on_phase(connection, level.phase)
    return report


def _remark_on_phase(connection: Connection, phase: str) -> str:
    """Returns a remark if computed values of the ledger are in solvents, but none in this phase; else an empty text."""
    levels = [Level(**spec) for spec in connection.execute(sa.select(t.level.c.spec)).scalars()]
    computed = {phase_named(level.phase) for level in levels if not level.is_experiment} - set(BARE_PHASES)
    if not computed or phase in computed or phase in BARE_PHASES:
        return ""
    return (
        f'no computed value of this ledger is in "{phase}"; values in {", ".join(sorted(computed))} are not compared '
        "with these"
    )


def _with_remark(names: dict[str, str], made: Standardised) -> Mapping[str, str]:
    """Returns the names of a row, with a remark if they name another substance than its candidate, such as a salt."""
    return {**names, STANDARDISED: made.row_note} if names and made.row_note else names


def _faulty(faults: Sequence[str]) -> InputFileError:
    """Returns the error for a file with faults, of which it lists the first ones."""
    more = [f"… and {len(faults) - MAX_FAULTS} more"] if len(faults) > MAX_FAULTS else []
    hint = "nothing was imported; mend the file, or leave these rows out with --skip-bad"
    return InputFileError("\n".join([*faults[:MAX_FAULTS], *more, hint]))


def _reading(subject: str, standardise: Literal["refuse", "parent"], ph: float | None) -> Reading:
    """Returns the rules by which texts become candidates. Raises UsageError if the subject does not take them."""
    try:
        return subject_of(subject).reading(standardise if ph is None else {"fragments": standardise, "ph": ph})
    except ValueError as error:
        raise UsageError(str(error)) from None


def _check_columns(columns: Sequence[Column]) -> None:
    """Raises UsageError if there is no column, or if two columns have one name or one property."""
    _refuse_twice("column", [column.name for column in columns])
    _refuse_twice("property", [column.property for column in columns])
    if not columns:
        raise UsageError("no column with values is named")


def _refuse_twice(what: str, names: Sequence[str]) -> None:
    """Raises UsageError if a name is given twice. what: the kind of thing that is named."""
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UsageError(f"{what} {', '.join(sorted(twice))} is given twice; import one file, then the other")


def _checked_costs(costs: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the costs as they are. Raises UsageError for an unknown resource."""
    for resource in costs:
        if resource not in RESOURCE_UNITS:
            known = ", ".join(RESOURCE_UNITS)
            raise UsageError(f'unknown resource "{resource}"{did_you_mean(resource, RESOURCE_UNITS)}; known: {known}')
    return costs


def _number_columns(columns: Sequence[Column], costs: Mapping[str, str]) -> list[str]:
    """Returns the columns that hold numbers, and perhaps texts that are no column."""
    uncertainties = [column.uncertainty for column in columns if column.uncertainty is not None]
    return [*(column.name for column in columns), *uncertainties, *costs.values()]


def _cost(row: TableRow, costs: Mapping[str, str]) -> Cost:
    """Returns the cost of a row; an empty cell is no cost. Raises _CellError.

    costs: {resource: amount, or column with the amount of each row}.
    """
    amounts = {}
    for resource, stated in costs.items():
        is_column = stated in row.cells
        text = _readable(row, stated) if is_column else stated
        try:
            amounts[resource] = _number(text) if text else 0.0
            Cost({resource: amounts[resource]})  # raises ValueError for a negative amount
        except ValueError as error:
            if is_column:
                raise _CellError(row.place(stated), f"cost: {error}") from None
            raise _CellError(row.place(""), f'cost: {error}; "{stated}" is no column either') from None
    return Cost(amounts)


def _readable(row: TableRow, column: str) -> str:
    """Returns the text of a cell. Raises _CellError if it cannot be read."""
    if column in row.faults:
        raise _CellError(row.place(column), f"{column}: {row.faults[column]}")
    return row.cells[column]


def _parse(
    row: TableRow, structure: str, rules: Reading, columns: Sequence[tuple[Column, Property]], level: Level
) -> tuple[Standardised, tuple[Measured, ...]]:
    """Returns the candidate of a row, with how it was made, and its values that are not empty. Raises _CellError."""
    if row.surplus is not None:
        hint = "quote a text with a comma, and write numbers with a decimal point"
        raise _CellError(row.surplus_place(), f"more cells than the header has; {hint}")
    try:
        made = rules.apply(_readable(row, structure))
    except InvalidCandidateError as error:
        message = f"{structure}: {error.reason}: {error.detail}"
        raise _CellError(row.place(structure), message) from None
    measured = []
    for column, prop in columns:
        text = _readable(row, column.name)
        if not text:
            continue
        try:
            measured.append(Measured(prop.name, level, _quantity(text, column, prop, row, made.candidate)))
        except (ValueError, UnitError) as error:
            raise _CellError(row.place(column.name), f"{column.name}: {error}") from None
    return made, tuple(measured)


def _quantity(text: str, column: Column, prop: Property, row: TableRow, candidate: Candidate) -> Quantity:
    """Parses a cell as a quantity of the candidate; `< 0.1` and `> 5` are censored. Raises ValueError, UnitError or
    _CellError."""
    censoring = {"<": Censoring.BELOW, ">": Censoring.ABOVE}.get(text[0], Censoring.NONE)
    unit = column.unit or prop.unit
    if unit in row.cells:  # a column with the unit of each row
        unit = _readable(row, unit)
    if text.endswith("%") and unit == "%":  # as Excel writes a cell that is formatted as percentage
        text = text.removesuffix("%").rstrip()
    value = _number(text[1:] if censoring is not Censoring.NONE else text)
    uncertainty: float | None = None
    if column.uncertainty is not None:
        uncertainty_text = column.uncertainty  # the same for all rows
        if column.uncertainty in row.cells:
            uncertainty_text = _readable(row, column.uncertainty)
        if unit == "%":
            uncertainty_text = uncertainty_text.removesuffix("%").rstrip()
        uncertainty = _number(uncertainty_text) if uncertainty_text else None
    typed = text if column.unit is None or unit == "1" else f"{text} {unit}"
    stated = Quantity(value, unit, uncertainty, censoring, as_typed=typed)
    quantity = to_canonical_by_mass(stated, prop, candidate)
    check_possible(quantity, prop)
    return quantity


def _number(text: str) -> float:
    """Parses a finite number. Raises ValueError for any other text."""
    try:
        value = float(text.replace("_", "?"))  # refuses 1_5, which Python would read as 15
    except ValueError:
        raise ValueError(f'"{text[:40]}" is not a number (use a point as decimal sign)') from None
    if not math.isfinite(value):
        why = "is not a finite number; leave the cell empty if it was not measured"
        raise ValueError(f"{Reason.NOT_FINITE}: {text} {why}")
    return value


@dataclass
class _Writer:
    """Writes the rows of a file, in the order of the file."""

    connection: Connection
    path: Path
    source: str
    """Name and hash of the file."""
    who: str
    revise: str | None
    """Reason for which a differing value supersedes the old one; None: no value may differ."""
    replicate: bool
    """Whether a value that differs from the value of another file is kept beside it."""
    report: ImportReport
    in_other_evidence: Counter[Any] = field(default_factory=Counter)
    """{(candidate id, value): count} of values in evidence from other files, or from other columns of this one."""
    superseded_ids: set[int] = field(default_factory=set)
    """Ids of evidence of other files that this import supersedes."""

    def write(self, chunk: Sequence[_Row], ids: Mapping[str, int]) -> None:
        """Writes the rows whose values are not in the ledger yet. ids: ledger ids of the candidates, by key."""
        known_keys = evidence.ids_by_key(self.connection, [row.key.hash for row in chunk])
        first_replicates = [(ids[row.candidate.key], row.key) for row in chunk if row.key.replicate == 0]
        self.in_other_evidence.update(_in_other_evidence(self.connection, first_replicates))
        ids_with_others = {id_ for id_, _ in self.in_other_evidence}
        new: list[NewEvidence] = []
        costs: list[Cost] = []
        for row in chunk:
            id_ = ids[row.candidate.key]
            current = None  # the latest evidence under this key: from a file of the same name, and the same columns
            key = row.key
            if row.key.hash in known_keys:
                current, key = _latest(self.connection, row.key)
            may_differ = self.replicate or id_ not in ids_with_others
            entry = self._new_evidence(row, id_, current, may_differ)
            if entry is None:
                self.report.known += 1
                continue
            if entry.supersedes is not None:
                self.report.revised += 1
            costs.append(row.cost)
            new.append(replace(entry, key=key))
        self._record(new, costs)

    def _new_evidence(
        self, row: _Row, id_: int, current: evidence.RecordedEvidence | None, may_differ: bool
    ) -> NewEvidence | None:
        """Returns the evidence to record for a row, under the row's key; None if the ledger has all of its values.

        id_: ledger id of the candidate. current: the latest evidence under the row's key. may_differ: whether the
        values are not compared with those of other evidence.
        """
        held = () if current is None else current.measured
        measured = self._not_in_other_evidence(row, id_, held)
        if current is not None and not may_differ:
            measured = self._corrected_elsewhere(row, measured, id_, held)
        if {_value(m) for m in measured} == {_value(m) for m in held}:
            return None
        why = self.revise
        old_id = None
        if current is not None:
            if why is None and _only_adds(measured, held):
                why = FILLED
            self._check_may_revise(row.candidate.text, why)
            old_id = current.id
        elif not may_differ:
            old_id = self._id_in_other_file(row, measured, id_)
        finding = Finding(row.candidate.key, Outcome.OK, measured=measured)
        return NewEvidence(finding, row.key, id_, source=self.source, who=self.who, why=why, supersedes=old_id)

    def _corrected_elsewhere(
        self, row: _Row, measured: tuple[Measured, ...], id_: int, held: Sequence[Measured]
    ) -> tuple[Measured, ...]:
        """Writes the corrections of values that other evidence holds, and returns the other values.

        measured, id_, held: as in `_not_in_other_evidence`.
        """
        held_properties = {(m.property, m.level) for m in held}
        added = [m for m in measured if (m.property, m.level) not in held_properties]
        others = import_corrections_or_replicates.differing(self.connection, id_, row.key.settings_hash, added)
        if not others:
            return measured
        text = row.candidate.text
        name = self.path.name
        import_corrections_or_replicates.correct_in_place(
            self.connection, others, text, name, self.source, self.revise, self.who
        )
        self.report.recorded += 1
        self.report.revised += 1
        corrected = others[0].new
        return tuple(m for m in measured if m not in corrected)

    def _not_in_other_evidence(self, row: _Row, id_: int, held: Sequence[Measured]) -> tuple[Measured, ...]:
        """Returns the values of a row that no other evidence has. Each earlier value accounts for one row of this file.

        id_: ledger id of the candidate. held: values of the current evidence under the row's key. A property that it
        holds is this row's own, whatever other evidence says.
        """
        held_properties = {(m.property, m.level) for m in held}
        measured = []
        for m in row.measured:
            is_own = (m.property, m.level) in held_properties
            is_elsewhere = not is_own and self.in_other_evidence[id_, _value(m)] > 0
            if is_elsewhere:
                self.in_other_evidence[id_, _value(m)] -= 1
            else:
                measured.append(m)
        return tuple(measured)

    def _record(self, new: Sequence[NewEvidence], costs: Sequence[Cost]) -> None:
        """Records evidence. costs: one for each; evidence without a cost gets no attempt."""
        paid = [place for place, cost in enumerate(costs) if cost]  # places of the evidence with a cost
        ids = attempts.write_ended(self.connection, f"import by {self.who}", [costs[place] for place in paid])
        attempt_ids = dict(zip(paid, ids, strict=True))
        entries = [replace(entry, attempt_id=attempt_ids.get(place)) for place, entry in enumerate(new)]
        self.report.recorded += len(evidence.record(self.connection, entries))
        attempts.mark_end(self.connection, ids, evidence.read_watermark(self.connection))

    def _check_may_revise(self, smiles: str, why: str | None) -> None:
        """Raises UsageError if there is no reason for which a value supersedes an earlier value of this file."""
        if why is None:
            raise UsageError(
                f"{smiles}: the ledger has another value from {self.path.name}; "
                'supersede it with --revise "why it changed" (nothing was imported)'
            )

    def _id_in_other_file(self, row: _Row, measured: Sequence[Measured], id_: int) -> int | None:
        """Returns the id of the evidence of another file that the row supersedes; None if it supersedes none.

        measured: values of the row that no other evidence has. id_: ledger id of the candidate.
        """
        others = import_corrections_or_replicates.differing(self.connection, id_, row.key.settings_hash, measured)
        others = [other for other in others if other.id not in self.superseded_ids]
        self.superseded_ids.update(other.id for other in others)
        smiles = row.candidate.text
        name = self.path.name
        return import_corrections_or_replicates.id_to_supersede(
            self.connection, others, smiles, name, self.revise, self.who
        )


def _write(
    ledger: Ledger,
    path: Path,
    rows: Sequence[_Row],
    who: str,
    revise: str | None,
    replicate: bool,
    report: ImportReport,
) -> None:
    """Writes all rows in one transaction, with an entry of the audit trail that answers for them."""
    if revise is not None and replicate:
        raise UsageError("give --revise or --replicate: a value either supersedes another one or is kept beside it")
    source = f"{path.name[:MAX_NAME]} sha256:{file_hash(path)[:HASH_DIGITS]}"
    with ledger.begin() as connection:
        # candidates are written before evidence, since a writer that holds the watermark must not wait for a lock
        ids = candidates.enter(connection, {row.candidate.key: row.candidate for row in rows}.values())
        names = [(ids[row.candidate.key], row.names) for row in rows]
        enter_names(connection, campaign_id=None, given=names)
        before = evidence.lock_watermark(connection)
        writer = _Writer(connection, path, source, who, revise=revise, replicate=replicate, report=report)
        for start in range(0, len(rows), ROWS_PER_WRITE):
            writer.write(rows[start : start + ROWS_PER_WRITE], ids)
        after = evidence.read_watermark(connection)
        if after > before:
            about: dict[str, object] = {"file": source, "rows": len(rows), "why": revise}
            about |= answered_for(connection, before + 1, after)
            audit.append(connection, who, "imported", "evidence", object_id=None, campaign_id=None, **about)


def _latest(connection: Connection, key: EvidenceKey) -> tuple[evidence.RecordedEvidence | None, EvidenceKey]:
    """Returns the current revision under the key, and the key of the next revision."""
    current = None
    while True:
        revision = evidence.by_key(connection, key.hash)
        if revision is None:
            return current, key
        current = revision
        key = replace(key, revision=key.revision + 1)


def _in_other_evidence(connection: Connection, pairs: Sequence[tuple[int, EvidenceKey]]) -> Counter[Any]:
    """Returns {(candidate id, value): count} of values in current evidence from other files or other columns.

    pairs: candidate ids and keys of the rows of this file. The name of a file and its columns are part of the settings
    of its keys.
    """
    settings_of_this_file = {key.settings_hash for _, key in pairs}
    e = t.current_evidence.c
    candidate_ids = sorted({id_ for id_, _ in pairs})
    query = sa.select(e.id, e.candidate_id, e.settings_hash).where(
        e.candidate_id.in_(candidate_ids), e.verifier == VERIFIER, e.verifier_version == VERSION
    )
    rows = [row for row in connection.execute(query) if row.settings_hash not in settings_of_this_file]
    measured = evidence.measured_of(connection, [row.id for row in rows])
    return Counter((row.candidate_id, _value(m)) for row in rows for m in measured.get(row.id, ()))


def _value(measured: Measured) -> tuple[Any, ...]:
    """Returns the fields by which two values are compared: property, level, value, uncertainty and censoring."""
    quantity = measured.quantity
    return measured.property, measured.level.hash, quantity.value, quantity.uncertainty, str(quantity.censoring)


def _only_adds(measured: Sequence[Measured], held: Sequence[Measured]) -> bool:
    """Whether values add properties to those that are held, and change or remove none."""
    held_values = {_value(m) for m in held}
    held_properties = {(m.property, m.level) for m in held}
    added = [m for m in measured if _value(m) not in held_values]
    keeps_all = held_values <= {_value(m) for m in measured}
    return keeps_all and all((m.property, m.level) not in held_properties for m in added)
