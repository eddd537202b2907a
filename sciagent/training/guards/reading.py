"""Reads the facts of episodes from the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.file.schedulers import LotterySpec, PricedSpec
from sciagent.campaign.rewarding.checked_episodes import CheckedCandidate, CheckedEpisode, EpisodeReader
from sciagent.rewards.estimators import Settlement
from sciagent.rewards.policy_guards import payoff_of
from sciagent.rewards.spec import RewardSpec
from sciagent.store.learning.rewards import RewardRow
from sciagent.training.guards.facts import EpisodeFacts


def episode_facts(
    built: Built,
    connection: Connection,
    rows: Sequence[RewardRow],
    spec: RewardSpec,
    as_of: int,
    policies: Mapping[int, int],
) -> tuple[EpisodeFacts, ...]:
    """Returns the facts of episodes of a campaign, in their order.

    rows: the rewards of these episodes, of one version. spec, as_of: its description and watermark. policies: by id of
    the episode, the number of steps after which its policy stood.
    """
    reader = EpisodeReader(built, connection, rows, spec, as_of)
    ids = sorted(reader.rewards)
    checked = reader.read(ids)
    return tuple(_facts(checked[id_], policies[id_], spec) for id_ in ids)


def has_promises(built: Built, spec: RewardSpec) -> bool:
    """Returns whether a law promises rewards that a lot can check."""
    return spec.unsettled == "posterior" and isinstance(built.spec.scheduler, LotterySpec | PricedSpec)


def _facts(episode: CheckedEpisode, policy: int, spec: RewardSpec) -> EpisodeFacts:
    promise, least = _promise(episode.candidates) if spec.unsettled == "posterior" else (None, -1.0)
    worths = [(max(each.worth or 0.0, 0.0), each.settled) for each in episode.candidates]
    return EpisodeFacts(
        episode=episode.id,
        policy=policy,
        gap=_gap(episode.candidates),
        promise=promise,
        least_promise=least,
        earned=sum(worth for worth, _ in worths),
        unsettled=sum(worth for worth, settled in worths if not settled),
    )


def _gap(found: Sequence[CheckedCandidate]) -> float | None:
    """Returns the mean of payoff less control score; None if the control has answered for none."""
    gaps = []
    for each in found:
        payoff = None if each.state is None else payoff_of(each.state)
        if payoff is not None and each.score is not None:
            gaps.append(payoff - each.score)
    return float(np.mean(gaps)) if gaps else None


def _promise(found: Sequence[CheckedCandidate]) -> tuple[float | None, float]:
    """Returns the mean of what a law promises less what a lot finds, and the smallest value that it can have.

    A candidate with the chance π of being drawn counts its expected payoff / (1 - π) if it was not, and less its
    payoff / π if it was, so that both stand for all (Horvitz and Thompson 1952). None while one of them waits.
    """
    values, chances = list[float](), list[float]()
    for each in found:
        if each.lot is None or each.state is None:
            continue
        payoff = payoff_of(each.state)
        if each.lot.is_drawn:
            value = None if payoff is None else -payoff / each.lot.chance
        else:
            open_ = each.state.settlement is Settlement.OPEN and each.expected is not None
            value = (each.expected or 0.0) / (1 - each.lot.chance) if open_ else None
        if value is None:
            return None, -1.0
        values.append(value)
        chances.append(each.lot.chance)
    return (float(np.mean(values)), -1 / min(chances)) if values else (None, -1.0)
