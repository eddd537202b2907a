"""The workbench through which proposers act. Proposals are parsed, run through the fast rungs at once, and written to
the ledger together with their turn, so that after a kill a turn is there completely or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.core import safety
from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.judge import Answer, Place, place
from sciagent.campaign.core.record import answer_of, direct_result
from sciagent.campaign.proposing import newness
from sciagent.campaign.spec.safety import SCREEN
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.campaigns.ports import ProposalIn, ProposalOut, Scored
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.jobs.states import Standing
from sciagent.domain.outcomes import Reason, Verdict
from sciagent.errors import InvalidCandidateError
from sciagent.execution.worker.completing import complete_direct, store_files
from sciagent.store.campaign_state import standings
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.results import candidates, evidence
from sciagent.verification.sandbox.host import HostResult, Request, Worker

MAX_TEXT = 4000  # characters kept of a text that did not become a candidate


@dataclass
class _Entry:
    """One proposal of the turn, on its way into the ledger."""

    given: ProposalIn
    status: str  # new | duplicate | refused
    candidate: Candidate | None = None
    reason: Reason | None = None
    detail: str = ""
    answers: list[Answer] = field(default_factory=list)
    computed: list[tuple[BuiltRung, HostResult]] = field(default_factory=list)
    reused: list[tuple[BuiltRung, int]] = field(default_factory=list)
    where: Place | None = None


class CampaignWorkbench:
    """Implements `domain.ports.Workbench` for one turn: call `propose` any number of times, then `commit` once."""

    def __init__(self, built: Built, worker: Worker, owner: str) -> None:
        self._built = built
        self._worker = worker
        self._owner = owner
        self._entries: list[_Entry] = []
        self._new_keys: set[str] = set()

    @property
    def n_proposals(self) -> int:
        return len(self._entries)

    @property
    def n_new(self) -> int:
        return sum(e.status == "new" for e in self._entries)

    @property
    def cost(self) -> Cost:
        """Cost of the fast rungs in this turn."""
        total = Cost()
        for entry in self._entries:
            for _, result in entry.computed:
                total = total + result.cost
        return total

    @property
    def calls(self) -> Sequence[Mapping[str, Any]]:
        """The turn's tool calls, as the ledger stores them."""
        return [
            {
                "tool": "propose",
                "arguments": {"text": e.given.text[:MAX_TEXT].replace("\0", "\\0"), "parents": list(e.given.parents)},
            }
            for e in self._entries
        ]

    @property
    def observations(self) -> list[dict[str, Any]]:
        """The answer to each call."""
        answers = (_out(e) for e in self._entries)
        return [{"status": o.status, "key": o.key, "standing": o.standing, "reason": o.reason} for o in answers]

    def propose(self, proposals: Sequence[ProposalIn]) -> list[ProposalOut]:
        entries = [self._parse(p) for p in proposals]
        fresh = self._mark_duplicates(entries)
        for rung in self._built.fast:
            self._run_fast(rung, [e for e in fresh if e.where is None or e.where.standing is Standing.OPEN])
        for entry in fresh:
            if entry.where is None:
                entry.where = place(self._built.rules, self._built.objectives, entry.answers)
        self._entries.extend(entries)
        return [_out(e) for e in entries]

    def best(self, n: int) -> list[Scored]:
        with self._built.ledger.read() as connection:
            rows = standings.top(connection, self._built.row.id, n)
        return [
            Scored(key, text, value, depth, seeds, seq, made or "")
            for _, key, text, value, depth, seeds, seq, made in rows
        ]

    def known(self, key: str) -> bool:
        if key in self._new_keys:
            return True
        with self._built.ledger.read() as connection:
            ids = candidates.ids_of(connection, [key])
            return bool(ids) and bool(standings.members(connection, self._built.row.id, list(ids.values())))

    def _parse(self, given: ProposalIn) -> _Entry:
        spec = self._built.spec
        try:
            made = parse_molecule(given.text, standardise=spec.standardise, multiplicity=given.multiplicity)
        except InvalidCandidateError as error:
            return _Entry(given, "refused", reason=Reason(error.reason), detail=error.detail)
        return _Entry(given, "new", candidate=made)

    def _mark_duplicates(self, entries: Sequence[_Entry]) -> list[_Entry]:
        """Mark duplicates, and return the entries that are new to the campaign."""
        keys = [e.candidate.key for e in entries if e.candidate is not None]
        with self._built.ledger.read() as connection:
            ids = candidates.ids_of(connection, keys)
            there = standings.members(connection, self._built.row.id, list(ids.values()))
        fresh = []
        for entry in entries:
            if entry.candidate is None or entry.status == "refused":
                continue
            key = entry.candidate.key
            if key in self._new_keys or ids.get(key) in there:
                entry.status = "duplicate"
            else:
                self._new_keys.add(key)
                fresh.append(entry)
        return fresh

    def _run_fast(self, rung: BuiltRung, entries: Sequence[_Entry]) -> None:
        """Reuse known evidence, and run the rest in the warm process as one batch."""
        v = rung.verifier
        by_key = {e.candidate.key: e for e in entries if e.candidate is not None}
        with self._built.ledger.read() as connection:
            ids = candidates.ids_of(connection, by_key)
            known = evidence.find_reusable(connection, list(ids.values()), v.name, v.version, v.settings_hash)
        for key, id_ in ids.items():
            if id_ in known:
                by_key[key].answers.append(answer_of(rung, known[id_]))
                by_key[key].reused.append((rung, known[id_].id))
                self._place(by_key.pop(key))
        todo = [e for e in by_key.values() if e.candidate is not None]
        if not todo:
            return
        batch = tuple(e.candidate for e in todo if e.candidate is not None)
        settings = v.request_settings
        for entry, result in zip(todo, self._worker.run(Request(v.name, settings, batch, rung.limits)), strict=True):
            entry.answers.append(answer_of(rung, result.finding))
            entry.computed.append((rung, result))
            self._place(entry)

    def _place(self, entry: _Entry) -> None:
        entry.where = place(self._built.rules, self._built.objectives, entry.answers)

    def commit(self, connection: Connection, turn_id: int | None, seeds: frozenset[str] = frozenset()) -> None:
        """Write the turn: candidates, proposals, fast evidence, standings, spend.

        The caller holds the lock of the campaign's row. turn_id: None for proposals of a person.
        """
        built, now = self._built, db_now(connection)
        made = [e.candidate for e in self._entries if e.candidate is not None]
        novelty = newness.notes(connection, [e.candidate for e in self._entries])
        ids = candidates.enter(connection, made)
        newness.remember(
            connection, [e.candidate for e, n in zip(self._entries, novelty, strict=True) if _is_new(n)], ids
        )
        candidates.enter_aliases(
            connection, [(ids[e.candidate.key], e.given.text) for e in self._entries if e.candidate and e.given.text]
        )
        there = standings.members(
            connection, built.row.id, [ids[e.candidate.key] for e in self._entries if e.candidate is not None]
        )
        for entry in self._entries:  # another process may have added the same candidate since `propose`
            if entry.candidate is not None and ids[entry.candidate.key] in there:
                entry.status = "duplicate"
        rows = [
            {
                "campaign_id": built.row.id,
                "turn_id": turn_id,
                "text": entry.given.text.replace("\0", "\\0")[:MAX_TEXT],
                "candidate_id": ids[entry.candidate.key] if entry.candidate else None,
                "status": entry.status,
                "reason": entry.reason,
                "detail": entry.detail[:1000],
                "operation": entry.given.operation[:100],
                "rationale": entry.given.rationale[:4000],
                "predicted": dict(entry.given.predicted),
                "at": now,
                "novelty": note,
            }
            for entry, note in zip(self._entries, novelty, strict=True)
        ]
        statement = t.proposal.insert().returning(t.proposal.c.id, sort_by_parameter_order=True)
        proposal_ids = [int(i) for i in connection.execute(statement, rows).scalars()] if rows else []
        fresh = [(e, p) for e, p in zip(self._entries, proposal_ids, strict=True) if e.status == "new"]
        self._write_parents(connection, fresh, ids)
        self._write_standings(connection, fresh, ids, seeds)
        for rung in built.fast:
            self._write_fast(connection, rung, ids)
        self._write_blocked(connection, turn_id)
        self._write_reuse(connection, fresh, ids)

    def _write_standings(
        self, connection: Connection, fresh: Sequence[tuple[_Entry, int]], ids: dict[str, int], seeds: frozenset[str]
    ) -> None:
        rows = [
            {
                "candidate_id": ids[entry.candidate.key],
                "proposal_id": proposal_id,
                "in_seeds": entry.given.operation == "seed" or entry.candidate.key in seeds,
                **entry.where.columns,
            }
            for entry, proposal_id in fresh
            if entry.candidate is not None and entry.where is not None
        ]
        standings.add(connection, self._built.row.id, rows)

    def _write_blocked(self, connection: Connection, turn_id: int | None) -> None:
        """An event for each candidate that the safety screen refused."""
        for e in self._entries:
            where = e.where
            by_rung = (
                e.status == "new"
                and where is not None
                and where.verdict is Verdict.NOT_APPLICABLE
                and self._built.rungs[where.position].verifier.name == SCREEN
            )
            if e.candidate is None or not (by_rung or e.status == "refused"):
                continue
            reason, detail = (where.reason or "", where.detail) if by_rung and where else (str(e.reason), e.detail)
            safety.log_blocked(
                connection,
                self._built.row.id,
                key=e.candidate.key,
                text=e.given.text,
                reason=reason,
                detail=detail,
                operation=e.given.operation[:100],
                turn_id=turn_id,
            )

    def _write_parents(self, connection: Connection, fresh: Sequence[tuple[_Entry, int]], ids: dict[str, int]) -> None:
        rows = []
        for entry, proposal_id in fresh:
            for parent in dict.fromkeys(entry.given.parents):
                try:
                    key = parse_molecule(parent).key
                except InvalidCandidateError:
                    continue
                ids_of_key = candidates.ids_of(connection, [key])
                if key in ids_of_key and entry.candidate is not None:
                    rows.append(
                        {
                            "candidate_id": ids[entry.candidate.key],
                            "parent_id": ids_of_key[key],
                            "proposal_id": proposal_id,
                            "operation": entry.given.operation[:100],
                        }
                    )
        if rows:
            connection.execute(t.candidate_parent.insert(), rows)

    def _write_fast(self, connection: Connection, rung: BuiltRung, ids: dict[str, int]) -> None:
        """One attempt for the whole batch of a fast rung."""
        batch = [(e, result) for e in self._entries for r, result in e.computed if r is rung]
        if not batch:
            return
        files = store_files(self._built.ledger, [result for _, result in batch])
        results = [
            direct_result(rung, ids[entry.candidate.key], entry.candidate, result, artifacts)
            for (entry, result), artifacts in zip(batch, files, strict=True)
            if entry.candidate is not None
        ]
        complete_direct(connection, self._owner, results, campaign_id=self._built.row.id, rung_id=rung.id)

    def _write_reuse(self, connection: Connection, fresh: Sequence[tuple[_Entry, int]], ids: dict[str, int]) -> None:
        now, mark = db_now(connection), evidence.read_watermark(connection)
        rows: list[dict[str, Any]] = [
            {
                "campaign_id": self._built.row.id,
                "candidate_id": ids[e.candidate.key],
                "rung_id": rung.id,
                "action": "reuse",
                "chooser": "reuse",
                "why": "known under the same settings",
                "watermark": mark,
                "propensity": 1.0,
                "evidence_id": evidence_id,
                "at": now,
            }
            for e, _ in fresh
            for rung, evidence_id in e.reused
            if e.candidate is not None
        ]
        if rows:
            connection.execute(t.decision.insert(), rows)


def _is_new(note: dict[str, Any] | None) -> bool:
    return note is not None and bool(note["candidate"])


def _out(entry: _Entry) -> ProposalOut:
    where = entry.where
    dropped = where is not None and where.standing is Standing.DROPPED
    return ProposalOut(
        entry.given.text[:200],
        entry.status,
        entry.candidate.key if entry.candidate else None,
        (where.reason if dropped and where else entry.reason) or None,
        (where.detail if dropped and where else entry.detail)[:300],
        str(where.standing) if where else None,
    )
