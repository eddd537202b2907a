"""Writes the turns of a step, of all episodes, in one transaction: after a kill the ledger has all of them or none."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.proposing.at_once import Runs
from sciagent.campaign.proposing.workbench import BenchEntry, CampaignWorkbench, FreshCandidate
from sciagent.store.campaign_state import standings
from sciagent.store.results import candidates, scaffolds


class StepWriter(CampaignWorkbench):
    """The proposals of all turns of a step, whose turns are in the ledger already.

    Siblings may propose the same candidate: both proposals are `new`, since each is the first of its episode. The
    candidate enters the campaign once, as the proposal of the first of them. The novelty in the ledger is not noted,
    since it would depend on the siblings.
    """

    def __init__(self, built: Built, worker: Runs, owner: str, entries: Sequence[BenchEntry]) -> None:
        super().__init__(built, worker, owner)
        self._entries = list(entries)

    def write(self, connection: Connection) -> None:
        """Writes candidates, proposals, evidence of fast rungs, standings and spend. The caller drives the campaign."""
        parsed = [(entry, entry.candidate) for entry in self._entries if entry.candidate]
        by_key = {candidate.key: candidate for _, candidate in parsed}
        old = candidates.ids_of(connection, by_key)
        ids = candidates.enter(connection, by_key.values())
        described = dict(self._described([entry for entry, _ in parsed]))
        scaffolds.write(connection, {ids[key]: f.family_hash for key, f in described.items() if key not in old})
        candidates.enter_aliases(connection, [(ids[c.key], e.given.text) for e, c in parsed if e.given.text])
        present = standings.members(connection, self._built.row.id, list(ids.values()))
        proposed = self._write_proposals(connection, ids)
        self._write_parents(connection, proposed)
        self._write_results(connection, _first_of_each(proposed, present), ids)


def _first_of_each(proposed: Sequence[FreshCandidate], present: set[int]) -> list[FreshCandidate]:
    """Returns the first proposal of each candidate that is new to the campaign. present: ids of those it has."""
    first: dict[int, FreshCandidate] = {}
    for new in proposed:
        if new.id not in present:
            first.setdefault(new.id, new)
    return list(first.values())
