"""Runs verifiers for a person outside of a driver: `sciagent verify`, `sciagent calc`, and the fast rungs of added
candidates.

`verify` runs one candidate up a ladder, and `calc` one verifier on molecules, both without a campaign. The ledger keeps
the evidence.

The fast rungs of a campaign run in the person's own process for candidates that the person adds, and before a
promotion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import (
    Built,
    BuiltRung,
    built_ladder,
    built_rungs,
    check_engines,
    prepare,
)
from sciagent.campaign.core.calibrate_to_imported_values import fits_of
from sciagent.campaign.core.create_and_open import grown_files
from sciagent.campaign.core.record_results_and_place import (
    answer_of,
    experimental_values_of,
    known_or_run,
    log_blocked,
    run_directly,
)
from sciagent.campaign.core.verdicts_and_places import NO_VALUES, Answer, ExperimentalValues, is_spared, place
from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.file.proposers import ScreenSpec
from sciagent.campaign.file.rungs import RungSpec
from sciagent.campaign.file.subject_and_safety import stated_column
from sciagent.campaign.people.find_candidate import FoundCandidate
from sciagent.campaign.proposing.campaign_workbench import CampaignWorkbench
from sciagent.campaign.proposing.write_turns import TurnWriter
from sciagent.chemistry.molecule_files import StructureRecord
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.answers.candidate_and_value_answers import (
    CalculatedCandidate,
    LadderAnswer,
    PropertyValue,
    RungAnswer,
    ShownValue,
)
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND, STANDARDISED, smiles_of
from sciagent.domain.display_units import Units, in_chosen_units
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Verdict
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.domain.quantities import conversion_factor
from sciagent.domain.rung_calibration_on_measurements import calibrated
from sciagent.domain.states_and_needs import Hear, Standing, Verb
from sciagent.errors import InvalidCandidateError, UsageError, did_you_mean
from sciagent.execution.worker.read_claimed_jobs import scratch_of
from sciagent.store.campaign_state import candidate_standings, directives, note_and_take_watermarks
from sciagent.store.campaign_state.campaigns import log_event, new_owner
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, evidence
from sciagent.store.results.evidence import RecordedEvidence
from sciagent.verification.declarations_and_availability import entry
from sciagent.verification.sandbox.host import Worker
from sciagent.verification.verifier_contract import ANY_KIND
from sciagent.verification.verifier_registry import verifier_class

MAX_TEXT = 4000  # characters kept of a text that could not be read, or that the safety screen refused
MAX_LOGGED_TEXT = 500  # characters kept of a text that is logged without the safety screen


def verify_one(ledger: Ledger, spec: CampaignSpec, given: str, who: str = "") -> LadderAnswer:
    """Returns the ladder's answers on a candidate. Evidence in the ledger is reused; new evidence is recorded there.

    given: the candidate in any notation. A candidate that the safety screen refuses goes no further, and the refusal
    is logged. If the spec turns the screen off, the spec's reason is logged. who: name of the person, for the log.
    """
    try:
        candidate = spec.standardisation.apply(given).candidate
    except InvalidCandidateError as error:
        # the text becomes no candidate, so the answer repeats the text itself
        about = {"kind": spec.subject, "text": given[:MAX_TEXT], "reason": error.reason, "detail": error.detail}
        return LadderAnswer(key=None, verdict=Verdict.FAIL, rungs=(), **about)
    with ledger.begin() as connection:
        fits = fits_of(connection, spec)
        candidate_id = candidates.enter(connection, [candidate])[candidate.key]
        if not spec.safety.screen:
            payload = {"key": candidate.key, "text": given[:MAX_LOGGED_TEXT], "reason": spec.safety.reason, "who": who}
            log_event(connection, None, "safety_off", payload)
    ladder = built_ladder(spec, fits)
    for rung in ladder.rungs:
        check_engines(rung)
    prepare(ladder.rungs)
    with ledger.read() as connection:
        experimental = experimental_values_of(connection, ladder, [candidate_id]).get(candidate_id, NO_VALUES)
    answers: list[Answer] = []
    rows: list[RungAnswer] = []
    units = ladder.spec.chosen_units()
    with Worker(scratch_of(ledger.artifacts)) as worker:
        for rung in ladder.rungs:
            if is_spared(rung.rules, experimental):
                continue
            result, core_seconds = known_or_run(ledger, worker, rung, candidate, candidate_id)
            rows.append(_row(rung, result, core_seconds, units, candidate.charge, experimental))
            answers.append(answer_of(rung, result, experimental))
            current_place = place(ladder.rules, ladder.objectives, answers, experimental=experimental)
            if current_place.standing is not Standing.OPEN:
                break
    verdict = current_place.verdict or Verdict.PASS
    reason = current_place.reason
    detail = current_place.detail
    if verdict is Verdict.NOT_APPLICABLE:
        # the last rung refused the candidate: if a refusal drops it, the answer is the same as a failed gate
        verdict = Verdict.FAIL if ladder.rules[current_place.position].drop_on_refusal else Verdict.INCONCLUSIVE
        if ladder.rungs[current_place.position].verifier.name == spec.screen:
            blocked = {"key": candidate.key, "text": given[:MAX_TEXT], "reason": reason or "", "detail": detail}
            with ledger.begin() as connection:
                log_blocked(connection, None, **blocked, operation="verify")
    return LadderAnswer(
        key=candidate.key,
        kind=candidate.kind,
        text=candidate.text,
        formula=candidate.formula,
        smiles=smiles_of(candidate.kind, candidate.text),
        drawn_from=ladder.subject.notation(candidate),
        verdict=verdict,
        reason=reason,
        detail=detail,
        rungs=tuple(rows),
    )


def _row(
    rung: BuiltRung,
    result: Finding | RecordedEvidence,
    core_seconds: float | None,
    units: Units,
    charge: int,
    experimental: ExperimentalValues = NO_VALUES,
) -> RungAnswer:
    """Returns a rung's answer. core_seconds: cost of the run; None for reused evidence. charge: of the candidate.
    experimental: values that decide in its place."""
    judgement = answer_of(rung, result, experimental).judgement
    shown = in_chosen_units(calibrated(result.measured, rung.fits, charge), units)
    return RungAnswer(
        rung=rung.spec.rung,
        tier=rung.rules.tier,
        outcome=result.outcome,
        **judgement._asdict(),
        reused=core_seconds is None,
        core_seconds=round(core_seconds or 0.0, 3),
        values={measured.property: ShownValue.of(measured) for measured in shown},
    )


def rungs_for(
    verifier: str, settings: Mapping[str, Any], folder: Path, molecules: Iterable[StructureRecord] = ()
) -> tuple[BuiltRung, ...]:
    """Returns the safety screen and the verifier as rungs that are ready to run.

    folder: where relative paths in the settings start. molecules: the molecules to calculate; their charges choose the
    defaults of settings that are not stated, so that all molecules have one level of theory. Raises UsageError for an
    unknown verifier or bad settings.
    """
    subject = subject_for(verifier)
    stated_rungs: list[dict[str, Any]] = []
    if subject.screen not in (verifier, None):
        stated_rungs.append({"verifier": subject.screen})
    stated_rungs.append({"verifier": verifier, "settings": dict(settings)})
    try:
        rungs = [RungSpec.model_validate(rung, context={"base": folder}) for rung in stated_rungs]
    except ValidationError as error:
        raise UsageError("; ".join(_message(verifier, fault) for fault in error.errors())) from None
    *screens, rung = rungs  # the safety screen, unless the verifier is the screen or the subject has none
    rung_for_molecules = rung.for_charges(_charges(subject, molecules))
    return built_rungs([*screens, rung_for_molecules])


def subject_for(verifier: str) -> Subject:
    """Returns the subject whose candidates a verifier takes; molecules for one that takes all.

    Raises UsageError for an unknown verifier."""
    kind = verifier_class(verifier).kind
    return subject_of(MOLECULE_KIND if kind == ANY_KIND else kind)


def _charges(subject: Subject, records: Iterable[StructureRecord]) -> set[int]:
    """Returns the net charges of the structures that can be read."""
    charges = set()
    for record in records:
        with suppress(InvalidCandidateError):
            charges.add(subject.read(record.text).charge)
    return charges


def _message(verifier: str, fault: Any) -> str:
    """Returns the message on a mistake in the settings. fault: one of pydantic's descriptions of mistakes."""
    path = [str(step) for step in fault["loc"] if step != "settings"]
    place = ".".join(path)
    if fault["type"] != "extra_forbidden":
        return f"{place or verifier}: {fault['msg'].removeprefix('Value error, ')}"
    known = [setting["name"] for setting in entry(verifier, {})["settings"]]
    return f'{verifier} has no setting "{place}"{did_you_mean(place, known)}; it takes: {", ".join(known) or "none"}'


def check_units(rung: BuiltRung, units: Units) -> None:
    """Raises UsageError for a property that the rung does not measure, and UnitError for a unit it does not take."""
    measured = {item.property.name for item in rung.verifier.measures}
    for name, unit in units.items():
        if name not in measured:
            raise UsageError(f'{rung.verifier.name} does not measure "{name}"{did_you_mean(name, sorted(measured))}')
        if properties()[name].conversion(unit) is None:
            conversion_factor(unit, properties()[name])  # raises UnitError


def calculate(
    ledger: Ledger,
    rungs: Sequence[BuiltRung],
    molecules: Iterable[StructureRecord],
    units: Units | None = None,
    who: str = "",
    worker: Worker | None = None,
    hear: Hear | None = None,
) -> Iterator[CalculatedCandidate]:
    """Yields the verifier's answer on each molecule. Evidence in the ledger is reused, new evidence is recorded there.

    rungs: as `rungs_for` returns them. worker: a process that has started already; by default a new one, which ends
    with the last molecule. hear: takes the progress of long verifications.

    A molecule that the safety screen refuses is not calculated, and the refusal is logged. Names from a file are
    stored.
    """
    for rung in rungs:
        check_engines(rung)
    prepare(rungs)
    with ExitStack() as leaving:
        if worker is None:
            worker = Worker(scratch_of(ledger.artifacts), preload=[rung.verifier.name for rung in rungs])
            leaving.enter_context(worker)
        for molecule in molecules:
            yield _calculated(ledger, worker, rungs, molecule, units or {}, who, hear)


def _calculated(
    ledger: Ledger,
    worker: Worker,
    rungs: Sequence[BuiltRung],
    molecule: StructureRecord,
    units: Units,
    who: str,
    hear: Hear | None,
) -> CalculatedCandidate:
    """Returns the answer of the last rung on a molecule, or of the first rung without a value."""
    text = molecule.text
    subject = subject_for(rungs[-1].verifier.name)
    names = dict(molecule.names)
    given = {field: (name,) for field, name in names.items()}
    try:
        made = subject.reading().apply(text)
    except InvalidCandidateError as error:
        why = molecule.fault or error.detail
        return CalculatedCandidate(text=text, names=given, outcome=Outcome.REFUSED, reason=error.reason, detail=why)
    candidate = made.candidate
    if names and made.row_note:
        names[STANDARDISED] = made.row_note
        given[STANDARDISED] = (made.row_note,)
    with ledger.begin() as connection:
        candidate_id = candidates.enter(connection, [candidate])[candidate.key]
        candidates.enter_names(connection, None, [(candidate_id, names)])
    for rung in rungs:
        answer, core_seconds = known_or_run(ledger, worker, rung, candidate, candidate_id, hear)
        if answer.outcome is not Outcome.OK:
            break
    if rung.verifier.name == subject.screen and answer.outcome is Outcome.REFUSED:
        blocked = {"key": candidate.key, "text": text, "reason": str(answer.reason), "detail": answer.detail}
        with ledger.begin() as connection:
            log_blocked(connection, None, **blocked, operation="calc", who=who)
    return CalculatedCandidate(
        text=text,
        names=given,
        key=candidate.key,
        smiles=smiles_of(candidate.kind, candidate.text),
        structure=candidate.text,
        formula=candidate.formula,
        outcome=answer.outcome,
        reason=answer.reason,
        detail=answer.detail,
        reused=core_seconds is None,
        core_seconds=round(core_seconds or 0.0, 3),
        values=tuple(PropertyValue.of(measured) for measured in in_chosen_units(answer.measured, units)),
    )


BATCH = 100  # candidates per transaction


def proposals_of_file(built: Built, file: Path, column: str | None = None) -> Iterator[ProposalIn]:
    """Yields the structures of a person's file as proposals.

    Of the file of a `screen` of the campaign, only the rows are yielded that were added at its end since the campaign
    began, with the columns that the campaign keeps; the proposer brings the others. column: with the structures; None
    means that of the campaign, or the subject's."""
    skip = 0
    keep: Sequence[str] | None = None
    for _, proposer in built.spec.proposers:
        if isinstance(proposer, ScreenSpec) and (built.spec.base / proposer.file).resolve() == file.resolve():
            keep = proposer.keep
            column = column or stated_column(proposer)
    for grown in grown_files(built.spec, built.row):
        if grown.path.resolve() == file.resolve():
            n_records = sum(1 for _ in built.subject.records(file, column))
            skip = n_records - grown.n_later
    for record in built.subject.records(file, column, skip, keep):
        yield ProposalIn(record.text, rationale=record.fault, names=record.names)


@dataclass(frozen=True)
class AddedCandidate:
    """The result of adding one structure."""

    text: str
    """The structure as the person wrote it."""
    status: str
    """`new`, `duplicate` or `refused`."""
    key: str | None
    """Key of the candidate; None if the structure was refused."""
    standing: str | None
    """Standing of the candidate in the campaign; None if the structure was refused."""
    reason: str | None
    """Reason why the structure was refused or the candidate dropped."""
    detail: str
    """Details of the reason."""
    candidate: str = ""
    """Notation of the candidate; empty if the structure was refused."""
    note: str = ""
    """How the candidate was made from the structure, such as `hydrogen chloride removed`; empty if it is the same."""


class PersonalProposals:
    """A person's proposals on which the fast rungs have run, and which are not in the ledger yet."""

    def __init__(self, built: Built, worker: Worker, given: Iterable[ProposalIn]) -> None:
        self._built = built
        self._bench = CampaignWorkbench(built, worker)
        proposals = iter(given)
        while batch := list(islice(proposals, BATCH)):
            self._bench.propose(batch)

    @property
    def keys(self) -> list[str]:
        """Returns the key of each candidate once."""
        return list(dict.fromkeys(entry.candidate.key for entry in self._bench.entries if entry.candidate))

    def write(self, connection: Connection, who: str, why: str) -> list[AddedCandidate]:
        """Writes the proposals to the ledger with the person's name and reason; returns what became of each.

        The caller holds the lock of the campaign's row, and has taken no watermark.
        """
        campaign_id = self._built.row.id
        entries = self._bench.entries
        answers = [entry.out() for entry in entries]  # one for each candidate of a structure
        TurnWriter(self._built, new_owner()).write_proposals(connection, [self._bench])
        ids = candidates.ids_of(connection, self.keys)
        for key in self.keys:
            directives.write(connection, campaign_id, Verb.ADD, who, why, candidate_id=ids[key])
        rows = {key: candidate_standings.get(connection, campaign_id, id_) for key, id_ in ids.items()}
        added = []
        for entered, answer in zip(entries, answers, strict=True):
            if answer.key:
                row = rows[answer.key]
            else:  # the structure was refused, and the campaign has no candidate for it
                # a record of a file without a text says why in its rationale
                why_refused = answer.detail if entered.given.text else entered.given.rationale or answer.detail
                row = {"standing": None, "reason": answer.reason, "detail": why_refused}
            result = AddedCandidate(
                text=entered.given.text,
                status=answer.status,
                key=answer.key,
                standing=row["standing"],
                reason=row["reason"],
                detail=row["detail"] or "",
                candidate=answer.candidate,
                note=entered.detail if entered.candidate else "",
            )
            added.append(result)
        return added


def add(built: Built, given: Iterable[ProposalIn], who: str, why: str) -> Iterator[AddedCandidate]:
    """Parses a person's proposals, runs the fast rungs on them and writes them to the ledger with the person's name and
    reason, `BATCH` at a time. A driver may run at the same time."""
    proposals = iter(given)
    with fast_worker(built) as worker:
        while batch := list(islice(proposals, BATCH)):
            proposed = PersonalProposals(built, worker, batch)
            with built.ledger.begin() as connection:
                note_and_take_watermarks.lock(connection, built.row.id)
                added = proposed.write(connection, who, why)
            yield from added


def fast_worker(built: Built) -> Worker:
    """Returns a worker that runs the fast rungs of a campaign in processes of its own, when it is entered."""
    prepare(built.fast)
    return Worker(built.scratch(), preload=[rung.verifier.name for rung in built.fast])


def complete_fast(built: Built, named: FoundCandidate, who: str) -> str:
    """Runs the fast rungs that did not run because an earlier rung dropped the candidate.

    Returns the safety screen's reason for a block, which is logged; an empty text if the screen blocks nothing. Raises
    UsageError if a rung cannot decide.
    """
    results: dict[int, Finding | RecordedEvidence] = {}
    with built.ledger.read() as connection:
        candidate = candidates.load(connection, [named.id])[named.id]
        for rung in built.fast:
            known = evidence.find_reusable(connection, [named.id], rung.verifier.computation)
            if named.id in known:
                results[rung.id] = known[named.id]
    missing = [rung for rung in built.fast if rung.id not in results]
    if missing:
        prepare(missing)
        with Worker(built.scratch(), preload=[rung.verifier.name for rung in missing]) as worker:
            for rung in missing:
                finding = run_directly(built.ledger, worker, rung, candidate, named.id, built.row.id).finding
                if not finding.outcome.rule.is_evidence:
                    why = f"{finding.reason}: {finding.detail}"
                    raise UsageError(f"{named}: {rung.spec.rung} could not say whether it may be promoted: {why}")
                results[rung.id] = finding
    screens = [results[rung.id] for rung in built.fast if rung.verifier.name == built.subject.screen]
    if not screens or screens[0].outcome is not Outcome.REFUSED:
        return ""
    screen = screens[0]
    stated = {"key": named.key, "text": named.text, "reason": str(screen.reason), "detail": screen.detail}
    with built.ledger.begin() as connection:
        log_blocked(connection, built.row.id, **stated, asked="promote", who=who)
    return f"{screen.reason}: {screen.detail}"
