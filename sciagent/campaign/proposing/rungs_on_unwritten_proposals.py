"""Lets the rungs that answer inside a turn, fast or inline, answer on proposals that are not written yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung, with_derived
from sciagent.campaign.core.record_results_and_place import answer_of
from sciagent.campaign.core.verdicts_and_places import Answer, ExperimentalValues, Place
from sciagent.campaign.proposing.proposal_novelty import Note
from sciagent.chemistry.subjects.base import Standardised
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.proposer_interfaces import ProposalIn, ProposalOut
from sciagent.domain.states_and_needs import MAX_LOSSES, Standing
from sciagent.errors import CampaignError
from sciagent.store.learning import reward_inputs
from sciagent.store.results import candidates, evidence
from sciagent.verification.cost_models import unmeasured
from sciagent.verification.sandbox.host import HostResult, Request

MAX_ECHOED = 200  # characters of a proposed text that a reply repeats
MAX_DETAIL = 300  # characters of a detail in a reply


class Runs(Protocol):
    """A process, or several, in which verifiers run."""

    def run(self, request: Request) -> list[HostResult]:
        """Returns one result for each candidate of the request, in order, even if the verifier crashes."""


def answer_at_once(built: Built, worker: Runs, rung: BuiltRung, entries: Sequence[BenchEntry]) -> None:
    """Adds the rung's answers to the entries: reused evidence where there is some, and one run of all the others.

    Rollouts run the turns of several episodes (siblings) at once, so that entries may have the same candidate. It is
    computed once, and each of its entries is charged with the whole cost.
    """
    by_key: dict[str, list[BenchEntry]] = {}
    for entry in entries:
        if entry.candidate:
            by_key.setdefault(entry.candidate.key, []).append(entry)
    _reuse(built, rung, by_key)
    if not by_key:
        return
    groups = list(by_key.values())  # entries with the same candidate
    batch = tuple(group[0].candidate for group in groups if group[0].candidate)
    results = _results(built, worker, rung, batch)
    for group, result in zip(groups, results, strict=True):
        group[0].computed.append((rung, result))
        for entry in group:
            finding = with_derived(rung, result.finding, entry.answers)
            entry.answers.append(answer_of(rung, finding, entry.experimental))
            entry.charged += result.actual


def _reuse(built: Built, rung: BuiltRung, by_key: dict[str, list[BenchEntry]]) -> None:
    """Answers entries from the ledger, and removes them from `by_key`. by_key: entries by the candidate's key."""
    with built.ledger.read() as connection:
        ids = candidates.ids_of(connection, by_key)
        known = evidence.find_reusable(connection, list(ids.values()), rung.verifier.computation)
        shares = reward_inputs.shares(connection, [recorded.id for recorded in known.values()])
    for key, id_ in ids.items():
        if id_ in known:
            for entry in by_key.pop(key):
                recorded = with_derived(rung, known[id_], entry.answers)
                entry.answers.append(answer_of(rung, recorded, entry.experimental))
                entry.reused.append((rung, known[id_].id))
                entry.charged += Cost(shares.get(known[id_].id))  # what the evidence cost when it was computed


def _results(built: Built, worker: Runs, rung: BuiltRung, batch: tuple[Candidate, ...]) -> list[HostResult]:
    """Returns the results in the order of the batch.

    A candidate whose process was lost runs again alone, up to `MAX_LOSSES` times in all; the candidate then counts as
    one that kills workers. Raises CampaignError if the process dies under every candidate of the batch and under a
    sample of the subject: then the machine is at fault, and no candidate is blamed.
    """
    results = worker.run(Request.of(rung.verifier, batch, rung.limits))
    losses = 1  # processes lost with each candidate that is still without a result
    deaths = len(_lost(results))  # processes lost with all candidates together
    any_works = deaths < len(batch)  # whether the process has survived a candidate
    while losses < MAX_LOSSES and _lost(results):
        for place in _lost(results):
            [again] = worker.run(Request.of(rung.verifier, (batch[place],), rung.limits))
            # lost runs cost something, too
            seconds = results[place].wall_seconds + again.wall_seconds
            results[place] = replace(again, cost=results[place].cost + again.cost, wall_seconds=seconds)
        losses += 1
        still_lost = _lost(results)
        deaths += len(still_lost)
        any_works = any_works or len(still_lost) < len(batch)
        if not any_works and deaths >= MAX_LOSSES:
            # all candidates of the batch may be at fault; a sample tells them from the machine
            any_works = _runs_a_sample(built, worker, rung)
            if not any_works:
                raise CampaignError(_machine_fault(built, rung, results[0].finding.detail))
    for place in _lost(results):
        results[place] = _blamed(results[place], losses)
    if rung.is_fast:
        return results
    return [_billed(rung, candidate, result) for candidate, result in zip(batch, results, strict=True)]


def _lost(results: Sequence[HostResult]) -> list[int]:
    """Returns the places of the candidates whose process was lost."""
    return [place for place, result in enumerate(results) if result.finding.outcome is Outcome.LOST]


def _runs_a_sample(built: Built, worker: Runs, rung: BuiltRung) -> bool:
    """Whether the rung's process survives a sample of the subject. The finding is not used."""
    texts = list(built.subject.samples.values())
    if not texts:
        return False
    sample = built.subject.read(texts[0])
    results = worker.run(Request.of(rung.verifier, (sample,), rung.limits))
    return not _lost(results)


def _machine_fault(built: Built, rung: BuiltRung, detail: str) -> str:
    """Returns the message for a rung whose process dies under every candidate. detail: how it died last."""
    return (
        f"{rung.spec.rung}: the process of {rung.verifier.name} dies under every {built.subject.words.one} ({detail}). "
        f"No {built.subject.words.one} was blamed, and nothing of this turn was written. "
        "Look for a lack of memory (dmesg) or a broken installation (sciagent doctor); then: "
        f"sciagent resume {built.row.name}"
    )


def _blamed(result: HostResult, losses: int) -> HostResult:
    """Returns the result of a candidate that is held responsible for the loss of its processes."""
    detail = f"{losses} processes were lost with it, the last ones alone: {result.finding.detail}"
    return replace(result, finding=replace(result.finding, reason=Reason.KILLS_WORKERS, detail=detail))


def _billed(rung: BuiltRung, candidate: Candidate, result: HostResult) -> HostResult:
    """Returns the result with the declared cost in resources that the host does not measure, if the verifier has not
    counted it itself."""
    if result.finding.spent is not None:
        return result
    return replace(result, cost=result.cost + unmeasured(rung.declared_cost(candidate) or {}))


@dataclass
class BenchEntry:
    """One proposal of the turn that is not written yet."""

    given: ProposalIn
    candidate: Candidate | None
    """The parsed candidate; None if the text was refused."""
    status: str
    """`new`, `duplicate` or `refused`."""
    reason: Reason | None = None
    detail: str = ""
    """Why it was refused, or how the candidate was made from the text."""
    made: Standardised | None = None
    """How the text was standardised to the candidate; None if the text was refused."""
    answers: list[Answer] = field(default_factory=list)
    """Answers of the fast and inline rungs so far."""
    computed: list[tuple[BuiltRung, HostResult]] = field(default_factory=list)
    """Rungs that were run on the candidate, and their results."""
    reused: list[tuple[BuiltRung, int]] = field(default_factory=list)
    """Rungs with reused evidence, and the id of the evidence."""
    place: Place | None = None
    """Place on the ladder by the answers so far; None before the first answer."""
    novelty: Note | None = None
    """Written with the turn; None before, and if the text was refused."""
    turn_id: int | None = None
    """Id of the turn in the ledger; None before it is written, and for a person's proposals."""
    experimental: ExperimentalValues = field(default_factory=dict)
    """Imported experimental values that decide objectives."""
    charged: Cost = field(default_factory=Cost)
    """Cost of the fast and inline rungs on this candidate, whoever computed it and whenever."""

    notation: str = ""
    """The candidate's notation; empty if the text was refused."""

    def out(self) -> ProposalOut:
        """Returns the reply to the proposer."""
        place = self.place
        reason: str | None = self.reason
        detail = self.detail
        if place is not None and place.standing is Standing.DROPPED:
            reason = place.reason
            detail = place.detail
        return ProposalOut(
            self.given.text[:MAX_ECHOED],
            self.status,
            key=self.candidate.key if self.candidate else None,
            reason=reason or None,
            detail=detail[:MAX_DETAIL],
            standing=str(place.standing) if place else None,
            candidate=self.notation,
        )
