"""The workbench of proposers: parses proposals, runs the fast rungs on them, and writes them to the ledger together
with their turn. After a kill the ledger has a turn completely or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, takewhile
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.agent.proposers.list_proposers import SEED
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung, record_derived
from sciagent.campaign.core.record_results_and_place import experimental_values_of, log_blocked, settle_again
from sciagent.campaign.core.relaxed_to_same_structure import find_likenesses
from sciagent.campaign.core.verdicts_and_places import NO_VALUES, is_spared, place
from sciagent.campaign.law.past_values import past_values, values_of_law
from sciagent.campaign.proposing.law_filter import LawFilter
from sciagent.campaign.proposing.proposal_novelty import (
    best_candidates,
    measured_candidates,
    novelty_notes,
    remember_families,
)
from sciagent.campaign.proposing.rungs_on_unwritten_proposals import BenchEntry, Runs, answer_at_once
from sciagent.chemistry.fingerprints_and_families import Features
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.outcomes_verdicts_and_reasons import Reason, Verdict
from sciagent.domain.proposer_interfaces import (
    FILTERED,
    KnownCandidate,
    MeasuredCandidate,
    PastValues,
    ProposalIn,
    ProposalOut,
)
from sciagent.domain.states_and_needs import Standing
from sciagent.errors import InvalidCandidateError
from sciagent.execution.worker.end_attempts import DirectResult, complete_direct, store_files
from sciagent.store.campaign_state import campaigns, candidate_standings, proposer_trajectories
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue.reservations_and_bookings import Bill, book_many
from sciagent.store.results import candidates
from sciagent.verification.sandbox.host import HostResult

MAX_COMPARED = 20  # most candidates of one family and formula that a proposal is matched with
MAX_LISTED = 5  # most molecules that an event on protonation states names
MAX_OPERATION = 100  # characters stored of the name of an operation
MAX_DETAIL = 1000  # characters stored of the detail of a refusal
MAX_RATIONALE = 4000  # characters stored of a rationale


class FreshCandidate(NamedTuple):
    """A candidate that this turn adds to the campaign."""

    entry: BenchEntry
    candidate: Candidate
    id: int
    proposal_id: int


class CampaignWorkbench:
    """The workbench for one turn: `propose` is called any number of times, then `commit` once."""

    def __init__(self, built: Built, worker: Runs, owner: str, law_filter: LawFilter | None = None) -> None:
        """law_filter: drops proposals by their chance to be hits; None: all go on."""
        self._built = built
        self._filter = law_filter
        self._worker = worker
        self._owner = owner
        self._standardisation = built.spec.standardisation
        self._entries: list[BenchEntry] = []
        self._measured: list[MeasuredCandidate] | None = None
        # keys of the proposed candidates that the campaign has now, whether they were new or not
        self._known_keys: set[str] = set()
        self._charged = Cost()  # cost of the proposer's own computation
        self._by_family: dict[tuple[str, str], list[Candidate]] = {}  # new candidates, by family and formula

    @property
    def entries(self) -> Sequence[BenchEntry]:
        """The proposals of the turn so far."""
        return self._entries

    @property
    def n_proposals(self) -> int:
        """Number of proposals without those that the filter dropped."""
        return sum(entry.status != FILTERED for entry in self._entries)

    @property
    def n_new(self) -> int:
        return sum(entry.status == "new" for entry in self._entries)

    @property
    def is_barren(self) -> bool:
        """Whether the turn brought no new candidate, nor one that the filter dropped for the first time."""
        return not any(entry.status == "new" or entry.is_filtered_first for entry in self._entries)

    @property
    def cost(self) -> Cost:
        """Cost of the fast and inline rungs in this turn, and of the proposer's own computation."""
        total = self._charged
        for entry in self._entries:
            for _, result in entry.computed:
                total += result.cost
        return total

    @property
    def calls(self) -> Sequence[Mapping[str, Any]]:
        """Tool calls of the turn, in the ledger's form."""
        return [
            {
                "tool": "propose",
                "arguments": {
                    "text": candidates.stored_proposal(entry.given.text),
                    "parents": list(entry.given.parents),
                },
            }
            for entry in self._entries
        ]

    @property
    def observations(self) -> list[dict[str, Any]]:
        """Observations that answer the calls, in the ledger's form."""
        observations = []
        for entry in self._entries:
            reply = entry.out()
            observations.append(
                {"status": reply.status, "key": reply.key, "standing": reply.standing, "reason": reply.reason}
            )
        return observations

    def propose(self, proposals: Sequence[ProposalIn]) -> list[ProposalOut]:
        return [entry.out() for entry in self._enter(proposals)]

    def _enter(self, proposals: Sequence[ProposalIn]) -> list[BenchEntry]:
        """Runs the fast rungs on proposals. Returns the entry that answers each of them: of several stereoisomers or
        tautomers the first that is new to the campaign, else the first."""
        entries_by_proposal = [self._parse(proposal) for proposal in proposals]
        entries = list(chain.from_iterable(entries_by_proposal))
        fresh: Sequence[BenchEntry] = self._mark_duplicates(entries)
        self._read_experimental_values(fresh)
        n_free = len(list(takewhile(lambda rung: rung.is_fast, self._built.fast)))
        self._run_through(fresh, self._built.fast[:n_free])
        fresh = self._filtered(fresh)
        self._run_through(fresh, self._built.fast[n_free:])
        for entry in fresh:
            if entry.place is None:
                self._place(entry)
        self._entries.extend(entries)
        answering = []
        for forms in entries_by_proposal:
            new = [entry for entry in forms if entry.status == "new"]
            answering.append((new or forms)[0])
        return answering

    def _run_through(self, fresh: Sequence[BenchEntry], rungs: Sequence[BuiltRung]) -> None:
        """Runs rungs on the entries that are open."""
        for rung in rungs:
            open_entries = []
            for entry in fresh:
                is_open = entry.place is None or entry.place.standing is Standing.OPEN
                if is_open and not is_spared(rung.rules, entry.experimental):
                    open_entries.append(entry)
            self._run_fast(rung, open_entries)

    def _filtered(self, fresh: Sequence[BenchEntry]) -> Sequence[BenchEntry]:
        """Returns the entries that the filter lets go on. Seeds, and what a fast rung has dropped, are not judged.

        What the fast rungs have answered on the others is not kept, but the cost of it is booked.
        """
        if self._filter is None:
            return fresh
        judged = {}
        for entry in fresh:
            is_open = entry.place is None or entry.place.standing is Standing.OPEN
            if entry.candidate and is_open and entry.given.operation != SEED:
                judged[entry.candidate.key] = entry
        decisions = self._filter.decide(self, {key: entry.notation for key, entry in judged.items()})
        dropped = set()
        for key, decision in decisions.items():
            entry = judged[key]
            entry.filter_decision = decision
            if decision.drops:
                dropped.add(key)
                self._drop(entry, decision.why_dropped(self._filter.share_text))
        if not dropped:
            return fresh
        with self._built.ledger.read() as connection:
            ids = candidates.ids_of(connection, dropped)
            before = proposer_trajectories.filtered_among(connection, self._built.row.id, list(ids.values()))
        for key in dropped:
            judged[key].is_filtered_first = ids.get(key) not in before
        return [entry for entry in fresh if entry.status != FILTERED]

    def _drop(self, entry: BenchEntry, why: str) -> None:
        """Makes a proposal one that the filter dropped."""
        for _, result in entry.computed:
            self._charged += result.cost
        entry.status = FILTERED
        entry.detail = f"{why}; {entry.detail}" if entry.detail else why
        entry.place = None
        entry.computed.clear()
        entry.reused.clear()
        entry.answers.clear()

    def best(self, n: int) -> list[KnownCandidate]:
        with self._built.ledger.read() as connection:
            return list(best_candidates(connection, self._built, n).values())

    def measured(self) -> list[MeasuredCandidate]:
        if self._measured is None:  # read once a turn, in which the campaign's own answers do not change
            with self._built.ledger.read() as connection:
                self._measured = measured_candidates(connection, self._built)
        return self._measured

    def past(self, campaigns: Sequence[str], law: str | None) -> PastValues:
        with self._built.ledger.read() as connection:
            if law is not None:
                return values_of_law(connection, self._built, law)
            return past_values(connection, self._built, campaigns) if campaigns else {}

    def charge(self, core_seconds: float) -> None:
        """Adds what the proposer itself has computed to the cost of the turn."""
        self._charged += Cost(core_seconds=core_seconds)

    def missed_gate(self, candidate: Candidate) -> str | None:
        return self._built.free_gates.missed(self._standardisation.of(candidate))

    def key_of(self, candidate: Candidate) -> str:
        return self._standardisation.of(candidate).key

    def known(self, candidate: Candidate) -> bool:
        key = self.key_of(candidate)
        return key in self._known_keys or bool(self._members([key]))

    def _members(self, keys: Sequence[str]) -> set[str]:
        """Returns the keys whose candidates are in the campaign already."""
        with self._built.ledger.read() as connection:
            ids = candidates.ids_of(connection, keys)
            present = candidate_standings.members(connection, self._built.row.id, list(ids.values()))
        return {key for key, id_ in ids.items() if id_ in present}

    def _parse(self, given: ProposalIn) -> list[BenchEntry]:
        """Returns an entry for each candidate of a proposal, or one for its refusal."""
        try:
            forms = self._standardisation.forms(given.text, given.multiplicity)
        except InvalidCandidateError as error:
            # there is no candidate to keep the names, so the detail keeps them
            named = "".join(f"; {column} {text}" for column, text in given.names.items())
            return [BenchEntry(given, None, "refused", Reason(error.reason), error.detail + named)]
        entries = []
        for made in forms:
            notation = self._built.subject.notation(made.candidate)
            entries.append(BenchEntry(given, made.candidate, "new", detail=made.note, made=made, notation=notation))
        return entries

    def _mark_duplicates(self, entries: Sequence[BenchEntry]) -> list[BenchEntry]:
        """Marks duplicates; returns entries that are new to the campaign."""
        parsed = [(entry, entry.candidate.key) for entry in entries if entry.candidate]
        self._known_keys.update(self._members([key for _, key in parsed]))
        fresh = []
        for entry, key in parsed:
            if key in self._known_keys:
                entry.status = "duplicate"
                continue
            twin = self._twin(entry)
            if twin is None:
                self._known_keys.add(key)
                fresh.append(entry)
                continue
            entry.status = "duplicate"
            entry.candidate = twin
            entry.notation = self._built.subject.notation(twin)
            entry.detail = f"the same structure as {twin.text} ({twin.key[:8]}), although not to the last digit"
        return fresh

    def _twin(self, entry: BenchEntry) -> Candidate | None:
        """Returns the candidate of the campaign or of this turn that is the same structure under another key."""
        subject = self._built.subject
        candidate = entry.candidate
        if candidate is None or not subject.matches:
            return None
        family_hash = subject.features(entry.notation).family_hash
        of_this_turn = self._by_family.setdefault((family_hash, candidate.formula), [])
        of_campaign = self._campaign_family(family_hash, candidate.formula)
        for other in [*of_this_turn, *of_campaign]:
            if subject.same(candidate, other):
                return other
        of_this_turn.append(candidate)
        return None

    def _campaign_family(self, family_hash: str, formula: str) -> list[Candidate]:
        """Returns the candidates of the campaign with this family and formula."""
        with self._built.ledger.read() as connection:
            ids = candidates.ids_of_family(connection, self._built.row.id, family_hash, formula, MAX_COMPARED)
            return list(candidates.load(connection, ids).values())

    def _read_experimental_values(self, entries: Sequence[BenchEntry]) -> None:
        """Reads the imported experimental values that decide objectives of the entries' candidates."""
        if not self._built.measured_decides:
            return
        by_key = {entry.candidate.key: entry for entry in entries if entry.candidate}
        with self._built.ledger.read() as connection:
            ids = candidates.ids_of(connection, by_key)
            values = experimental_values_of(connection, self._built, list(ids.values()))
        for key, id_ in ids.items():
            by_key[key].experimental = values.get(id_, NO_VALUES)

    def _run_fast(self, rung: BuiltRung, entries: Sequence[BenchEntry]) -> None:
        answer_at_once(self._built, self._worker, rung, entries)
        for entry in entries:
            self._place(entry)

    def _place(self, entry: BenchEntry) -> None:
        """Computes the place of the candidate on the ladder from the answers so far."""
        built = self._built
        entry.place = place(built.rules, built.objectives, entry.answers, experimental=entry.experimental)

    def commit(self, connection: Connection, turn_id: int | None) -> None:
        """Writes the turn: candidates, proposals, evidence of fast rungs, standings, spend.

        The caller holds the lock of the campaign's row. turn_id: None for a person's proposals.
        """
        for entry in self._entries:
            entry.turn_id = turn_id
        book_many(connection, [Bill(self._built.row.id, rung_id=None, attempt_id=None, cost=self._charged)])
        parsed = [(entry, entry.candidate) for entry in self._entries if entry.candidate]
        described = self._described_candidates([entry for entry, _ in parsed])
        notes = novelty_notes(connection, self._built.subject, described)
        wholes = [entry.whole for entry, _ in parsed if entry.whole]
        ids = candidates.enter(connection, [*(candidate for _, candidate in parsed), *wholes])
        features_of_new = {}
        for (key, features), note in zip(described, notes, strict=True):
            if note["candidate"]:  # the candidate is new to the ledger
                features_of_new[ids[key]] = features
        remember_families(connection, self._built.subject, features_of_new)
        self._write_texts_and_names(connection, parsed, ids)
        present = candidate_standings.members(connection, self._built.row.id, list(ids.values()))
        for (entry, candidate), note in zip(parsed, notes, strict=True):
            entry.novelty = note
            if ids[candidate.key] in present:  # another process may have added it since `propose`
                entry.status = "duplicate"
        fresh = self._write_proposals(connection, ids)
        self._write_parents(connection, fresh)
        self._write_results(connection, fresh, ids)

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

    def _described_candidates(self, entries: Sequence[BenchEntry]) -> list[tuple[str, Features]]:
        """Returns key, family and fingerprint of the candidates of parsed proposals."""
        subject = self._built.subject
        return [(entry.candidate.key, subject.features(entry.notation)) for entry in entries if entry.candidate]

    def _write_results(self, connection: Connection, fresh: Sequence[FreshCandidate], ids: Mapping[str, int]) -> None:
        """Writes standings of new candidates, and the results of the fast rungs. ids: ledger ids of all candidates, by
        key."""
        self._write_standings(connection, fresh)
        turn_ids = dict.fromkeys(entry.turn_id for entry in self._entries)  # a subclass commits several turns at once
        for rung in self._built.fast:
            for turn_id in turn_ids:
                self._write_fast(connection, rung, ids, turn_id)
        self._drop_alike(connection, fresh)
        record_derived(connection, self._built, [new.id for new in fresh])
        self._write_blocked(connection, fresh)
        self._log_states(connection, fresh)
        self._write_reuse(connection, fresh)

    def _write_proposals(self, connection: Connection, ids: Mapping[str, int]) -> list[FreshCandidate]:
        """Writes all proposals; returns the new candidates."""
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
            for entry in self._entries
        ]
        statement = t.proposal.insert().returning(t.proposal.c.id, sort_by_parameter_order=True)
        proposal_ids = connection.execute(statement, rows).scalars() if rows else ()
        return [
            FreshCandidate(entry, entry.candidate, ids[entry.candidate.key], int(proposal_id))
            for entry, proposal_id in zip(self._entries, proposal_ids, strict=True)
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

    def _write_blocked(self, connection: Connection, fresh: Sequence[FreshCandidate]) -> None:
        """Logs an event for each candidate that the safety screen refused."""
        for new in fresh:
            operation = new.entry.given.operation[:MAX_OPERATION]
            log_if_blocked(connection, self._built, new.entry, turn_id=new.entry.turn_id, operation=operation)

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
            if new.entry.made and new.entry.whole:
                row = {
                    "candidate_id": new.id,
                    "parent_id": known[new.entry.whole.key],
                    "proposal_id": new.proposal_id,
                    "operation": new.entry.made.operation,
                }
                rows.append(row)
            for key in dict.fromkeys(new.entry.given.parents):
                if key not in known:
                    continue
                row = {
                    "candidate_id": new.id,
                    "parent_id": known[key],
                    "proposal_id": new.proposal_id,
                    "operation": new.entry.given.operation[:MAX_OPERATION],
                }
                rows.append(row)
        if rows:
            connection.execute(t.candidate_parent.insert(), rows)

    def _write_fast(self, connection: Connection, rung: BuiltRung, ids: Mapping[str, int], turn_id: int | None) -> None:
        """Writes the results of a rung in a turn."""
        entries_of_turn = [entry for entry in self._entries if entry.turn_id == turn_id]
        batch = []
        for entry in entries_of_turn:
            for computed_rung, result in entry.computed:
                if computed_rung is rung and entry.candidate:
                    batch.append((entry.candidate, result))
        if not batch:
            return
        write_direct_results(connection, self._built, rung, batch, ids, owner=self._owner, turn_id=turn_id)

    def _write_reuse(self, connection: Connection, fresh: Sequence[FreshCandidate]) -> None:
        """Writes a decision for each new candidate of which a rung reused evidence."""
        rows = []
        for new in fresh:
            for rung, evidence_id in new.entry.reused:
                rows.append(reuse_decision(new.id, rung, evidence_id))
        candidate_standings.decide(connection, self._built.row.id, rows)


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
