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
from sciagent.chemistry.fingerprint import Features, features, nearest
from sciagent.errors import UsageError
from sciagent.rewards.spec import RewardSpec, Term
from sciagent.store.database import tables as t
from sciagent.store.database.parts import CandidatePart
from sciagent.store.learning import groups
from sciagent.store.learning.episodes import EpisodeTurn

OF_STRUCTURES: tuple[Term, ...] = ("novelty", "diversity")


class Snapshots:
    """The molecules that a campaign had when each of its groups of rollouts began."""

    def __init__(self, built: Built, connection: Connection, spec: RewardSpec, group_ids: Sequence[int]) -> None:
        """Raises UsageError if `spec` weighs structures in a campaign without molecules."""
        wanted = [name for name in OF_STRUCTURES if spec.terms.get(name)]
        if wanted and built.spec.subject != "molecule":
            raise UsageError(f"terms: {wanted[0]} compares molecules, and {built.row.name} has none; leave it out")
        self._parts = (
            {row.id: row.part for row in groups.of_ids(connection, group_ids).values()} if "novelty" in wanted else {}
        )
        end = max((part.end or 0 for part in self._parts.values()), default=0)
        self._molecules = [
            (seq, features(text)) for seq, text in _members(connection, built.row.id, CandidatePart(end))
        ]

    def of(self, group_id: int | None) -> Sequence[Features] | None:
        """Returns the molecules of a group's snapshot; None for an episode without a group."""
        if group_id is None or group_id not in self._parts:
            return None
        return [molecule for seq, molecule in self._molecules if self._parts[group_id].holds(seq)]


def _members(connection: Connection, campaign_id: int, part: CandidatePart) -> Sequence[Any]:
    """Returns (seq, SMILES) of the candidates in a part of the campaign, in order."""
    cc, c = t.campaign_candidate.c, t.candidate.c
    query = sa.select(cc.seq, c.text).join(t.candidate, c.id == cc.candidate_id)
    return connection.execute(query.where(cc.campaign_id == campaign_id, part.condition).order_by(cc.seq)).all()


def terms_of(
    turns: Sequence[EpisodeTurn], texts: Mapping[int, str], snapshot: Sequence[Features] | None, spec: RewardSpec
) -> list[dict[Term, float]]:
    """Returns the terms of an episode's turns before their weights, each from 0 to 1: (turns,).

    Each is a mean over the proposals of a turn, in which one that is not new counts 1 for `refused` and 0 for the
    others. The novelty of a molecule is 1 less its Tanimoto similarity (ECFP4) to the nearest of the snapshot, its
    diversity the same to the nearest of the molecules that the episode proposed before it; 1 if there are none.
    texts: SMILES by candidate id. snapshot: None for an episode without a group, whose molecules have novelty 0.
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
                molecule = features(texts[id_])
                for name, others in compared.items():
                    sums[name] += _unlikeness(molecule, others)
                own.append(molecule)
        found.append({name: total / max(len(turn.proposals), 1) for name, total in sums.items()})
    return found


def _unlikeness(molecule: Features, others: Sequence[Features] | None) -> float:
    """Returns 1 less the similarity to the nearest of others: 1 if there are none. others: None leaves it 0."""
    return 0.0 if others is None else 1.0 - (nearest(molecule, others) or 0.0)
