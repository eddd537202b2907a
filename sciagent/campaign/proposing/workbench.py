"""The workbench of proposers: parses proposals, runs the fast rungs on them, and writes them to the ledger together
with their turn. After a kill the ledger has a turn completely or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.derived_values import record_derived
from sciagent.campaign.core.judge import Answer, Place, place
from sciagent.campaign.core.record import log_blocked
from sciagent.campaign.proposing.at_once import Runs, answer_at_once
from sciagent.campaign.proposing.measured import measured_candidates
from sciagent.campaign.spec.safety import SCREEN
from sciagent.chemistry.fingerprint import FINGERPRINT, Features, features, nearest
from sciagent.chemistry.molecule import Molecule, molecule_or_none
from sciagent.chemistry.protonation import Standardised
from sciagent.domain.campaigns.ports import ProposalIn, ProposalOut, Scored
from sciagent.domain.campaigns.scripts import MeasuredCandidate
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.jobs.states import Standing
from sciagent.domain.outcomes import Reason, Verdict
from sciagent.errors import InvalidCandidateError
from sciagent.execution.worker.completing import DirectResult, complete_direct, store_files
from sciagent.store.campaign_state import campaigns, standings
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue.spend import Bill, book_many
from sciagent.store.results import candidates, names, scaffolds
from sciagent.verification.sandbox.host import HostResult

MAX_TEXT = 4000  # characters stored of a proposed text
COMPARED = 256  # number of latest candidates in the ledger, of any campaign, that a proposal is compared with
LISTED = 5  # most molecules that an event on protonation states names
FILLED = 200  # most earlier candidates without a scaffold whose scaffold is stored with each turn

Note = dict[str, Any]


@dataclass
class BenchEntry:
    """One proposal of the turn that is not written yet."""

    given: ProposalIn
    candidate: Molecule | None
    """The parsed molecule; None if the text was refused."""
    status: str
    """`new`, `duplicate` or `refused`."""
    reason: Reason | None = None
    detail: str = ""
    """Why it was refused, or how the candidate was made from the text."""
    made: Standardised | None = None
    """The way from the text to the candidate; None if the text was refused."""
    answers: list[Answer] = field(default_factory=list)
    """Answers of the fast and inline rungs so far."""
    computed: list[tuple[BuiltRung, HostResult]] = field(default_factory=list)
    reused: list[tuple[BuiltRung, int]] = field(default_factory=list)
    """Rungs with reused evidence, and the id of the evidence."""
    place: Place | None = None
    novelty: Note | None = None
    turn_id: int | None = None
    """Id of the turn in the ledger; None before it is written, and for a person's proposals."""
    charged: Cost = field(default_factory=Cost)
    """Cost of the fast and inline rungs on this candidate, whoever computed it and whenever."""

    def out(self) -> ProposalOut:
        place = self.place
        dropped = place is not None and place.standing is Standing.DROPPED
        reason, detail = (place.reason, place.detail) if dropped and place else (self.reason, self.detail)
        key = self.candidate.key if self.candidate else None
        standing = str(place.standing) if place else None
        text = self.candidate.smiles if self.candidate else ""
        given = self.given.text[:200]
        return ProposalOut(given, self.status, key, reason or None, detail[:300], standing, candidate=text)


class FreshCandidate(NamedTuple):
    """A candidate that this turn adds to the campaign."""

    entry: BenchEntry
    candidate: Molecule
    id: int
    proposal_id: int


class CampaignWorkbench:
    """The workbench for one turn: `propose` is called any number of times, then `commit` once."""

    def __init__(self, built: Built, worker: Runs, owner: str) -> None:
        self._built, self._worker, self._owner = built, worker, owner
        self._standardisation = built.spec.standardisation
        self._entries: list[BenchEntry] = []
        self._new_keys: set[str] = set()
        self._charged = Cost()

    @property
    def entries(self) -> Sequence[BenchEntry]:
        """The proposals of the turn so far."""
        return self._entries

    @property
    def n_proposals(self) -> int:
        return len(self._entries)

    @property
    def n_new(self) -> int:
        return sum(entry.status == "new" for entry in self._entries)

    @property
    def cost(self) -> Cost:
        """Cost of the fast and inline rungs in this turn, and of the proposer's own computation."""
        return sum((result.cost for entry in self._entries for _, result in entry.computed), self._charged)

    @property
    def calls(self) -> Sequence[Mapping[str, Any]]:
        """Tool calls of the turn, in the ledger's form."""
        return [
            {"tool": "propose", "arguments": {"text": _stored(entry.given.text), "parents": list(entry.given.parents)}}
            for entry in self._entries
        ]

    @property
    def observations(self) -> list[dict[str, Any]]:
        """Observations that answer the calls, in the ledger's form."""
        answers = (entry.out() for entry in self._entries)
        return [{"status": o.status, "key": o.key, "standing": o.standing, "reason": o.reason} for o in answers]

    def propose(self, proposals: Sequence[ProposalIn]) -> list[ProposalOut]:
        entries = [self._parse(proposal) for proposal in proposals]
        fresh = self._mark_duplicates(entries)
        for rung in self._built.fast:
            self._run_fast(rung, [e for e in fresh if e.place is None or e.place.standing is Standing.OPEN])
        for entry in fresh:
            if entry.place is None:
                self._place(entry)
        self._entries.extend(entries)
        return [entry.out() for entry in entries]

    def best(self, n: int) -> list[Scored]:
        with self._built.ledger.read() as connection:
            rows = standings.top(connection, self._built.row.id, n)
        return [
            Scored(key, text, value, depth, seeds, seq, operation or "")
            for _, key, text, value, depth, seeds, seq, operation in rows
        ]

    def measured(self) -> list[MeasuredCandidate]:
        with self._built.ledger.read() as connection:
            return measured_candidates(connection, self._built)

    def charge(self, core_seconds: float) -> None:
        self._charged += Cost(core_seconds=core_seconds)

    def missed_gate(self, candidate: Candidate) -> str | None:
        return self._built.free_gates.missed(self._standardisation.of(candidate))

    def known(self, candidate: Candidate) -> bool:
        key = self._standardisation.of(candidate).key
        return key in self._new_keys or bool(self._members([key]))

    def _members(self, keys: Sequence[str]) -> set[str]:
        """Returns the keys whose candidates are in the campaign already."""
        with self._built.ledger.read() as connection:
            ids = candidates.ids_of(connection, keys)
            present = standings.members(connection, self._built.row.id, list(ids.values()))
        return {key for key, id_ in ids.items() if id_ in present}

    def _parse(self, given: ProposalIn) -> BenchEntry:
        try:
            made = self._standardisation.apply(given.text, given.multiplicity)
        except InvalidCandidateError as error:
            named = "".join(f"; {column} {text}" for column, text in given.names.items())  # no candidate keeps them
            return BenchEntry(given, None, "refused", Reason(error.reason), error.detail + named)
        return BenchEntry(given, made.molecule, "new", detail=made.note, made=made)

    def _mark_duplicates(self, entries: Sequence[BenchEntry]) -> list[BenchEntry]:
        """Marks duplicates; returns entries that are new to the campaign."""
        parsed = [(entry, entry.candidate.key) for entry in entries if entry.candidate]
        self._new_keys |= self._members([key for _, key in parsed])
        fresh = []
        for entry, key in parsed:
            if key in self._new_keys:
                entry.status = "duplicate"
            else:
                self._new_keys.add(key)
                fresh.append(entry)
        return fresh

    def _run_fast(self, rung: BuiltRung, entries: Sequence[BenchEntry]) -> None:
        answer_at_once(self._built, self._worker, rung, entries)
        for entry in entries:
            self._place(entry)

    def _place(self, entry: BenchEntry) -> None:
        entry.place = place(self._built.rules, self._built.objectives, entry.answers)

    def commit(self, connection: Connection, turn_id: int | None) -> None:
        """Writes the turn: candidates, proposals, evidence of fast rungs, standings, spend.

        The caller holds the lock of the campaign's row. turn_id: None for a person's proposals.
        """
        for entry in self._entries:
            entry.turn_id = turn_id
        book_many(connection, [Bill(self._built.row.id, None, None, self._charged)])
        parsed = [(entry, entry.candidate) for entry in self._entries if entry.candidate]
        molecules = [candidate for _, candidate in parsed]
        notes = novelty_notes(connection, molecules)
        ids = candidates.enter(connection, molecules)
        remember_scaffolds(connection, [m for m, note in zip(molecules, notes, strict=True) if note["candidate"]], ids)
        candidates.enter_aliases(connection, [(ids[c.key], e.given.text) for e, c in parsed if e.given.text])
        names.enter(connection, self._built.row.id, [(ids[c.key], e.given.names) for e, c in parsed])
        present = standings.members(connection, self._built.row.id, list(ids.values()))
        for (entry, candidate), note in zip(parsed, notes, strict=True):
            entry.novelty = note
            if ids[candidate.key] in present:  # another process may have added it since `propose`
                entry.status = "duplicate"
        fresh = self._write_proposals(connection, ids)
        self._write_parents(connection, fresh)
        self._write_results(connection, fresh, ids)

    def _write_results(self, connection: Connection, fresh: Sequence[FreshCandidate], ids: Mapping[str, int]) -> None:
        """Writes standings of new candidates, and the results of the fast rungs. ids: of all candidates, by key."""
        self._write_standings(connection, fresh)
        for rung in self._built.fast:
            for turn_id in dict.fromkeys(entry.turn_id for entry in self._entries):
                self._write_fast(connection, rung, ids, turn_id)
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
                "text": _stored(entry.given.text),
                "candidate_id": ids[entry.candidate.key] if entry.candidate else None,
                "status": entry.status,
                "reason": entry.reason,
                "detail": entry.detail[:1000],
                "operation": entry.given.operation[:100],
                "rationale": entry.given.rationale[:4000],
                "predicted": dict(entry.given.predicted),
                "at": now,
                "novelty": entry.novelty,
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
        standings.add(connection, self._built.row.id, rows)

    def _write_blocked(self, connection: Connection, fresh: Sequence[FreshCandidate]) -> None:
        """Logs an event for each candidate that the safety screen refused."""
        for new in fresh:
            place, given, key = new.entry.place, new.entry.given, new.candidate.key
            if place is None or place.verdict is not Verdict.NOT_APPLICABLE:
                continue
            if self._built.rungs[place.position].verifier.name == SCREEN:
                said: Any = {"reason": place.reason or "", "detail": place.detail, "operation": given.operation[:100]}
                log_blocked(connection, self._built.row.id, key=key, text=given.text, turn_id=new.entry.turn_id, **said)

    def _log_states(self, connection: Connection, fresh: Sequence[FreshCandidate]) -> None:
        """Logs an event on new candidates whose protonation state is ambiguous, and one on those without a state."""
        made = [(new.entry.made, new.candidate.smiles) for new in fresh if new.entry.made]
        unsure = [smiles for one, smiles in made if one.is_ambiguous]
        failed = [smiles for one, smiles in made if one.fault]
        for kind, smiles in ((campaigns.AMBIGUOUS_STATE, unsure), (campaigns.NO_STATE, failed)):
            if smiles:
                campaigns.log_event(connection, self._built.row.id, kind, {"n": len(smiles), "smiles": smiles[:LISTED]})

    def _write_parents(self, connection: Connection, fresh: Sequence[FreshCandidate]) -> None:
        rows = []
        for new in fresh:
            for parent in dict.fromkeys(new.entry.given.parents):
                if (molecule := molecule_or_none(parent)) is None:
                    continue
                key = self._standardisation.of(molecule).key
                for parent_id in candidates.ids_of(connection, [key]).values():
                    row = {"candidate_id": new.id, "parent_id": parent_id, "proposal_id": new.proposal_id}
                    rows.append(row | {"operation": new.entry.given.operation[:100]})
        if rows:
            connection.execute(t.candidate_parent.insert(), rows)

    def _write_fast(self, connection: Connection, rung: BuiltRung, ids: Mapping[str, int], turn_id: int | None) -> None:
        """Writes one attempt for what a fast rung computed in a turn; of an inline rung, one for each candidate."""
        mine = [entry for entry in self._entries if entry.turn_id == turn_id]
        batch = [(e.candidate, result) for e in mine for r, result in e.computed if r is rung and e.candidate]
        if not batch:
            return
        files = store_files(self._built.ledger, [result for _, result in batch])
        results = [
            DirectResult(
                rung.verifier,
                ids[candidate.key],
                rung.verifier.evidence_key(candidate),
                result,
                artifacts,
                None if rung.is_fast else rung.declared(candidate),
            )
            for (candidate, result), artifacts in zip(batch, files, strict=True)
        ]
        of_rung = {"campaign_id": self._built.row.id, "rung_id": rung.id}
        for part in [results] if rung.is_fast else [[result] for result in results]:
            complete_direct(connection, self._owner, part, **of_rung, turn_id=turn_id)

    def _write_reuse(self, connection: Connection, fresh: Sequence[FreshCandidate]) -> None:
        alike = {"action": "reuse", "chooser": "reuse", "why": "known under the same settings", "propensity": 1.0}
        rows = [
            {"candidate_id": new.id, "rung_id": rung.id, "evidence_id": evidence_id, **alike}
            for new in fresh
            for rung, evidence_id in new.entry.reused
        ]
        standings.decide(connection, self._built.row.id, rows)


def _stored(text: str) -> str:
    return text[:MAX_TEXT].replace("\0", "\\0")


def novelty_notes(connection: Connection, molecules: Sequence[Molecule]) -> list[Note]:
    """Returns a note on the novelty of each molecule before it is entered, which depends on time and so is no evidence.

    Earlier molecules of the same turn count as known. `candidate`: whether the molecule is new to the ledger.
    `scaffold`: whether its Murcko scaffold is new; None if that is unknown, since the scaffolds of some earlier
    candidates are not stored yet. `nearest`: Tanimoto similarity, by `fingerprint`, to the nearest of the `compared`
    latest candidates; 1 for a known molecule, None if there are none.
    """
    known_keys = set(candidates.ids_of(connection, {molecule.key for molecule in molecules}))
    fresh = {molecule.key: features(molecule.text) for molecule in molecules if molecule.key not in known_keys}
    old_scaffolds = scaffolds.known(connection, (f.scaffold_hash for f in fresh.values()))
    unsure = bool(fresh) and bool(scaffolds.without(connection, 1))
    earlier = [features(text) for text in scaffolds.latest(connection, COMPARED)] if fresh else []
    noted: list[Note] = []
    for key in (molecule.key for molecule in molecules):
        if key in known_keys:
            noted.append({"candidate": False, "scaffold": False, "nearest": 1.0})
        else:
            noted.append(_note(fresh[key], old_scaffolds, earlier, unsure))
            known_keys.add(key)
            old_scaffolds.add(fresh[key].scaffold_hash)
            earlier = [fresh[key], *earlier[: COMPARED - 1]]
    return noted


def _note(fresh: Features, old: set[str], earlier: Sequence[Features], unsure: bool) -> Note:
    is_new = fresh.scaffold_hash not in old
    similarity = nearest(fresh, earlier)
    return {
        "candidate": True,
        "scaffold": None if is_new and unsure else is_new,
        "nearest": None if similarity is None else round(similarity, 4),
        "fingerprint": FINGERPRINT,
        "compared": len(earlier),
    }


def remember_scaffolds(connection: Connection, molecules: Sequence[Molecule], ids: Mapping[str, int]) -> None:
    """Stores the scaffolds of this turn's candidates, and of `FILLED` earlier candidates without one."""
    hashes = {ids[molecule.key]: features(molecule.text).scaffold_hash for molecule in molecules}
    scaffolds.write(connection, hashes)
    older = scaffolds.without(connection, FILLED)
    scaffolds.write(
        connection,
        {id_: features(text).scaffold_hash if kind == "molecule" else scaffolds.NONE for id_, kind, text in older},
    )
