"""Runs the fast rungs in a person's own process, for candidates that a person adds and before a promotion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from sciagent.campaign.core.build import Built, prepare
from sciagent.campaign.core.record import log_blocked, run_directly
from sciagent.campaign.people.resolving import Named
from sciagent.campaign.proposing.workbench import CampaignWorkbench
from sciagent.domain.directives import Verb
from sciagent.domain.evidence import Finding
from sciagent.domain.outcomes import Outcome
from sciagent.domain.ports import ProposalIn
from sciagent.errors import UsageError
from sciagent.store.campaign_state import directives, standings
from sciagent.store.campaign_state.campaigns import new_owner
from sciagent.store.results import candidates, evidence
from sciagent.store.results.evidence import RecordedEvidence
from sciagent.verification.sandbox.host import Worker

BATCH = 100  # candidates per transaction


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


def add(built: Built, given: Iterable[ProposalIn], who: str, why: str) -> Iterator[AddedCandidate]:
    """Parses a person's proposals, runs the fast rungs on them and writes them to the ledger with the person's name and
    reason, `BATCH` at a time. A driver may run at the same time."""
    prepare(built.fast)
    proposals = iter(given)
    with Worker(built.scratch(), preload=[r.verifier.name for r in built.fast]) as worker:
        while batch := list(islice(proposals, BATCH)):
            bench = CampaignWorkbench(built, worker, new_owner())
            answers = bench.propose(batch)
            with built.ledger.begin() as connection:
                directives.lock(connection, built.row.id)
                bench.commit(connection, None)
                ids = candidates.ids_of(connection, [a.key for a in answers if a.key])
                for key in dict.fromkeys(a.key for a in answers if a.key):
                    directives.write(connection, built.row.id, Verb.ADD, who, why, candidate_id=ids[key])
                places = {k: standings.get(connection, built.row.id, i) for k, i in ids.items()}
            for proposal, answer in zip(batch, answers, strict=True):
                refused = {"standing": None, "reason": answer.reason, "detail": answer.detail}
                place = places[answer.key] if answer.key else refused
                outcome = place["standing"], place["reason"], place["detail"] or ""
                yield AddedCandidate(proposal.text, answer.status, answer.key, *outcome)


def complete_fast(built: Built, named: Named, who: str) -> str:
    """Runs the fast rungs that did not run because an earlier rung dropped the candidate. Returns the safety screen's
    reason for a block, which is logged, or an empty text. Raises UsageError if a rung cannot decide."""
    results: dict[int, Finding | RecordedEvidence] = {}
    with built.ledger.read() as connection:
        candidate = candidates.load(connection, [named.id])[named.id]
        for rung in built.fast:
            known = evidence.find_reusable(connection, [named.id], rung.verifier.computation)
            if named.id in known:
                results[rung.id] = known[named.id]
    if missing := [r for r in built.fast if r.id not in results]:
        prepare(missing)
        with Worker(built.scratch(), preload=[r.verifier.name for r in missing]) as worker:
            for rung in missing:
                finding = run_directly(built.ledger, worker, rung, candidate, named.id, built.row.id).finding
                if not finding.outcome.rule.is_evidence:
                    why = f"{finding.reason}: {finding.detail}"
                    raise UsageError(f"{named}: {rung.spec.rung} could not say whether it may be promoted: {why}")
                results[rung.id] = finding
    screen = next((results[r.id] for r in built.fast if r.verifier.name == built.subject.screen), None)
    if screen is None or screen.outcome is not Outcome.REFUSED:
        return ""
    stated = {"key": named.key, "text": named.text, "reason": str(screen.reason), "detail": screen.detail}
    with built.ledger.begin() as connection:
        log_blocked(connection, built.row.id, **stated, asked="promote", who=who)
    return f"{screen.reason}: {screen.detail}"
