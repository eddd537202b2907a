"""Named terms of turns beside the evidence: how many proposals were wasted, and how new and how varied the others are.

`novelty` compares with the snapshot that the episode's group began with, and `diversity` with what the episode itself
proposed before. So neither depends on siblings, nor on what the campaign has learnt since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.chemistry.fingerprint import Features
from sciagent.chemistry.subjects.base import Subject
from sciagent.rewards.spec import RewardSpec, Term
from sciagent.store.database import tables as t
from sciagent.store.database.parts import CandidatePart
from sciagent.store.learning import groups
from sciagent.store.learning.episodes import EpisodeTurn
from sciagent.store.results import candidates

OF_STRUCTURES: tuple[Term, ...] = ("novelty", "diversity")


class Snapshots:
    """The candidates that a campaign had when each of its groups of rollouts began."""

    def __init__(self, built: Built, connection: Connection, spec: RewardSpec, group_ids: Sequence[int]) -> None:
        wanted = [name for name in OF_STRUCTURES if spec.terms.get(name)]
        self._parts = (
            {row.id: row.part for row in groups.of_ids(connection, group_ids).values()} if "novelty" in wanted else {}
        )
        end = max((part.end or 0 for part in self._parts.values()), default=0)
        members = _members(connection, built.row.id, CandidatePart(end))
        notations = candidates.notations(connection, built.subject, {id_: text for id_, _, text in members})
        self._known = [(seq, built.subject.features(notations[id_])) for id_, seq, _ in members]

    def of(self, group_id: int | None) -> Sequence[Features] | None:
        """Returns the candidates of a group's snapshot; None for an episode without a group."""
        if group_id is None or group_id not in self._parts:
            return None
        return [known for seq, known in self._known if self._parts[group_id].holds(seq)]


def _members(connection: Connection, campaign_id: int, part: CandidatePart) -> Sequence[Any]:
    """Returns (id, seq, text) of the candidates in a part of the campaign, in order."""
    cc, c = t.campaign_candidate.c, t.candidate.c
    query = sa.select(c.id, cc.seq, c.text).join(t.candidate, c.id == cc.candidate_id)
    return connection.execute(query.where(cc.campaign_id == campaign_id, part.condition).order_by(cc.seq)).all()


def terms_of(
    turns: Sequence[EpisodeTurn],
    notations: Mapping[int, str],
    snapshot: Sequence[Features] | None,
    spec: RewardSpec,
    subject: Subject,
) -> list[dict[Term, float]]:
    """Returns the terms of an episode's turns before their weights, each from 0 to 1: (turns,).

    Each is a mean over the proposals of a turn, in which one that is not new counts 1 for `refused` and 0 for the
    others. The novelty of a candidate is 1 less its similarity (of molecules Tanimoto, ECFP4) to the nearest of the
    snapshot, its diversity the same to the nearest of those that the episode proposed before it; 1 if there are none.
    notations: by candidate id. snapshot: None for an episode without a group, whose candidates have novelty 0.
    """
    compared: dict[Term, Sequence[Features] | None] = {}
    own: list[Features] = []
    for name, others in zip(OF_STRUCTURES, (snapshot, own), strict=True):
        if spec.terms.get(name):
            compared[name] = others
    seen: set[int] = set()
    found = []
    for turn in turns:
        sums: dict[Term, float] = dict.fromkeys(("refused", *compared), 0.0)
        for proposal in turn.proposals:
            id_ = proposal.candidate_id
            if proposal.status != "new" or id_ is None:
                sums["refused"] += proposal.status != "new"
            elif compared and id_ not in seen:
                seen.add(id_)
                found_features = subject.features(notations[id_])
                for name, others in compared.items():
                    sums[name] += _unlikeness(subject, found_features, others)
                own.append(found_features)
        found.append({name: total / max(len(turn.proposals), 1) for name, total in sums.items()})
    return found


def _unlikeness(subject: Subject, candidate: Features, others: Sequence[Features] | None) -> float:
    """Returns 1 less the similarity to the nearest of others: 1 if there are none. others: None leaves it 0."""
    return 0.0 if others is None else 1.0 - (subject.nearest(candidate, others) or 0.0)
