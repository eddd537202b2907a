"""Lets the rungs that answer inside a turn, fast or inline, answer on proposals that are not written yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung, with_derived
from sciagent.campaign.core.record_results_and_place import answer_of
from sciagent.campaign.core.verdicts_and_places import Answer, ExperimentalValues, Place
from sciagent.campaign.proposing.law_filter import FilterDecision
from sciagent.campaign.proposing.proposal_novelty import Note
from sciagent.chemistry.subjects.base import Standardised
from sciagent.domain.candidate_and_its_names_in_files import STANDARDISED, Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.proposer_interfaces import ProposalIn, ProposalOut
from sciagent.domain.states_and_needs import DEATHS, MAX_LOSSES, TRIED_AGAIN, Standing
from sciagent.errors import CampaignError
from sciagent.store.learning import reward_inputs
from sciagent.store.results import candidates, evidence
from sciagent.verification.cost_models import unmeasured
from sciagent.verification.sandbox.host import HostResult, Request
from sciagent.verification.verifier_registry import is_function

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

    A candidate whose process died runs again alone, up to `MAX_LOSSES` times in all; the candidate then counts as one
    that kills workers. Whenever so many processes have died one after the other, and before a candidate is blamed, a
    control run shows whether any process lives. Raises CampaignError if the control dies as well: then the machine is
    at fault, and no candidate is blamed.
    """
    results = worker.run(Request.of(rung.verifier, batch, rung.limits))
    losses = 1  # processes that died with each candidate that is still without a result
    suspects = _died_with(results)
    n_in_row = _died_last(results)  # processes that died one after the other, up to now
    while suspects and losses < MAX_LOSSES:
        for place in suspects:
            if n_in_row >= MAX_LOSSES:
                _check_control(built, worker, rung, batch, results)
                n_in_row = 0
            [again] = worker.run(Request.of(rung.verifier, (batch[place],), rung.limits))
            n_in_row = n_in_row + 1 if _has_died(again) else 0
            # lost runs cost something, too
            seconds = results[place].wall_seconds + again.wall_seconds
            results[place] = replace(again, cost=results[place].cost + again.cost, wall_seconds=seconds)
        losses += 1
        suspects = _died_with(results)
    if suspects and n_in_row:
        _check_control(built, worker, rung, batch, results)
    for place in suspects:
        results[place] = _blamed(results[place], losses)
    if rung.is_fast:
        return results
    return [_billed(rung, candidate, result) for candidate, result in zip(batch, results, strict=True)]


def _has_died(result: HostResult) -> bool:
    """Whether the result tells of the death of a process, which says nothing of the candidate by itself."""
    return result.finding.outcome in TRIED_AGAIN and result.finding.reason in DEATHS


def _died_with(results: Sequence[HostResult]) -> list[int]:
    """Returns the places of the candidates whose process died."""
    return [place for place, result in enumerate(results) if _has_died(result)]


def _died_last(results: Sequence[HostResult]) -> int:
    """Returns how many results at the end of the batch tell of a death."""
    n_at_end = 0
    for result in reversed(results):
        if not _has_died(result):
            break
        n_at_end += 1
    return n_at_end


def _check_control(
    built: Built, worker: Runs, rung: BuiltRung, batch: Sequence[Candidate], results: Sequence[HostResult]
) -> None:
    """Runs the rung on a candidate of the batch that it has survived, or else on a sample of the subject. The finding
    is not used.

    Raises CampaignError if the process dies, or if there is neither.
    """
    survivors = [place for place, result in enumerate(results) if not _has_died(result)]
    samples = list(built.subject.samples.values())
    detail = next(result.finding.detail for result in results if _has_died(result))
    if survivors:
        control = batch[min(survivors, key=lambda place: results[place].wall_seconds)]
        which = f"{control.text}, which it had survived before"
    elif samples:
        control = built.subject.read(samples[0])
        which = f"the sample {control.text}"
    else:
        raise CampaignError(_machine_fault(built, rung, detail, ""))
    [result] = worker.run(Request.of(rung.verifier, (control,), rung.limits))
    if _has_died(result):
        raise CampaignError(_machine_fault(built, rung, result.finding.detail, f", also under {which}"))


def _machine_fault(built: Built, rung: BuiltRung, detail: str, control: str) -> str:
    """Returns the message for a rung whose process dies under every candidate. detail: how it died last. control: text
    on the control run."""
    one = built.subject.words.one
    verifier = rung.verifier.name
    way_out = "repeat the command"
    if not any(
        is_function(other.verifier.request_settings) for other in built.all_rungs
    ):  # other processes lack functions
        way_out += f"; a campaign goes on with: sciagent resume {built.row.name}"
    return (
        f"{rung.spec.rung}: the process of {verifier} dies under every {one}{control}. The last death: {detail}. "
        f"No {one} was dropped for it, and none of these results was written. Either the machine lacks memory (dmesg "
        f"names what the system killed), or {verifier} ends its own process or is badly installed (sciagent doctor). "
        f"When that is mended, {way_out}"
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
    """`new`, `duplicate`, `refused` or `filtered`."""
    reason: Reason | None = None
    detail: str = ""
    """Why it was refused or filtered, or how the candidate was made from the text."""
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
    filter_decision: FilterDecision | None = None
    """Decision of the proposer's filter; None if no filter has judged it."""
    is_filtered_first: bool = False
    """Whether the filter dropped it, and had dropped the candidate in no earlier turn."""

    @property
    def whole(self) -> Candidate | None:
        """The proposed molecule, of which the candidate is a stereoisomer or tautomer; None if it is the molecule."""
        return self.made.parent if self.made is not None else None

    @property
    def names(self) -> Mapping[str, str]:
        """The names of the proposal's row, with a remark under STANDARDISED if they name another substance."""
        if self.made is None or not self.made.row_note:
            return self.given.names
        return {**self.given.names, STANDARDISED: self.made.row_note}

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
