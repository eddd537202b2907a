"""The workbench of proposers for one turn: parses proposals, runs the fast rungs on them, and keeps what the turn has
cost and what is to be logged. `write_turns` writes it to the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, takewhile
from typing import Any

from sciagent.agent.proposers.list_proposers import SEED
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.record_results_and_place import experimental_values_of
from sciagent.campaign.core.verdicts_and_places import NO_VALUES, is_spared, place
from sciagent.campaign.law.past_values import past_values, values_of_law
from sciagent.campaign.proposing.law_filter import LawFilter
from sciagent.campaign.proposing.proposal_novelty import best_candidates, measured_candidates
from sciagent.campaign.proposing.rungs_on_unwritten_proposals import BenchEntry, Runs, answer_at_once
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
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
from sciagent.store.campaign_state import candidate_standings, proposer_trajectories
from sciagent.store.results import candidates

MAX_COMPARED = 20  # most candidates of one family and formula that a proposal is matched with


class CampaignWorkbench:
    """The workbench for one turn: `propose` is called any number of times. Nothing of it is in the ledger yet."""

    def __init__(self, built: Built, worker: Runs, law_filter: LawFilter | None = None) -> None:
        """law_filter: drops proposals by their chance to be hits; None: all go on."""
        self.charged = Cost()
        """Cost beside that of the rungs: the proposer's own computation, and the sampling of its answer."""
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        """Kind and payload of what is logged with the turn."""
        self._built = built
        self._filter = law_filter
        self._worker = worker
        self._standardisation = built.spec.standardisation
        self._entries: list[BenchEntry] = []
        self._measured: list[MeasuredCandidate] | None = None
        # keys of the proposed candidates that the campaign has now, whether they were new or not
        self._known_keys: set[str] = set()
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
        """Cost of the fast and inline rungs in this turn, and `charged`."""
        total = self.charged
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
            self.charged += result.cost
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
