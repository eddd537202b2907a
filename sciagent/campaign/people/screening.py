"""The rungs that run at once, run by a person's own process: for what a person adds, and before a promotion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from sciagent.campaign.core import safety
from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.prepare import prepare
from sciagent.campaign.core.record import direct_result
from sciagent.campaign.people.resolving import Named
from sciagent.campaign.proposing.workbench import CampaignWorkbench
from sciagent.campaign.spec.safety import SCREEN
from sciagent.domain.campaigns.directives import Verb
from sciagent.domain.campaigns.ports import ProposalIn
from sciagent.domain.outcomes import Outcome
from sciagent.errors import UsageError
from sciagent.execution.worker.completing import complete_direct, store_files
from sciagent.store.campaign_state import directives, standings
from sciagent.store.campaign_state.campaigns import new_owner
from sciagent.store.results import candidates, evidence
from sciagent.verification.sandbox.host import Request, Worker

BATCH = 100  # candidates a transaction

T = TypeVar("T")


@dataclass(frozen=True)
class AddedCandidate:
    """What became of one structure that a person handed in."""

    text: str
    """As it was given."""
    status: str
    """`new`, `duplicate` or `refused`."""
    key: str | None
    """Its identity in every ledger; None if it was refused."""
    standing: str | None
    """In the campaign, whether new or there already; None if it was refused."""
    reason: str | None
    """Why it was refused, or dropped."""
    detail: str
    """The reason in words."""


def add(built: Built, given: Iterable[ProposalIn], who: str, why: str) -> Iterator[AddedCandidate]:
    """Enter what a person hands in, a hundred at a time: parsed, put through the fast rungs, and written like the
    proposals of any other proposer, with the person's name and reason. Works beside a running driver."""
    prepare(built.fast)
    with Worker(built.scratch(), preload=[r.verifier.name for r in built.fast]) as worker:
        for batch in _batches(given):
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
                place = places.get(answer.key) if answer.key else None
                yield AddedCandidate(
                    proposal.text,
                    answer.status,
                    answer.key,
                    place["standing"] if place else None,
                    place["reason"] if place else answer.reason,
                    (place["detail"] if place else answer.detail) or "",
                )


def complete_fast(built: Built, named: Named, who: str) -> str:
    """Run the fast rungs that have not answered yet, because an earlier one dropped the candidate. Returns what the
    safety screen says against it, or nothing; that is logged. Raises UsageError if a rung cannot say."""
    with built.ledger.read() as connection:
        candidate = candidates.load(connection, [named.id])[named.id]
        known = {
            r.id: evidence.find_reusable(
                connection, [named.id], r.verifier.name, r.verifier.version, r.verifier.settings_hash
            ).get(named.id)
            for r in built.fast
        }
    said = [(r, known[r.id]) for r in built.fast]
    against = [f"{f.reason}: {f.detail}" for r, f in said if f is not None and _is_block(r, f.outcome)]
    missing = [r for r in built.fast if known[r.id] is None]
    if missing:
        prepare(missing)
        with Worker(built.scratch(), preload=[r.verifier.name for r in missing]) as worker:
            for rung in missing:
                v = rung.verifier
                result = worker.run(Request(v.name, v.request_settings, (candidate,), rung.limits))[0]
                f = result.finding
                if not f.outcome.rule.is_evidence:
                    raise UsageError(
                        f"{named}: {rung.spec.rung} could not say whether it may be promoted: {f.reason}: {f.detail}"
                    )
                files = store_files(built.ledger, [result])[0]
                with built.ledger.begin() as connection:
                    directives.lock(connection, built.row.id)
                    made = direct_result(rung, named.id, candidate, result, files)
                    complete_direct(connection, new_owner(), [made], campaign_id=built.row.id, rung_id=rung.id)
                if _is_block(rung, f.outcome):
                    against.append(f"{f.reason}: {f.detail}")
    if against:
        reason, _, detail = against[0].partition(": ")
        with built.ledger.begin() as connection:
            safety.log_blocked(
                connection,
                built.row.id,
                key=named.key,
                text=named.text,
                reason=reason,
                detail=detail,
                asked="promote",
                who=who,
            )
    return "; ".join(against)


def _is_block(rung: BuiltRung, outcome: Outcome) -> bool:
    return rung.verifier.name == SCREEN and outcome is Outcome.REFUSED


def _batches(given: Iterable[T]) -> Iterator[Sequence[T]]:
    stream = iter(given)
    while batch := list(islice(stream, BATCH)):
        yield batch
