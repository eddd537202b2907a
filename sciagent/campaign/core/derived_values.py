"""Derived values of a campaign: they are computed with the answer of their last rung, and recorded as evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy.engine import Connection

from sciagent.domain.derived import VERIFIER, VERSION, DerivedProperty, Part
from sciagent.domain.evidence import UNCERTAINTY_KIND, Computation, EvidenceKey, Finding, content_hash
from sciagent.domain.ladder import Position
from sciagent.domain.outcomes import Outcome
from sciagent.domain.quantities import Quantity
from sciagent.errors import UsageError
from sciagent.store.results import candidates, evidence, pooled
from sciagent.store.results.evidence import NewEvidence, RecordedEvidence

if TYPE_CHECKING:
    from sciagent.campaign.core.build import Built, BuiltRung
    from sciagent.campaign.core.judge import Answer
    from sciagent.campaign.file.campaign_spec import CampaignSpec

Result = TypeVar("Result", Finding, RecordedEvidence)


def with_derived(rung: BuiltRung, result: Result, earlier: Sequence[Answer]) -> Result:
    """Returns the result of a rung with the derived values that are known after it. earlier: answers of lower rungs."""
    if not rung.spec.derived or result.outcome is not Outcome.OK:
        return result
    values: dict[Part, Quantity] = {}
    for position, measured in [*((a.position, a.measured) for a in earlier), (rung.rules.position, result.measured)]:
        values |= {(position, each.property): each.quantity for each in measured}
    added = tuple(value for prop in rung.spec.derived if (value := prop.measured(values)) is not None)
    return replace(result, measured=result.measured + added)


def record_derived(connection: Connection, built: Built, candidate_ids: Sequence[int]) -> None:
    """Records the derived values of candidates if their parts are in the ledger. A value whose parts have changed
    supersedes the earlier one. Call it in a write transaction."""
    derived = [prop for rung in built.rungs for prop in rung.spec.derived]
    if not derived or not candidate_ids:
        return
    answers = {}
    for position in sorted({position for prop in derived for position in prop.rungs}):
        computation = built.rungs[position].verifier.computation
        answers[position] = pooled.pooled_answers(connection, candidate_ids, computation)
    loaded = candidates.load(connection, list(candidate_ids))
    for prop in derived:
        held = evidence.latest(connection, candidate_ids, Computation(VERIFIER, VERSION, prop.settings_hash))
        for id_, candidate in loaded.items():
            used = {position: answers[position][id_] for position in prop.rungs if id_ in answers[position]}
            new = _evidence(prop, candidate.key, id_, used, held.get(id_))
            if new is not None:
                evidence.record_once(connection, [new])


def _evidence(
    prop: DerivedProperty,
    candidate_key: str,
    candidate_id: int,
    used: Mapping[Position, RecordedEvidence],
    held: tuple[RecordedEvidence, int] | None,
) -> NewEvidence | None:
    """Returns the evidence to record; None if there is no value, or the ledger has it already.

    used: answers by position of the rung. held: the current evidence and its revision."""
    measured = prop.measured({(p, m.property): m.quantity for p, answer in used.items() for m in answer.measured})
    if measured is None or (held is not None and held[0].measured == (measured,)):
        return None
    revision = 0 if held is None else held[1] + 1
    inputs_hash = content_hash(sorted(answer.key for answer in used.values()))
    key = EvidenceKey(candidate_key, VERIFIER, VERSION, prop.settings_hash, inputs_hash, revision=revision)
    kind = measured.quantity.uncertainty_kind
    facts = {"formula": prop.formula.text} | ({UNCERTAINTY_KIND: {measured.property: kind}} if kind else {})
    finding = Finding(candidate_key, Outcome.OK, (measured,), diagnostics=facts)
    if held is None:
        return NewEvidence(finding, key, candidate_id)
    return NewEvidence(finding, key, candidate_id, why="its parts have changed", supersedes=held[0].id)


def check_derived(connection: Connection, spec: CampaignSpec) -> None:
    """Raises UsageError for a derived property that the ledger knows in another unit."""
    wanted = {prop.definition.name: prop.definition.unit for rung in spec.ladder for prop in rung.derived}
    for name, unit in evidence.stored_units(connection, list(wanted)).items():
        if unit != wanted[name]:
            raise UsageError(
                f'derived property "{name}": this ledger has values of a property of this name in {unit}, which is not '
                f"{wanted[name]}; give it another name"
            )
