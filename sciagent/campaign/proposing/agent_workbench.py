"""The workbench for a model's tools, with results, remaining budget and earlier proposals."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.agent.tools.registry import Past
from sciagent.campaign.core.build import Built
from sciagent.campaign.proposing import briefing
from sciagent.campaign.proposing.workbench import CampaignWorkbench
from sciagent.domain.campaigns.ports import ProposalIn, ProposalOut
from sciagent.store.campaign_state import campaigns, standings
from sciagent.store.database import tables as t
from sciagent.store.results import candidates
from sciagent.verification.sandbox.host import Worker


class AgentWorkbench(CampaignWorkbench):
    """The workbench for one turn of a model. room: number of proposals that it accepts; more are refused."""

    def __init__(self, built: Built, worker: Worker, owner: str, *, room: int, trajectory: int) -> None:
        super().__init__(built, worker, owner)
        self._room, self._trajectory = room, trajectory
        self._notes: list[str] = []

    def propose(self, proposals: Sequence[ProposalIn]) -> list[ProposalOut]:
        fitting = list(proposals[: max(self._room, 0)])
        self._room -= len(fitting)
        late = [
            ProposalOut(proposal.text[:200], "refused", reason="too_many", detail="no more proposals in this turn")
            for proposal in proposals[len(fitting) :]
        ]
        return [*(super().propose(fitting) if fitting else []), *late]

    def results_of(self, key: str) -> list[str]:
        """Returns one line per paid rung with evidence on the candidate."""
        with self._built.ledger.read() as connection:
            ids = list(candidates.ids_of(connection, [key]).values())
            members = standings.members(connection, self._built.row.id, ids)
            lines = briefing.measured_lines(connection, self._built, list(members))
        return [line for of_candidate in lines.values() for line in of_candidate]

    def recent(self, n: int) -> list[Past]:
        """Returns the latest n proposals of the campaign with their outcome, newest first."""
        p, c, cc = t.proposal.c, t.candidate.c, t.campaign_candidate.c
        reason = sa.func.coalesce(p.reason, cc.reason, "")
        query = (
            sa.select(p.text, c.key, p.status, cc.standing, reason.label("reason"), p.operation, cc.score)
            .select_from(
                t.proposal.outerjoin(t.candidate, c.id == p.candidate_id).outerjoin(
                    t.campaign_candidate, sa.and_(cc.campaign_id == p.campaign_id, cc.candidate_id == p.candidate_id)
                )
            )
            .where(p.campaign_id == self._built.row.id)
            .order_by(p.id.desc())
            .limit(n)
        )
        with self._built.ledger.read() as connection:
            return [Past(**row) for row in connection.execute(query).mappings()]  # type: ignore[typeddict-item]

    def left(self) -> dict[str, float]:
        with self._built.ledger.read() as connection:
            return briefing.left(connection, self._built)

    def goal(self) -> str:
        return briefing.goal(self._built)

    def note(self, text: str) -> None:
        self._notes.append(text)

    def commit(self, connection: Connection, turn_id: int | None) -> None:
        super().commit(connection, turn_id)
        for text in self._notes:
            note = {"text": text[:500], "trajectory": self._trajectory}
            campaigns.log_event(connection, self._built.row.id, "note", note)
