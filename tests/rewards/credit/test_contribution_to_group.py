"""The credit for what a group would lose without an episode is compared with values computed by hand."""

from __future__ import annotations

import pytest

from sciagent.rewards.credit import contribution_to_group
from sciagent.rewards.credit.contribution_to_group import Find


def test_a_candidate_of_a_sibling_earns_nothing_and_an_undecided_scaffold_leaves_others_decided() -> None:
    shared, other = Find("a", ("ring",), 1.0), Find("x", ("cage",), None)
    assert contribution_to_group.advantages([[[shared]], [[shared]]], [[0.25], [0.0]]) == [[-0.25], [0.0]]
    assert contribution_to_group.advantages([[[shared]], [[other]]], [[0.0], [0.0]]) == [[1.0], [None]]


def test_families_that_a_candidate_joins_are_compared_together() -> None:
    ring, cage, both = Find("a", ("ring",), 1.0), Find("b", ("cage",), 0.8), Find("c", ("ring", "cage"), 0.5)
    assert contribution_to_group.worth([ring, cage, both]) == pytest.approx(1.0 + 0.8 + 0.25)
    [_, [own]] = contribution_to_group.advantages([[[ring]], [[both, cage]]], [[0.0], [0.0]])
    assert own == pytest.approx(0.8 + 0.25)
    undecided = Find("d", ("cage",), None)
    assert contribution_to_group.advantages([[[ring]], [[both]], [[undecided]]], [[0.0]] * 3)[0] == [None]
