"""Rights that follow from roles."""

from __future__ import annotations

import pytest

from sciagent.domain.people import Right, Rights, Role

ANNA = Rights(roles={1: Role.LAB, 2: Role.VIEWER})


@pytest.mark.parametrize(
    ("rights", "right", "campaign", "may"),
    [
        (ANNA, Right.READ, 1, True),
        (ANNA, Right.WORK, 1, True),
        (ANNA, Right.WORK, 2, False),
        (ANNA, Right.WORK, None, True),
        (ANNA, Right.READ, 3, False),
        (ANNA, Right.DECIDE, 1, False),
        (ANNA, Right.ADMINISTER, None, False),
        (Rights(roles={None: Role.CHEMIST}), Right.DECIDE, 7, True),
        (Rights(is_admin=True), Right.ADMINISTER, None, True),
        (Rights(is_admin=True), Right.READ, 7, True),
        (Rights(is_admin=True), Right.WORK, 7, False),
        (Rights(), Right.READ, None, False),
        (Rights(roles={None: Role.CHEMIST}, scopes=frozenset({Right.READ})), Right.WORK, 7, False),
        (Rights(is_admin=True, scopes=frozenset({Right.READ})), Right.ADMINISTER, None, False),
        (Rights(roles={None: Role.LAB}, only_campaign=7), Right.WORK, 7, True),
        (Rights(roles={None: Role.LAB}, only_campaign=7), Right.WORK, 8, False),
        (Rights(roles={None: Role.LAB}, only_campaign=7), Right.WORK, None, True),
        (Rights(roles={8: Role.LAB}, only_campaign=7), Right.WORK, None, False),
        (Rights(is_admin=True, only_campaign=7), Right.READ, 8, False),
        (Rights(is_admin=True, only_campaign=7), Right.ADMINISTER, None, False),
    ],
)
def test_a_role_has_its_rights_in_its_campaigns(rights: Rights, right: Right, campaign: int | None, may: bool) -> None:
    assert rights.may(right, campaign) is may


def test_lists_are_limited_to_the_campaigns_of_a_person() -> None:
    assert ANNA.campaigns(Right.WORK) == [1] and ANNA.campaigns(Right.READ) == [1, 2]
    assert Rights(is_admin=True).campaigns(Right.READ) is None and Rights(is_admin=True).campaigns(Right.WORK) == []
    assert Rights(roles={None: Role.LAB, 2: Role.CHEMIST}).campaigns(Right.DECIDE) == [2]
    assert Rights(roles={None: Role.LAB}, only_campaign=7).campaigns(Right.WORK) == [7]
    assert Rights(roles={8: Role.LAB}, only_campaign=7).campaigns(Right.WORK) == []
