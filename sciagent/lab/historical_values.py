"""Loads old values of a group as answers of a rung that people do, so that a campaign starts with what they teach.

`read_old` reads a file, and `load` adds its molecules to the campaign and records its values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.record_results_and_place import settle_again
from sciagent.campaign.people.verify_calculate_and_add import PersonalProposals, fast_worker
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.display_units import Column
from sciagent.domain.evidence_keys_and_pooled_replicates import EvidenceKey, Measured
from sciagent.domain.lab_messages_and_codes import LabAnswer
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.domain.safe_text_and_durations import cut
from sciagent.domain.states_and_needs import JobState, Standing
from sciagent.errors import InputFileError, UsageError, did_you_mean
from sciagent.inputs.saved_tables import TableRow, read_table
from sciagent.inputs.yaml_validation import file_hash
from sciagent.lab.record_answers import answer_equal_tasks, place_again
from sciagent.lab.typed_answers import typed
from sciagent.store.campaign_state import campaigns, candidate_standings, note_and_take_watermarks
from sciagent.store.lab import tasks
from sciagent.store.people import audit
from sciagent.store.results import candidates, evidence
from sciagent.store.results.evidence import NewEvidence
from sciagent.store.results.evidence_seals import answered_for
from sciagent.verification.verifier_contract import WorldVerifier

MAX_ROWS = 10_000
MAX_FAULTS = 50
MAX_TEXT = 80  # characters of a structure in a message


@dataclass
class LoadReport:
    """The counts of a load, and the structures that were left out."""

    rows: int = 0
    """Number of rows with a value."""
    recorded: int = 0
    """Number of values that are evidence now."""
    known: int = 0
    """Number of values that were evidence before."""
    revised: int = 0
    """Number of values that correct earlier ones."""
    faults: list[str] = field(default_factory=list)
    """Structures that the campaign does not take, and why."""


@dataclass(frozen=True)
class OldRow:
    """A row of a file."""

    structure: str
    """The structure as it stands in the file."""
    answer: LabAnswer


@dataclass(frozen=True)
class OldValues:
    """The rows of a file that have a value, as answers of a rung."""

    rung: BuiltRung
    rows: Sequence[OldRow]
    source: str
    """Name and hash of the file."""

    @property
    def structures(self) -> list[str]:
        """Returns each structure once."""
        return list(dict.fromkeys(row.structure for row in self.rows))


def load(built: Built, old: OldValues, who: str, why: str = "") -> LoadReport:
    """Adds the molecules of old values to the campaign, and records the values as answers of their rung, all in one
    transaction. A molecule with several rows has replicates.

    why: reason for values that differ from those in the ledger. A structure that the campaign does not take is left
    out. Raises UsageError if a value differs and there is no reason, if a row lacks a quantity, or if a person has the
    task; then nothing is written, and no molecule is added.
    """
    report = LoadReport(rows=len(old.rows))
    rung = old.rung
    with fast_worker(built) as worker:
        proposed = PersonalProposals(built, worker, map(ProposalIn, old.structures))
    with built.ledger.begin() as connection:
        writer = _Writer(connection, built, rung, who, why, old.source, report)
        writer.lock(candidates.ids_of(connection, proposed.keys).values())
        added = proposed.write(connection, who, f"old values of {old.source}")
        keys = {each.text: each.key for each in added if each.key}  # {structure as it stands in the file: key}
        report.faults = [f"{cut(each.text, MAX_TEXT)}: {each.reason}: {each.detail}" for each in added if not each.key]
        ids = candidates.ids_of(connection, list(keys.values()))
        rows_with_ids = []
        for row in old.rows:
            if row.structure in keys:
                candidate_key = keys[row.structure]
                rows_with_ids.append((ids[candidate_key], row))
        before = evidence.lock_watermark(connection)
        writer.write(rows_with_ids)
        about: dict[str, object] = {"file": old.source, "rung": rung.spec.rung, "rows": report.rows}
        if report.recorded:
            about |= answered_for(connection, before + 1, evidence.read_watermark(connection))
        audit.append(connection, who, "loaded old values", "campaign", built.row.id, campaign_id=built.row.id, **about)
        campaigns.wake(connection, built.row.id)
    return report


def read_old(built: Built, label: str, path: Path, columns: Sequence[Column], structure: str = "smiles") -> OldValues:
    """Returns the rows of a file that have a value; units and limits are read as in a form.

    label: of the rung. structure: column with the structures. Raises InputFileError with all faults of the file, and
    UsageError if people do not do the rung, or if it asks for a review.
    """
    rung = _rung(built, label)
    rows = _read(path, structure, columns, rung)
    if not rows:
        raise UsageError(f"{path}: no row has a value")
    return OldValues(rung, rows, f"{path.name[:120]} sha256:{file_hash(path)[:16]}")


def _rung(built: Built, label: str) -> BuiltRung:
    """Returns the rung with a label. Raises UsageError if people do not do it, or if it asks for a review."""
    asked = {rung.spec.rung: rung for rung in built.asked}  # the rungs that people do, by label
    if label not in asked:
        raise UsageError(f'"{label}" is no rung of people{did_you_mean(label, asked)}; they do: {", ".join(asked)}')
    rung = asked[label]
    if rung.spec.lab is not None and rung.spec.lab.review:
        raise UsageError(f"answers of {label} need a second person; enter them one by one: sciagent lab enter")
    return rung


def _read(path: Path, structure: str, columns: Sequence[Column], rung: BuiltRung) -> list[OldRow]:
    """Returns the rows that have a value. Raises InputFileError for the whole file."""
    asked = {measure.property.name for measure in rung.verifier.measures}
    for column in columns:
        name = column.property
        if name not in asked:
            raise UsageError(f"{rung.spec.rung} does not ask for {name}{did_you_mean(name, asked)}")
    table = read_table(path, (structure, *(column.name for column in columns)))
    uncertainties = [column.uncertainty for column in columns if column.uncertainty is not None]
    rows = list[OldRow]()
    faults = list[str]()
    for row in table.rows(numbers=[*(column.name for column in columns), *uncertainties]):
        place = row.place(structure) if table.is_workbook else str(row.line)
        try:
            answer = _answer(row, columns)
        except UsageError as error:
            faults.append(f"{path}:{place}: {error}")
            continue
        if answer is not None:
            rows.append(OldRow(row.cells[structure], answer))
        if len(rows) > MAX_ROWS:
            raise InputFileError(f"{path}: more than {MAX_ROWS} rows; split the file")
    if faults:
        raise InputFileError("\n".join([*faults[:MAX_FAULTS], "nothing was loaded; mend the file"]))
    return rows


def _answer(row: TableRow, columns: Sequence[Column]) -> LabAnswer | None:
    """Returns the answer of a row; None if it is empty. Raises UsageError if a cell cannot be read."""
    if row.surplus is not None:
        raise UsageError("more cells than the header has; put texts with commas in quotation marks")
    for name, fault in row.faults.items():
        raise UsageError(f"{row.address(name)}: {fault}")
    values = {}
    for column in columns:
        text = row.cells[column.name]
        if not text:
            continue
        unit = column.unit or properties()[column.property].unit
        if unit in row.cells:  # the name of a column with the units
            unit = row.cells[unit]
        uncertainty = column.uncertainty
        if uncertainty is not None and uncertainty in row.cells:  # the name of a column with the uncertainties
            uncertainty = row.cells[uncertainty] or None
        # the unit "1" stands for no unit, and is not typed; Excel writes a percentage with its sign
        is_whole = unit == "1" or (unit == "%" and text.endswith("%"))
        values[column.property] = typed(column.property, text if is_whole else f"{text} {unit}", uncertainty)
    return LabAnswer(values) if values else None


@dataclass
class _Writer:
    """Writes the answers of one file in one transaction, and counts them in `report`."""

    connection: Connection
    built: Built
    rung: BuiltRung
    who: str
    why: str
    source: str
    report: LoadReport

    def lock(self, candidate_ids: Iterable[int]) -> None:
        """Locks all campaigns whose candidates may be placed again, in one order."""
        computation = self.rung.verifier.computation
        campaign_ids = {self.built.row.id}
        for candidate_id in candidate_ids:
            for campaign_id, _ in campaigns.campaigns_with_rung(self.connection, candidate_id, computation):
                campaign_ids.add(campaign_id)
        for campaign_id in sorted(campaign_ids):
            note_and_take_watermarks.lock(self.connection, campaign_id)

    def write(self, rows: Sequence[tuple[int, OldRow]]) -> None:
        """Records the answers of the rows. rows: (candidate id, row)."""
        loaded = candidates.load(self.connection, [id_ for id_, _ in rows])
        replicates = Counter[int]()
        for id_, row in rows:
            key = self.rung.verifier.evidence_key(loaded[id_], replicates[id_])
            replicates[id_] += 1
            self._write(loaded[id_], id_, key, row.answer)

    def _write(self, candidate: Candidate, id_: int, key: EvidenceKey, answer: LabAnswer) -> None:
        """Records the answer of one row, unless the ledger has the same values. id_: of the candidate."""
        verifier = self.rung.verifier
        connection = self.connection
        assert isinstance(verifier, WorldVerifier)  # the registry checks it
        finding = verifier.read(candidate, answer)
        open_quantities = verifier.form(candidate).open_quantities(answer)
        if open_quantities:
            raise UsageError(
                f"{candidate.text}: no value for {', '.join(open_quantities)}; a file brings all quantities of "
                f"{self.rung.spec.rung} (nothing was loaded)"
            )
        # (evidence, its revision); None without evidence
        current = evidence.latest_with_revision(connection, [id_], verifier.computation, key.replicate).get(id_)
        if current is not None and _values(current[0].measured) == _values(finding.measured):
            self.report.known += 1
            return
        if current is not None and not self.why:
            raise UsageError(
                f"{candidate.text}: {self.rung.spec.rung} has {_in_words(current[0].measured)} in the ledger, and "
                f"{_in_words(finding.measured)} in the file; correct it with the reason: --revise (nothing was loaded)"
            )
        open_tasks = tasks.asking_for(connection, key.hash)
        for task in open_tasks:
            if task.state is JobState.RUNNING:
                raise UsageError(
                    f"{candidate.text} is with {task.claimed_by} as task {task.id}; enter it there: sciagent lab enter "
                    f"{task.id} (nothing was loaded)"
                )
        superseded_id = None
        if current is not None:
            current_evidence, current_revision = current
            superseded_id = current_evidence.id
            key = replace(key, revision=current_revision + 1)
            self.report.revised += 1
        new = NewEvidence(
            finding, key, id_, source=self.source, who=self.who, why=self.why or None, supersedes=superseded_id
        )
        [evidence_id] = evidence.record(connection, [new])
        self.report.recorded += 1
        answer_equal_tasks(
            connection, self.built.ledger, open_tasks, evidence_id, self.source, "the file has the value"
        )
        self._reuse(id_, evidence_id)
        # a changed value or a further replicate may change a verdict that was given before
        if current is not None or key.replicate:
            place_again(
                connection, self.built, id_, verifier.computation, f"{self.source}: {self.why or 'a replicate'}"
            )

    def _reuse(self, candidate_id: int, evidence_id: int) -> None:
        """Places a candidate that waits for the rung. For any other candidate the driver reuses the value in its
        turn."""
        standing = candidate_standings.get(self.connection, self.built.row.id, candidate_id)
        if standing["standing"] != Standing.OPEN or standing["position"] != self.rung.rules.position:
            return
        decision = {
            "candidate_id": candidate_id,
            "rung_id": self.rung.id,
            "action": "reuse",
            "chooser": self.source,
            "why": "the file has the value",
            "propensity": 1.0,
            "evidence_id": evidence_id,
        }
        candidate_standings.decide(self.connection, self.built.row.id, [decision])
        settle_again(self.connection, self.built, candidate_id, answered=self.rung.rules.position)


def _in_words(measured: Sequence[Measured]) -> str:
    """Returns values for a message."""
    return ", ".join(f"{value.property} {value.quantity}" for value in measured) or "no value"


def _values(measured: Sequence[Measured]) -> object:
    """Returns what two answers have in common if they state the same values."""
    compared = []
    for value in measured:
        quantity = value.quantity
        compared.append((value.property, quantity.value, quantity.uncertainty, quantity.censoring))
    return sorted(compared)
