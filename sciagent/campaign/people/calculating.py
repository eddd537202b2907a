"""Runs one verifier on molecules outside of any campaign, for `sciagent calc`. The ledger keeps the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sciagent.campaign.core.build import BuiltRung, built_rungs, check_programs, prepare
from sciagent.campaign.core.record import known_or_run, log_blocked
from sciagent.campaign.spec.rungs import RungSpec
from sciagent.campaign.spec.safety import SCREEN
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.answers.values import CalculatedMolecule, PropertyValue
from sciagent.domain.campaigns.chosen_units import Units, all_shown
from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Outcome
from sciagent.domain.properties import properties
from sciagent.domain.quantities import conversion_factor
from sciagent.errors import InvalidCandidateError, UsageError, did_you_mean
from sciagent.execution.worker.checkpoints import scratch_of
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from sciagent.verification.sandbox.host import Worker


def rungs_for(verifier: str, settings: Mapping[str, Any], folder: Path) -> tuple[BuiltRung, ...]:
    """Returns the safety screen and the verifier as rungs that are ready to run.

    folder: where relative paths in the settings start. Raises UsageError for an unknown verifier or bad settings.
    """
    named = [{"verifier": SCREEN}] if verifier != SCREEN else []
    try:
        rungs = [
            RungSpec.model_validate(rung, context={"base": folder})
            for rung in (*named, {"verifier": verifier, "settings": dict(settings)})
        ]
    except ValidationError as error:
        faults = [(".".join(map(str, fault["loc"])), fault["msg"]) for fault in error.errors()]
        raise UsageError("; ".join(f"{place.removeprefix('settings.')}: {what}" for place, what in faults)) from None
    return built_rungs(rungs)


def check_units(rung: BuiltRung, units: Units) -> None:
    """Raises UsageError for a property that the rung does not measure, and UnitError for a unit it does not take."""
    measured = {item.property.name for item in rung.verifier.measures}
    for name, unit in units.items():
        if name not in measured:
            raise UsageError(f'{rung.verifier.name} does not measure "{name}"{did_you_mean(name, sorted(measured))}')
        if properties()[name].conversion(unit) is None:
            conversion_factor(unit, properties()[name])


def calculate(
    ledger: Ledger, rungs: Sequence[BuiltRung], texts: Iterable[str], units: Units | None = None, who: str = ""
) -> Iterator[CalculatedMolecule]:
    """Yields the verifier's answer on each molecule. Evidence in the ledger is reused, new evidence is recorded there.

    rungs: of `rungs_for`. A molecule that the safety screen refuses is not calculated, and the refusal is logged.
    """
    for rung in rungs:
        check_programs(rung)
    prepare(rungs)
    with Worker(scratch_of(ledger.artifacts), preload=[rung.verifier.name for rung in rungs]) as worker:
        for text in texts:
            try:
                candidate = parse_molecule(text)
            except InvalidCandidateError as error:
                yield CalculatedMolecule(text=text, outcome=Outcome.REFUSED, reason=error.reason, detail=error.detail)
                continue
            yield _calculated(ledger, worker, rungs, text, candidate, units or {}, who)


def _calculated(
    ledger: Ledger, worker: Worker, rungs: Sequence[BuiltRung], text: str, candidate: Candidate, units: Units, who: str
) -> CalculatedMolecule:
    with ledger.begin() as connection:
        candidate_id = candidates.enter(connection, [candidate])[candidate.key]
    for rung in rungs:
        answer, core_seconds = known_or_run(ledger, worker, rung, candidate, candidate_id)
        if answer.outcome is not Outcome.OK:
            break
    if rung.verifier.name == SCREEN and answer.outcome is Outcome.REFUSED:
        blocked = {"key": candidate.key, "text": text, "reason": str(answer.reason), "detail": answer.detail}
        with ledger.begin() as connection:
            log_blocked(connection, None, **blocked, operation="calc", who=who)
    return CalculatedMolecule(
        text=text,
        key=candidate.key,
        smiles=candidate.text,
        outcome=answer.outcome,
        reason=answer.reason,
        detail=answer.detail,
        reused=core_seconds is None,
        core_seconds=round(core_seconds or 0.0, 3),
        values=tuple(PropertyValue.of(measured) for measured in all_shown(answer.measured, units)),
    )
