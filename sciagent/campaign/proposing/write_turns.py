"""The one writer of turns: of scripts, models, clients and rollouts, and of the proposals of people.

A turn is written with its candidates, proposals, evidence of fast and inline rungs, standings, spend and events in the
transaction of the caller: after a kill the ledger has it completely or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung, record_derived
from sciagent.campaign.core.record_results_and_place import log_blocked, settle_again
from sciagent.campaign.core.relaxed_to_same_structure import find_likenesses
from sciagent.campaign.core.verdicts_and_places import place
from sciagent.campaign.proposing.campaign_workbench import CampaignWorkbench
from sciagent.campaign.proposing.proposal_novelty import novelty_notes, remember_families
from sciagent.campaign.proposing.rungs_on_unwritten_proposals import BenchEntry
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.outcomes_verdicts_and_reasons import Verdict
from sciagent.execution.worker.end_attempts import DirectResult, complete_direct, store_files
from sciagent.store.campaign_state import (
    campaigns,
    candidate_standings,
    note_and_take_watermarks,
    proposer_trajectories,
)
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.campaign_state.proposer_trajectories import NewTurn
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue.reservations_and_bookings import Bill, book_many
from sciagent.store.results import candidates
from sciagent.verification.sandbox.host import HostResult

MAX_LISTED = 5  # most molecules that an event on protonation states names
MAX_OPERATION = 100  # characters stored of the name of an operation
MAX_DETAIL = 1000  # characters stored of the detail of a refusal
MAX_RATIONALE = 4000  # characters stored of a rationale


class MadeTurn(NamedTuple):
    """A turn that is not in the ledger yet."""

    trajectory_id: int
    row: NewTurn
    bench: CampaignWorkbench
    """Proposals, cost and events of the turn."""


class FreshCandidate(NamedTuple):
    """A new candidate of a proposal."""

    entry: BenchEntry
    candidate: Candidate
    id: int
    proposal_id: int


class TurnWriter:
    """The writer of the turns of one proposer, client or runner of rollouts, and of a person's proposals."""

    def __init__(
        self, built: Built, owner: str, lease: DriverLease | None = None, *, are_siblings: bool = False
    ) -> None:
        """owner: name of the process that ran the fast rungs. lease: of the driver that writes; None: a client or a
        person writes, beside a driver.

        are_siblings: whether turns that are written together are of rollouts, which do not see each other. Siblings
        may propose the same candidate: both proposals stay `new`, since each is the first of its episode. The
        candidate enters the campaign once, as the proposal of the first sibling. The ledger gets no novelty of the
        proposals, since novelty would depend on the siblings.
        """
        self._built = built
        self._owner = owner
        self._lease = lease
        self._are_siblings = are_siblings

    def write(self, connection: Connection, turns: Sequence[MadeTurn]) -> None:
        """Writes turns with all that belongs to them.

        Raises StaleLeaseError, before anything is written, if another process drives the campaign now.
        """
        if self._lease is not None:
            campaigns.check_driver(connection, self._lease)
        watermark = note_and_take_watermarks.note(connection, self._built.row.id)
        for turn in turns:
            turn_id = proposer_trajectories.write_turn(connection, turn.trajectory_id, turn.row, watermark)
            for entry in turn.bench.entries:
                entry.turn_id = turn_id
        self.write_proposals(connection, [turn.bench for turn in turns])

    def write_proposals(self, connection: Connection, benches: Sequence[CampaignWorkbench]) -> None:
        """Writes candidates, proposals, evidence of fast rungs, standings, spend and events.

        The caller holds the lock of the campaign's row. Without `write` before it, the proposals have no turn: they
        are a person's.
        """
        built = self._built
        # what a turn costs beside its rungs belongs to no rung and to no attempt of a job
        bills = [Bill(built.row.id, rung_id=None, attempt_id=None, cost=bench.charged) for bench in benches]
        book_many(connection, bills)
        entries = [entry for bench in benches for entry in bench.entries]
        parsed = [(entry, entry.candidate) for entry in entries if entry.candidate]
        ids = self._enter_candidates(connection, parsed)
        members = candidate_standings.members(connection, built.row.id, list(ids.values()))
        if not self._are_siblings:
            for entry, candidate in parsed:
                if ids[candidate.key] in members:  # another process may have added it since `propose`
                    entry.status = "duplicate"
        proposed = self._write_proposals(connection, entries, ids)
        self._write_parents(connection, proposed)
        self._write_results(connection, entries, _first_proposals(proposed, members), ids)
        for kind, payload in chain.from_iterable(bench.events for bench in benches):
            campaigns.log_event(connection, built.row.id, kind, payload)

    def _enter_candidates(
        self, connection: Connection, parsed: Sequence[tuple[BenchEntry, Candidate]]
    ) -> Mapping[str, int]:
        """Writes candidates with their families, texts and names; returns their ledger ids by key.

        Before that, the novelty of the entries is noted.
        """
        subject = self._built.subject
        described = [(candidate.key, subject.features(entry.notation)) for entry, candidate in parsed]
        if not self._are_siblings:
            notes = novelty_notes(connection, subject, described)
            for (entry, _), note in zip(parsed, notes, strict=True):
                entry.novelty = note
        known_ids = candidates.ids_of(connection, {key for key, _ in described})
        wholes = [entry.whole for entry, _ in parsed if entry.whole]
        ids = candidates.enter(connection, [*(candidate for _, candidate in parsed), *wholes])
        features_of_new = {ids[key]: features for key, features in described if key not in known_ids}
        remember_families(connection, subject, features_of_new)
        self._write_texts_and_names(connection, parsed, ids)
        return ids

    def _write_texts_and_names(
        self, connection: Connection, parsed: Sequence[tuple[BenchEntry, Candidate]], ids: Mapping[str, int]
    ) -> None:
        """Writes the texts under which candidates were proposed, and the names in their rows of files.

        A text stands for all its stereoisomers and tautomers together, not for one of them."""
        texts = []
        for entry, candidate in parsed:
            if entry.given.text:
                named = entry.whole or candidate
                texts.append((ids[named.key], entry.given.text))
        candidates.enter_aliases(connection, texts)
        names = [(ids[candidate.key], entry.names) for entry, candidate in parsed]
        candidates.enter_names(connection, self._built.row.id, names)

    def _write_results(
        self,
        connection: Connection,
        entries: Sequence[BenchEntry],
        fresh: Sequence[FreshCandidate],
        ids: Mapping[str, int],
    ) -> None:
        """Writes standings of new candidates, and the results of the fast rungs. ids: of all candidates, by key."""
        self._write_standings(connection, fresh)
        for rung in self._built.fast:
            by_turn: dict[int | None, list[tuple[Candidate, HostResult]]] = {}
            for entry in entries:
                for computed_rung, result in entry.computed:
                    if computed_rung is rung and entry.candidate:
                        by_turn.setdefault(entry.turn_id, []).append((entry.candidate, result))
            for turn_id, batch in by_turn.items():
                write_direct_results(connection, self._built, rung, batch, ids, owner=self._owner, turn_id=turn_id)
        self._drop_alike(connection, fresh)
        record_derived(connection, self._built, [new.id for new in fresh])
        for new in fresh:
            operation = new.entry.given.operation[:MAX_OPERATION]
            log_if_blocked(connection, self._built, new.entry, turn_id=new.entry.turn_id, operation=operation)
        self._log_states(connection, fresh)
        self._write_reuse(connection, fresh)

    def _write_proposals(
        self, connection: Connection, entries: Sequence[BenchEntry], ids: Mapping[str, int]
    ) -> list[FreshCandidate]:
        """Writes all proposals; returns the new candidates, one for each proposal of it that is new."""
        now = db_now(connection)
        rows = [
            {
                "campaign_id": self._built.row.id,
                "turn_id": entry.turn_id,
                "text": candidates.stored_proposal(entry.given.text),
                "candidate_id": ids[entry.candidate.key] if entry.candidate else None,
                "status": entry.status,
                "reason": entry.reason,
                "detail": entry.detail[:MAX_DETAIL],
                "operation": entry.given.operation[:MAX_OPERATION],
                "rationale": entry.given.rationale[:MAX_RATIONALE],
                "predicted": dict(entry.given.predicted),
                "at": now,
                "novelty": entry.novelty,
                "filter_decision": entry.filter_decision.as_json() if entry.filter_decision else None,
            }
            for entry in entries
        ]
        statement = t.proposal.insert().returning(t.proposal.c.id, sort_by_parameter_order=True)
        proposal_ids = connection.execute(statement, rows).scalars() if rows else ()
        return [
            FreshCandidate(entry, entry.candidate, ids[entry.candidate.key], int(proposal_id))
            for entry, proposal_id in zip(entries, proposal_ids, strict=True)
            if entry.candidate and entry.status == "new"
        ]

    def _write_standings(self, connection: Connection, fresh: Sequence[FreshCandidate]) -> None:
        rows = [
            {
                "candidate_id": new.id,
                "proposal_id": new.proposal_id,
                "in_seeds": new.entry.given.operation == "seed",
                **new.entry.place.columns,
            }
            for new in fresh
            if new.entry.place
        ]
        candidate_standings.add(connection, self._built.row.id, rows)

    def _drop_alike(self, connection: Connection, fresh: Sequence[FreshCandidate]) -> None:
        """Drops the new candidates that an inline rung relaxed to the structure of an earlier one, and those that lie
        too far above another one."""
        built = self._built
        for rung in built.fast:
            if rung.is_fast or not fresh:  # a fast rung relaxes nothing
                continue
            found = find_likenesses(connection, built, {new.id: rung.rules.position for new in fresh})
            for id_ in sorted(found.keys() - {new.id for new in fresh}):
                settle_again(connection, built, id_)
            for new in fresh:
                if new.id in found:
                    entry = new.entry
                    entry.place = place(
                        built.rules,
                        built.objectives,
                        entry.answers,
                        likeness=found[new.id],
                        experimental=entry.experimental,
                    )
                    candidate_standings.update(connection, built.row.id, new.id, **entry.place.columns)

    def _log_states(self, connection: Connection, fresh: Sequence[FreshCandidate]) -> None:
        """Logs an event for the new candidates whose protonation state is ambiguous, one for those without a state, and
        one for the molecules with more stereoisomers or tautomers than are candidates."""
        standardised = [(new.entry.made, new.candidate.text) for new in fresh if new.entry.made]
        ambiguous = [smiles for made, smiles in standardised if made.is_ambiguous]
        without_state = [smiles for made, smiles in standardised if made.fault]
        wholes = [made.parent.text for made, _ in standardised if made.n_left_out and made.parent]
        with_more_forms = list(dict.fromkeys(wholes))
        for kind, smiles in (
            (campaigns.AMBIGUOUS_STATE, ambiguous),
            (campaigns.NO_STATE, without_state),
            (campaigns.FORMS_LEFT_OUT, with_more_forms),
        ):
            if smiles:
                campaigns.log_event(
                    connection, self._built.row.id, kind, {"n": len(smiles), "smiles": smiles[:MAX_LISTED]}
                )

    def _write_parents(self, connection: Connection, fresh: Sequence[FreshCandidate]) -> None:
        """Writes the parents of the new candidates, as far as the ledger knows them. The parent of a stereoisomer or
        tautomer is the molecule that was proposed; the stated parents are those of that molecule."""
        stated_keys = set(chain.from_iterable(new.entry.given.parents for new in fresh))
        whole_keys = {new.entry.whole.key for new in fresh if new.entry.whole}
        known = candidates.ids_of(connection, stated_keys | whole_keys)
        rows = []
        for new in fresh:
            parents = []
            if new.entry.made and new.entry.whole:
                parents.append((known[new.entry.whole.key], new.entry.made.operation))
            operation = new.entry.given.operation[:MAX_OPERATION]
            parents += [(known[key], operation) for key in dict.fromkeys(new.entry.given.parents) if key in known]
            own_columns = {"candidate_id": new.id, "proposal_id": new.proposal_id}
            rows += [{**own_columns, "parent_id": parent_id, "operation": how} for parent_id, how in parents]
        if rows:
            connection.execute(t.candidate_parent.insert(), rows)

    def _write_reuse(self, connection: Connection, fresh: Sequence[FreshCandidate]) -> None:
        """Writes a decision for each new candidate of which a rung reused evidence."""
        rows = []
        for new in fresh:
            for rung, evidence_id in new.entry.reused:
                rows.append(reuse_decision(new.id, rung, evidence_id))
        candidate_standings.decide(connection, self._built.row.id, rows)


def _first_proposals(proposed: Sequence[FreshCandidate], members: set[int]) -> list[FreshCandidate]:
    """Returns the first proposal of each candidate that is new to the campaign. members: ids of its candidates."""
    first: dict[int, FreshCandidate] = {}
    for candidate in proposed:
        if candidate.id not in members:
            first.setdefault(candidate.id, candidate)
    return list(first.values())


def reuse_decision(candidate_id: int, rung: BuiltRung, evidence_id: int) -> Mapping[str, Any]:
    """Returns the row of a decision that known evidence answers for a rung."""
    shared = {"action": "reuse", "chooser": "reuse", "why": "known under the same settings", "propensity": 1.0}
    return {"candidate_id": candidate_id, "rung_id": rung.id, "evidence_id": evidence_id, **shared}


def log_if_blocked(connection: Connection, built: Built, entry: BenchEntry, **more: Any) -> None:
    """Logs an event if the safety screen refused the entry's candidate. more: further fields of the event."""
    place = entry.place
    if place is None or entry.candidate is None or place.verdict is not Verdict.NOT_APPLICABLE:
        return
    if built.rungs[place.position].verifier.name == built.subject.screen:
        stated = {"key": entry.candidate.key, "text": entry.given.text}
        log_blocked(connection, built.row.id, **stated, reason=place.reason or "", detail=place.detail, **more)


def write_direct_results(
    connection: Connection,
    built: Built,
    rung: BuiltRung,
    batch: Sequence[tuple[Candidate, HostResult]],
    ids: Mapping[str, int],
    *,
    owner: str,
    turn_id: int | None,
) -> None:
    """Writes what a fast or inline rung has answered on candidates: one attempt for a fast rung, one for each candidate
    for an inline rung.

    ids: ledger ids of the candidates, by key. owner: name of the process. turn_id: None outside of a turn.
    """
    files = store_files(built.ledger, [result for _, result in batch])
    results = [
        DirectResult(
            rung.verifier,
            ids[candidate.key],
            key=rung.verifier.evidence_key(candidate),
            result=result,
            artifacts=artifacts,
            declared=None if rung.is_fast else rung.declared_cost(candidate),
        )
        for (candidate, result), artifacts in zip(batch, files, strict=True)
    ]
    results_by_attempt = [results] if rung.is_fast else [[result] for result in results]
    for attempt in results_by_attempt:
        complete_direct(connection, owner, attempt, campaign_id=built.row.id, rung_id=rung.id, turn_id=turn_id)
