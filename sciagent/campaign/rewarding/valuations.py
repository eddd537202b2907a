"""The worth of candidates at a watermark: a function of evidence, of a law and of a description of rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.rewards.estimators import Settlement, worth
from sciagent.rewards.expectations import RewardLaw, expectations
from sciagent.rewards.process import price_of
from sciagent.rewards.spec import RewardSpec
from sciagent.rewards.states import CHUNK, states
from sciagent.store.results import candidates


class CandidateWorth(NamedTuple):
    """The worth of a candidate."""

    value: float | None
    """In hits or utility; None if undecided."""
    settled: bool
    """Whether the ladder has decided about the candidate."""
    screened: bool
    """Whether a fast rung has thrown the candidate out."""


def valuations(
    built: Built,
    connection: Connection,
    candidate_ids: Sequence[int],
    as_of: int,
    law: RewardLaw | None,
    spec: RewardSpec,
    record: float | None = None,
) -> dict[int, CandidateWorth]:
    """Returns the worth of candidates at a watermark, by candidate id.

    law: values candidates that the terminal rung has not answered; None leaves them undecided. record: utility above
    which a candidate is worth something; None: all of its payoff counts.
    """
    known = states(built, connection, candidate_ids, as_of)
    if record is not None:
        known = {
            id_: state if state.payoff is None else state._replace(payoff=max(0.0, state.payoff - record))
            for id_, state in known.items()
        }
    if law is not None and spec.unsettled != "settled":
        asked = [
            id_
            for id_, state in known.items()
            if state.settlement is Settlement.OPEN or (spec.unsettled == "robust" and state.chance)
        ]
        expected = expectations(built, connection, law, asked, as_of, record or 0.0) if asked else {}
        if spec.unsettled == "posterior":
            expected = _less_settling(built, connection, expected, spec)
        known |= {id_: known[id_]._replace(expected=value) for id_, value in expected.items()}
    return {
        id_: CandidateWorth(
            worth(state, spec.unsettled), state.settlement in (Settlement.ANSWERED, Settlement.REFUSED), state.screened
        )
        for id_, state in known.items()
    }


def _less_settling(
    built: Built, connection: Connection, expected: Mapping[int, float], spec: RewardSpec
) -> dict[int, float]:
    """Returns expected payoffs less the price of the terminal rung, which would still have to run, but at least 0.

    Otherwise a candidate would earn more by never being verified than by being verified with the expected result.
    """
    terminal, ids = built.rungs[built.terminal], list(expected)
    left: dict[int, float] = {}
    for start in range(0, len(ids), CHUNK):
        for id_, candidate in candidates.load(connection, ids[start : start + CHUNK]).items():
            left[id_] = max(0.0, expected[id_] - price_of(terminal.declared(candidate) or {}, spec.prices))
    return left
