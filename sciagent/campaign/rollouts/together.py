"""Runs the tool calls of many episodes side by side, and what they ask of the fast rungs in one batch.

A tool call proposes in its middle and needs the result to go on. So each episode's calls run in a greenlet, which
pauses at a fast rung. When all episodes have paused or ended, each rung runs once for all of them. Nothing depends on
the order: the greenlets take turns in one thread, and no episode sees another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from greenlet import getcurrent, greenlet
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.derived_values import with_derived
from sciagent.campaign.core.record import answer_of
from sciagent.campaign.proposing.workbench import BenchEntry
from sciagent.domain.cost import Cost
from sciagent.store.learning import evidence_costs
from sciagent.store.results import candidates, evidence
from sciagent.verification.sandbox.host import Request, Worker

T = TypeVar("T")
_Wanted = tuple[BuiltRung, Sequence[BenchEntry]]


class FastRungs:
    """The fast rungs of a step of many episodes."""

    def __init__(self, built: Built, worker: Worker) -> None:
        self._built, self._worker = built, worker

    def run_all(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Runs tasks side by side, and returns their results in order. An error of a task is raised here."""
        results: dict[int, T] = {}

        def keep(place: int, task: Callable[[], T]) -> None:
            results[place] = task()

        running = [greenlet(keep) for _ in tasks]
        wanted = [each.switch(place, tasks[place]) for place, each in enumerate(running)]
        while any(not each.dead for each in running):
            waiting = [place for place, each in enumerate(running) if not each.dead]
            for rung in self._built.fast:
                if asked := [e for place in waiting if wanted[place][0] is rung for e in wanted[place][1]]:
                    self._answer(rung, asked)
            for place in waiting:
                wanted[place] = running[place].switch()
        return [results[place] for place in range(len(tasks))]

    def answer(self, rung: BuiltRung, entries: Sequence[BenchEntry]) -> None:
        """Lets the rung answer on the entries. Within a task it waits until all other tasks wait or have ended."""
        if (hub := getcurrent().parent) is None:
            self._answer(rung, entries)
        else:
            hub.switch((rung, entries))

    def _answer(self, rung: BuiltRung, entries: Sequence[BenchEntry]) -> None:
        """Reuses evidence where possible, and runs the rung once for each of the other candidates."""
        v = rung.verifier
        by_key: dict[str, list[BenchEntry]] = {}
        for entry in entries:
            if entry.candidate:
                by_key.setdefault(entry.candidate.key, []).append(entry)
        with self._built.ledger.read() as connection:
            ids = candidates.ids_of(connection, by_key)
            known = evidence.find_reusable(connection, list(ids.values()), v.computation)
            paid = _costs(connection, [recorded.id for recorded in known.values()])
        for key, id_ in ids.items():
            if id_ in known:
                for entry in by_key.pop(key):
                    entry.answers.append(answer_of(rung, with_derived(rung, known[id_], entry.answers)))
                    entry.reused.append((rung, known[id_].id))
                    entry.charged += paid.get(known[id_].id, Cost())
        if not by_key:
            return
        batch = tuple(alike[0].candidate for alike in by_key.values() if alike[0].candidate)
        results = self._worker.run(Request(v.name, v.request_settings, batch, rung.limits))
        for alike, result in zip(by_key.values(), results, strict=True):
            alike[0].computed.append((rung, result))
            for entry in alike:  # siblings with one candidate: it is computed once, and each of them pays
                entry.answers.append(answer_of(rung, with_derived(rung, result.finding, entry.answers)))
                entry.charged += result.actual


def _costs(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, Cost]:
    """Returns by id what the evidence cost when it was computed: its share of the attempt."""
    return {id_: Cost(cost) for id_, cost in evidence_costs.shares(connection, evidence_ids).items()}
