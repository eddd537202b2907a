"""Creates, amends and opens campaigns of the ledger, from the spec as the ledger has it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from shlex import quote
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung, build_rungs, check_derived
from sciagent.campaign.core.calibrate_to_imported_values import LedgerFits, fit_lines, fits_of
from sciagent.campaign.core.lines_to_deciding_rungs import deciding_phases, deciding_positions
from sciagent.campaign.core.product_libraries import unused_reactants
from sciagent.campaign.core.value_sources import ValueSource, refuse_other_level, sources_of
from sciagent.campaign.file.allow_list import AllowList
from sciagent.campaign.file.campaign_spec import CampaignSpec, parse_spec
from sciagent.campaign.file.proposers import ScreenSpec
from sciagent.campaign.file.spec_differences import Change, changes
from sciagent.campaign.file.subject_and_safety import stated_column
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.states_and_needs import Standing
from sciagent.errors import UsageError
from sciagent.inputs.yaml_validation import file_hash, length_of_beginning
from sciagent.scheduling.rules.priced_settings import PricedSpec
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, reservations_and_bookings
from sciagent.store.learning import law_entries
from sciagent.store.learning.law_entries import EntryRow
from sciagent.store.results import candidates, pooled_replicates
from sciagent.verification.verifier_registry import Defined, defined, is_function, verifier_names

ROWS_PER_LOOKUP = 50_000  # added structures that are looked up at a time


class EntryKind(StrEnum):
    """How a campaign was entered in the ledger."""

    CREATED = "created"
    AMENDED = "amended"
    OPENED = "opened"


MAX_ASKED_OF_PAST = 4_000  # candidates of a campaign among which values are looked for


@dataclass(frozen=True)
class Entered:
    """A campaign that was entered in the ledger, with all that its user is told before it runs."""

    built: Built
    entry: EntryKind
    amendments: tuple[str, ...] = ()
    """Changes to the stored campaign, as `path: old -> new`."""
    kept: tuple[str, ...] = ()
    """A sentence on each amended value of the stored campaign for which the given spec has the value of before."""
    fits: LedgerFits | None = field(default=None, repr=False)
    """The calibrations, if entering it made them."""

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """A sentence on each list of reactants of which the proposer's reaction cannot use some. Raises UsageError, or
        InputFileError for a list that cannot be read."""
        return tuple(unused_reactants(self.built.spec))

    @cached_property
    def grown(self) -> list[str]:
        """A sentence on each file of structures to which rows were added since the campaign began."""
        return grown_sentences(self.built)

    @cached_property
    def calibrations(self) -> tuple[str, ...]:
        """A sentence on each calibration on measured values, with its leave-one-out error. A driver that starts now
        makes the same ones. Raises UsageError if one cannot be made."""
        fits = self.fits
        if fits is None:
            with self.built.ledger.read() as connection:
                fits = fits_of(connection, self.built.spec)
        return tuple(fit_lines(self.built.spec, fits))


@dataclass(frozen=True)
class GrownFile:
    """A file of structures of a `screen` proposer to which rows were added at its end since the campaign began."""

    where: tuple[str, ...]
    """Its path of keys in the proposer."""
    path: Path
    proposer: ScreenSpec
    sha256: str
    """Hash of the file as it was."""
    length: int
    """Its length in bytes as it was."""
    n_later: int
    """Number of structures that were added."""

    def n_lacking(self, connection: Connection, row: CampaignRow) -> int:
        """Returns the number of added structures that the campaign lacks: their text was never proposed to it."""
        texts = _texts_behind(row.spec["subject"], self.proposer, self.path, self.length)
        n_lacking = 0
        while True:
            batch = [candidates.stored_proposal(text) for text in islice(texts, ROWS_PER_LOOKUP)]
            if not batch:
                return n_lacking
            proposed = candidates.proposed_among(connection, row.id, batch)
            n_lacking += len([text for text in batch if text not in proposed])

    def sentence(self, campaign: str, n_lacking: int) -> str:
        """Returns what the campaign does with the rows that it lacks, and the command that brings them in."""
        rows = "1 row" if n_lacking == 1 else f"{n_lacking} rows"
        them = "it" if n_lacking == 1 else "them"
        column = self.proposer.column
        option = f" --column {quote(column)}" if "column" in self.proposer.model_fields_set else ""
        return (
            f"{self.path.name} has {rows} at its end that {campaign} lacks: its proposer leaves out what was added "
            f"after the campaign began; to bring {them} in: "
            f'sciagent add --file {quote(str(self.path))}{option} --campaign {campaign} --reason "..."'
        )


def grown_sentences(built: Built) -> list[str]:
    """Returns a sentence on each file of structures to which rows were added that the campaign lacks. Raises
    InputFileError for a file that cannot be read."""
    lines = []
    for file in grown_files(built.spec, built.row):
        with built.ledger.read() as connection:
            n_lacking = file.n_lacking(connection, built.row)
        if n_lacking:
            lines.append(file.sentence(built.row.name, n_lacking))
    return lines


def grown_files(spec: CampaignSpec, row: CampaignRow) -> list[GrownFile]:
    """Returns the files of `screen` proposers that begin with the content that they had when the campaign began.

    A packed file is never found to have grown. Raises InputFileError for a file that cannot be read."""
    grown = []
    for name, proposer in spec.proposers:
        if not isinstance(proposer, ScreenSpec):
            continue
        stored = row.spec["proposer"]
        stored = stored["proposers"].get(name) if name else stored
        sha256 = (stored or {}).get("file", {}).get("sha256") if isinstance(stored, Mapping) else None
        path = spec.base / proposer.file
        if sha256 is None or not path.is_file() or file_hash(path) == sha256:
            continue
        length = length_of_beginning(path, sha256)
        if length is not None:
            n_later = sum(1 for _ in _texts_behind(spec.subject, proposer, path, length))
            where = ("proposers", name, "file") if name else ("file",)
            grown.append(GrownFile(where, path, proposer, sha256, length, n_later))
    return grown


def _texts_behind(subject: str, proposer: ScreenSpec, path: Path, length: int) -> Iterator[str]:
    """Yields the structures behind the first `length` bytes of a file, below the header that a csv has."""
    with TemporaryDirectory(prefix="sciagent-") as folder, path.open("rb") as file:
        rest = Path(folder) / f"rest{path.suffix}"
        with rest.open("wb") as copy:
            header = file.readline() if path.suffix.lower() == ".csv" else b""
            copy.write(header)
            file.seek(length)
            copyfileobj(file, copy)
        for record in subject_of(subject).records(rest, stated_column(proposer)):
            yield record.text


def as_begun(spec: CampaignSpec, source: str, row: CampaignRow) -> CampaignSpec:
    """Returns the spec with the defaults and the files of structures that its campaign began with.

    source: the text of the spec."""
    if spec.identity_hash == row.identity_hash:
        return spec
    # a spec that is only read for a person's command has no hashes of files, and reads none
    grown = grown_files(spec, row) if spec.has_file_hashes else []
    for file in grown:
        spec = spec.file_as_begun(file.where, file.sha256, file.n_later)
    if spec.identity_hash == row.identity_hash:
        return spec
    spec_of_stored_file = spec if source == row.source else stored_spec(row, candidates=False)
    return spec.with_defaults_of(row.spec, spec_of_stored_file)


def stored_spec(row: CampaignRow, candidates: bool = True, allowed: AllowList | None = None) -> CampaignSpec:
    """Parses the stored spec. Raises UsageError if a rung is a function that is not defined in this process.

    candidates: whether the proposer's files must exist. allowed: what the spec may name beyond itself, if others write
    into the ledger; None: anything. Raises SpecError for a name that is not allowed.
    """
    known = verifier_names()
    functions = [rung["verifier"] for rung in row.spec["ladder"] if is_function(rung["settings"])]
    missing = [name for name in functions if name not in known]
    if missing:
        raise UsageError(
            f'campaign "{row.name}" has the rung {missing[0]}, a function of a notebook or a script, which this '
            "process does not have: go on where the function is defined, with run(); status, best, explain, report and "
            "export work here"
        )
    name = f"{row.name} (as stored)"
    base = Path(row.base)
    if candidates:
        return parse_spec(row.source, name, base, allowed=allowed)
    return _for_people(row.source, name, base, known, tuple(defined().values()))


@lru_cache(maxsize=32)
def _for_people(
    source: str, name: str, base: Path, verifiers: tuple[str, ...], functions: tuple[Defined, ...]
) -> CampaignSpec:
    """Parses a stored spec once: a server needs it for each page. verifiers, functions: all that the spec may name."""
    return parse_spec(source, name, base, candidates=False)


def create_or_open(
    ledger: Ledger,
    spec: CampaignSpec,
    source: str,
    who: str,
    why: str = "run with an amended file",
    may_undo: bool = False,
) -> Entered:
    """Creates the campaign, or opens the stored campaign of that name. who, why: for the log of amendments.

    Only the keys in `campaign_spec.AMENDABLE` may differ from the stored campaign; such changes are logged.
    may_undo: whether a value that an amendment has replaced is put back. Otherwise a spec that differs by such values
    alone is taken for a copy from before the amendment, and the stored campaign is opened. Raises UsageError with a
    diff of anything else.
    """
    entry = EntryKind.OPENED
    amendments: list[str] = []
    kept: tuple[str, ...] = ()
    fits: LedgerFits | None = None
    with ledger.begin() as connection:
        row = campaigns.find(connection, spec.campaign)
        if row is not None:
            spec = as_begun(spec, source, row)
            if not may_undo and (kept := _kept_amendments(connection, row, spec)):
                source = row.source
                stored = parse_spec(source, f"{row.name} (as stored)", spec.base, allowed=spec.allowed)
                spec = as_begun(stored, source, row)
        where = str(spec.base.resolve())
        stated: Any = {"spec": spec.canonical(), "spec_hash": spec.hash, "base": where, "source": source}
        check_derived(connection, spec)
        if row is None:
            if isinstance(spec.scheduler, PricedSpec) and spec.scheduler.law is not None:
                _require_campaign(connection, spec.scheduler.law.source)
            entry = EntryKind.CREATED
            fits = fits_of(connection, spec)
            identity = spec.identity_hash
            rungs = _rung_rows(spec)
            row = campaigns.create(connection, name=spec.campaign, identity_hash=identity, rungs=rungs, **stated)
        elif row.identity_hash != spec.identity_hash:
            address = ledger.url.render_as_string(hide_password=True)
            raise UsageError(
                f'campaign "{spec.campaign}" is in {address} already, with another spec:\n'
                f"  {spec.identity_diff(row.spec)}\n"
                "Budget, goal.count, limits, resources and workers may change, and rows may be added at the end of the "
                "file of a screen; for anything else give it a new name (evidence is reused)."
            )
        elif row.spec_hash != spec.hash:
            entry = EntryKind.AMENDED
            amendments = spec.diff(row.spec)
            old, new = json.loads(json.dumps([row.spec, stated["spec"]]))  # both with the types of JSON
            changed_keys = [key for key in new if old.get(key) != new[key]]
            changes = [(key, old.get(key), new[key]) for key in changed_keys]
            campaigns.amend(connection, row, changes=changes, who=who, why=why, **stated)
            _retry_limited(connection, row, new)
            row = campaigns.get(connection, spec.campaign)
        ladder = _stored_rungs(connection, row, spec)
        if entry is EntryKind.CREATED:
            for text, law in remembered_laws(connection, spec, ladder).items():
                law_entries.pin(connection, row.id, text, law)
    return Entered(Built(ledger, row, spec, ladder), entry, tuple(amendments), kept, fits)


def _kept_amendments(connection: Connection, row: CampaignRow, given: CampaignSpec) -> tuple[str, ...]:
    """Returns a sentence on each value of the given spec that an amendment of the stored campaign has replaced.

    Empty if nothing of it would be undone, or if the spec is another campaign's. Raises UsageError if the given spec
    would undo an amendment and changes something else, too: nobody can tell whether both are wanted.
    """
    if row.spec_hash == given.hash or row.identity_hash != given.identity_hash:
        return ()
    replaced = set[tuple[str, str]]()  # paths with the values that they had before an amendment
    for path, old, new in campaigns.amended_values(connection, row.id):
        replaced |= {(change.path, change.old) for change in changes({path: old}, {path: new})}
    stored, stated = json.loads(json.dumps([row.spec, given.canonical()]))  # both with the types of JSON
    undone = list[Change]()
    further = list[Change]()
    for change in changes(stored, stated):
        if (change.path, change.new) in replaced:
            undone.append(change)
        else:
            further.append(change)
    if undone and further:
        lines = "\n  ".join(change.line for change in (*undone, *further))
        raise UsageError(
            f'the file would undo an amendment of "{row.name}" and change something else:\n  {lines}\n'
            f"To take all of it: sciagent amend {row.name} --file FILE. To take a part, write the campaign's values "
            "into the file first."
        )
    kept = []
    for change in undone:
        kept.append(f"kept: {change.path} is {change.old} by an amendment; the file still says {change.new}")
    return tuple(kept)


def _require_campaign(connection: Connection, name: str) -> None:
    """Raises UnknownNameError if the ledger has no campaign of that name."""
    campaigns.get(connection, name)


def _require_past(connection: Connection, spec: CampaignSpec) -> None:
    """Raises UsageError if a campaign that a proposer's law is to remember has no values at the level of this one."""
    terminal = spec.ladder[spec.terminal_position]
    deciding = deciding_positions(spec.ladder[: spec.terminal_position + 1], spec.domain_objectives())
    rungs = {terminal.rung: terminal} | {
        spec.ladder[position].rung: spec.ladder[position] for position in deciding.values()
    }
    for remembering in spec.remembering:
        for name in remembering.past:
            earlier = campaigns.get(connection, name)
            computations = [rung.configured.computation for rung in rungs.values()]
            ladder = campaigns.rungs(connection, earlier.id)
            positions = [rung.position for rung in ladder if rung.computation in computations]
            answered = candidate_standings.answered_keys(connection, earlier.id, min(positions, default=0))
            ids = [id_ for id_, _ in islice(answered, MAX_ASKED_OF_PAST)]
            if not any(pooled_replicates.values_of(connection, ids, each) for each in computations):
                raise UsageError(
                    f'campaign "{name}" has no values of {" or ".join(rungs)}: a law remembers what the same verifier '
                    "measured in the same version and with the same settings"
                )


def remembered_laws(connection: Connection, spec: CampaignSpec, rungs: Sequence[BuiltRung]) -> Mapping[str, EntryRow]:
    """Returns the versions of the laws that a new campaign's proposers and filters remember, as the file names them.

    Raises UnknownNameError; UsageError for a law of another kind of candidates, of other properties, or of values from
    another computation, and for a campaign without values at the level of this one.
    """
    _require_past(connection, spec)
    entries = {}
    for text in dict.fromkeys(each.law for each in spec.remembering if each.law is not None):
        entry = law_entries.find(connection, text)
        if entry.kind != spec.subject:
            raise UsageError(f"{entry.version} is a law of {entry.kind}s, and the campaign is about {spec.subject}s")
        remembered = {each["name"]: ValueSource(**each["source"]) for each in entry.summary["quantities"]}
        refuse_other_level(entry.version, remembered, sources_of(rungs))
        entries[text] = entry
    return entries


def _stored_rungs(connection: Connection, row: CampaignRow, spec: CampaignSpec) -> tuple[BuiltRung, ...]:
    """Builds the ladder with row ids and learnt costs. Raises UsageError if a verifier has changed since."""
    rows = {r.name: r for r in campaigns.all_rungs(connection, row.id)}
    for rung in spec.all_rungs:
        verifier = rung.configured
        stored = rows[rung.rung]
        if (verifier.version, verifier.settings_hash) != (stored.verifier_version, stored.settings_hash):
            raise UsageError(
                f'rung "{rung.rung}": {rung.verifier} is now version {verifier.version}, with other settings or '
                f"defaults than when the campaign began (version {stored.verifier_version}); "
                "start a campaign of a new name"
            )
    ratios = {r.name: reservations_and_bookings.cost_ratios(connection, *r.computation) for r in rows.values()}
    built = build_rungs(spec, {name: r.id for name, r in rows.items()}, ratios)
    for each in built:
        each.all_fits.update(rows[each.spec.rung].all_fits)
    return built


def _retry_limited(connection: Connection, row: CampaignRow, canonical: Mapping[str, Any]) -> None:
    """Queues jobs again that exceeded a limit which was raised since. Such jobs have no evidence to supersede."""
    outcome_of_limit = {
        "wall_seconds": Outcome.TIMEOUT,
        "memory_mb": Outcome.OUT_OF_MEMORY,
        "stall_seconds": Outcome.TIMEOUT,
    }
    ladder = zip(campaigns.all_rungs(connection, row.id), row.spec["ladder"], canonical["ladder"], strict=True)
    pending_again = {"standing": Standing.PENDING, "verdict": None, "reason": None, "detail": ""}
    for rung, old, new in ladder:
        outcomes = []
        for limit, outcome in outcome_of_limit.items():
            if _amount(new["limits"][limit]) > _amount(old["limits"][limit]):
                outcomes.append(outcome)
        if not outcomes:
            continue
        candidate_ids = jobs.requeue(connection, row.id, rung.id, outcomes)
        if rung.control:
            continue  # a control changes no standing
        for candidate_id in candidate_ids:
            candidate_standings.update(connection, row.id, candidate_id, **pending_again)


def _amount(limit: float | None) -> float:
    """Returns the amount of a limit; no limit is infinite."""
    return math.inf if limit is None else limit


def open_stored(ledger: Ledger, name: str, who: str, allowed: AllowList | None = None) -> Entered:
    """Opens a stored campaign by name. Raises UnknownNameError, or SpecError if its files are missing.

    allowed: as `stored_spec` takes it."""
    with ledger.read() as connection:
        row = campaigns.get(connection, name)
    return create_or_open(ledger, stored_spec(row, allowed=allowed), row.source, who)


def open_campaign_for_people(ledger: Ledger, name: str) -> Built:
    """Opens a stored campaign for a person's command; the proposer's files need not exist."""
    with ledger.read() as connection:
        return open_within(connection, ledger, name)


def open_within(connection: Connection, ledger: Ledger, name: str) -> Built:
    """Opens a stored campaign like `open_campaign_for_people`, in a transaction that is open already.

    If many readers each wanted a second connection, they would wait for each other.
    """
    row = campaigns.get(connection, name)
    spec = as_begun(stored_spec(row, candidates=False), row.source, row)
    return Built(ledger, row, spec, _stored_rungs(connection, row, spec))


def _rung_rows(spec: CampaignSpec) -> Sequence[Mapping[str, Any]]:
    deciding = deciding_positions(spec.ladder[: spec.terminal_position + 1], spec.domain_objectives())
    phases = deciding_phases(spec)
    return [
        {
            "position": position,
            "name": rung.rung,
            "verifier": rung.configured.name,
            "verifier_version": rung.configured.version,
            "tier": str(rung.tier),
            "settings": rung.configured.settings.model_dump(mode="json"),
            "settings_hash": rung.configured.settings_hash,
            "gate": {} if rung.control else {k: [w.low, w.high] for k, w in rung.window_gates().items()},
            "control": rung.control,
            "decides": {name: phases[name] for name, decider in deciding.items() if decider == position},
        }
        for position, rung in enumerate(spec.all_rungs)
    ]
