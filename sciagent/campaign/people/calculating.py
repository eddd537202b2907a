"""Runs one verifier on molecules outside of any campaign, for `sciagent calc`. The ledger keeps the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sciagent.campaign.core.build import BuiltRung, built_rungs, check_engines, prepare
from sciagent.campaign.core.record import known_or_run, log_blocked
from sciagent.campaign.file.rungs import RungSpec
from sciagent.chemistry.structure_files import StructureRecord
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry import subject_of
from sciagent.domain.answers.values import CalculatedCandidate, PropertyValue
from sciagent.domain.candidates import MOLECULE_KIND, smiles_of
from sciagent.domain.chosen_units import Units, all_shown
from sciagent.domain.outcomes import Outcome
from sciagent.domain.properties import properties
from sciagent.domain.quantities import conversion_factor
from sciagent.errors import InvalidCandidateError, UsageError, did_you_mean
from sciagent.execution.worker.checkpoints import scratch_of
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, names
from sciagent.verification.catalogue import entry
from sciagent.verification.contract import ANY_KIND
from sciagent.verification.registry import verifier_class
from sciagent.verification.sandbox.host import Worker


def rungs_for(
    verifier: str, settings: Mapping[str, Any], folder: Path, molecules: Iterable[StructureRecord] = ()
) -> tuple[BuiltRung, ...]:
    """Returns the safety screen and the verifier as rungs that are ready to run.

    folder: where relative paths in the settings start. molecules: those to calculate, whose charges choose the defaults
    of settings that are not stated; all have one level. Raises UsageError for an unknown verifier or bad settings.
    """
    subject = subject_for(verifier)
    named = [{"verifier": subject.screen}] if subject.screen not in (verifier, None) else []
    try:
        rungs = [
            RungSpec.model_validate(rung, context={"base": folder})
            for rung in (*named, {"verifier": verifier, "settings": dict(settings)})
        ]
    except ValidationError as error:
        raise UsageError("; ".join(_message(verifier, fault) for fault in error.errors())) from None
    return built_rungs([*rungs[:-1], rungs[-1].for_charges(_charges(subject, molecules))])


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
    """Returns the message on a mistake in the settings. fault: as pydantic describes it."""
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
            conversion_factor(unit, properties()[name])


def structures_of(
    texts: Iterable[str],
    file: Path | None = None,
    column: str | None = None,
    keep: Sequence[str] | None = None,
    subject: Subject | None = None,
) -> Iterator[StructureRecord]:
    """Yields structures that are given as texts, then those of a file. column, keep: as in `Subject.records`. subject:
    None means molecules."""
    yield from (StructureRecord(number, text) for number, text in enumerate(texts))
    if file is not None:
        yield from (subject or subject_of(MOLECULE_KIND)).records(file, column, keep=keep)


def calculate(
    ledger: Ledger,
    rungs: Sequence[BuiltRung],
    molecules: Iterable[StructureRecord],
    units: Units | None = None,
    who: str = "",
    worker: Worker | None = None,
) -> Iterator[CalculatedCandidate]:
    """Yields the verifier's answer on each molecule. Evidence in the ledger is reused, new evidence is recorded there.

    rungs: of `rungs_for`. worker: a warm process; by default a new one, which ends with the last molecule. A molecule
    that the safety screen refuses is not calculated, and the refusal is logged. Names from a file are stored.
    """
    for rung in rungs:
        check_engines(rung)
    prepare(rungs)
    with ExitStack() as leaving:
        host = worker or leaving.enter_context(
            Worker(scratch_of(ledger.artifacts), preload=[rung.verifier.name for rung in rungs])
        )
        for molecule in molecules:
            yield _calculated(ledger, host, rungs, molecule, units or {}, who)


def _calculated(
    ledger: Ledger, worker: Worker, rungs: Sequence[BuiltRung], molecule: StructureRecord, units: Units, who: str
) -> CalculatedCandidate:
    text, subject = molecule.text, subject_for(rungs[-1].verifier.name)
    given = {field: (name,) for field, name in molecule.names.items()}
    try:
        candidate = subject.read(text)
    except InvalidCandidateError as error:
        why = molecule.fault or error.detail
        return CalculatedCandidate(text=text, names=given, outcome=Outcome.REFUSED, reason=error.reason, detail=why)
    with ledger.begin() as connection:
        candidate_id = candidates.enter(connection, [candidate])[candidate.key]
        names.enter_names(connection, None, [(candidate_id, molecule.names)])
    for rung in rungs:
        answer, core_seconds = known_or_run(ledger, worker, rung, candidate, candidate_id)
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
        values=tuple(PropertyValue.of(measured) for measured in all_shown(answer.measured, units)),
    )
