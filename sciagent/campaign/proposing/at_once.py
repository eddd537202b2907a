"""Lets the rungs that answer inside a turn, fast or inline, answer on proposals that are not written yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.derived_values import with_derived
from sciagent.campaign.core.record import answer_of
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.jobs.states import MAX_LOSSES
from sciagent.domain.outcomes import Outcome
from sciagent.store.learning import evidence_costs
from sciagent.store.results import candidates, evidence
from sciagent.verification.cost import unmeasured
from sciagent.verification.sandbox.host import HostResult, Request

if TYPE_CHECKING:
    from sciagent.campaign.proposing.workbench import BenchEntry


class Runs(Protocol):
    """A process, or several, in which verifiers run."""

    def run(self, request: Request) -> list[HostResult]:
        """Returns one result for each candidate, in order, even if the verifier crashes."""


def answer_at_once(built: Built, worker: Runs, rung: BuiltRung, entries: Sequence[BenchEntry]) -> None:
    """Adds the rung's answers to the entries: reused evidence where there is some, and one run of all the others.

    Entries of siblings may have one candidate. It is computed once, and each entry is charged with all of its cost.
    """
    by_key: dict[str, list[BenchEntry]] = {}
    for entry in entries:
        if entry.candidate:
            by_key.setdefault(entry.candidate.key, []).append(entry)
    _reuse(built, rung, by_key)
    if not by_key:
        return
    batch = tuple(alike[0].candidate for alike in by_key.values() if alike[0].candidate)
    for alike, result in zip(by_key.values(), _results(worker, rung, batch), strict=True):
        alike[0].computed.append((rung, result))
        for entry in alike:
            entry.answers.append(answer_of(rung, with_derived(rung, result.finding, entry.answers)))
            entry.charged += result.actual


def _reuse(built: Built, rung: BuiltRung, by_key: dict[str, list[BenchEntry]]) -> None:
    """Answers entries from the ledger, and removes them from `by_key`."""
    with built.ledger.read() as connection:
        ids = candidates.ids_of(connection, by_key)
        known = evidence.find_reusable(connection, list(ids.values()), rung.verifier.computation)
        shares = evidence_costs.shares(connection, [recorded.id for recorded in known.values()])
    for key, id_ in ids.items():
        if id_ in known:
            for entry in by_key.pop(key):
                entry.answers.append(answer_of(rung, with_derived(rung, known[id_], entry.answers)))
                entry.reused.append((rung, known[id_].id))
                entry.charged += Cost(shares.get(known[id_].id))


def _results(worker: Runs, rung: BuiltRung, batch: tuple[Candidate, ...]) -> list[HostResult]:
    """Returns the results in order. Candidates that were lost with the process of others run again, as jobs do."""
    verifier = rung.verifier
    results = worker.run(Request.of(verifier, batch, rung.limits))
    if rung.is_fast:
        return results
    for _ in range(MAX_LOSSES - 1):
        lost = [place for place, result in enumerate(results) if result.finding.outcome is Outcome.LOST]
        if not lost:
            break
        again = tuple(batch[place] for place in lost)
        later = worker.run(Request.of(verifier, again, rung.limits))
        for place, result in zip(lost, later, strict=True):
            results[place] = replace(result, cost=results[place].cost + result.cost)
    return [_billed(rung, candidate, result) for candidate, result in zip(batch, results, strict=True)]


def _billed(rung: BuiltRung, candidate: Candidate, result: HostResult) -> HostResult:
    """Returns the result with the declared cost in resources that the host does not measure, if the verifier has not
    counted it itself."""
    if result.finding.spent is not None:
        return result
    return replace(result, cost=result.cost + unmeasured(rung.declared(candidate) or {}))
