"""Guards from numbers: which comparisons are made, and when they raise an alarm."""

from __future__ import annotations

from sciagent.rewards.candidate_states_lots_and_episode_starts import Lot
from sciagent.rewards.guard_report import PolicyTally, guards_of_tallies
from sciagent.rewards.reward_term_contract import CandidateState, Settlement
from sciagent.store.learning.policies_and_roles import NamedPolicy


def tally(name: str, confirmed: int, of: int = 20) -> PolicyTally:
    """A policy with `of` hits, each in an episode of its own, of which the control confirms some."""
    made = PolicyTally(NamedPolicy(name, None), 0)
    for number in range(of):
        made.add_control(number, 1.0, float(number < confirmed))
    return made


def test_only_the_policy_whose_gap_has_grown_raises_an_alarm() -> None:
    found = guards_of_tallies([tally("first", 16), tally("honest", 15), tally("gaming", 2)], "pbe0", 100)
    first, honest, gaming = (policy.control for policy in found.policies)
    assert first is not None and honest is not None and gaming is not None
    assert (first.growth, first.p) == (None, None), "there is nothing to compare the first policy with"
    assert gaming.growth is not None and abs(gaming.growth.value - 0.7) < 1e-9
    assert [len(policy.alarms) for policy in found.policies] == [0, 0, 1]
    assert "beyond the control since first (p < 0.001)" in found.policies[2].alarms[0]


def test_a_policy_without_controlled_candidates_is_no_reference() -> None:
    found = guards_of_tallies(
        [PolicyTally(NamedPolicy("old", None), 0), tally("first", 16), tally("gaming", 2)], "pbe0", 100
    )
    assert found.policies[0].control is None
    assert found.policies[1].control is not None and found.policies[1].control.growth is None
    assert found.policies[2].alarms


def test_what_a_lot_has_not_decided_is_in_neither_mean() -> None:
    made = PolicyTally(NamedPolicy("tiny", None), 0)
    drawn, passed, shown = Lot(0.5, True), Lot(0.5, False), 0.4
    for number in range(4):
        made.add_lot(number, drawn, CandidateState(Settlement.ANSWERED, payoff=1.0), shown)
        made.add_lot(number, drawn, CandidateState(Settlement.REFUSED), shown)
        made.add_lot(number, drawn, CandidateState(Settlement.UNDECIDED), shown)
        made.add_lot(number, passed, CandidateState(Settlement.OPEN), shown)
        made.add_lot(number, passed, CandidateState(Settlement.OPEN), None)
        made.add_lot(number, passed, CandidateState(Settlement.ANSWERED, payoff=1.0), shown)  # chosen later
    promise = guards_of_tallies([made], None, 100).policies[0].promise
    assert promise is not None
    assert (promise.verified.value, promise.verified.n) == (0.5, 8)
    assert (promise.expected.value, promise.expected.n) == (0.4, 4)
