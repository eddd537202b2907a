"""Roles point to the policy of their last row."""

from __future__ import annotations

import pytest

from sciagent.domain.policy_identity import IN_PROCESS, PolicyIdentity
from sciagent.errors import UnknownNameError
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles


def test_a_role_comes_before_a_policy_of_that_name(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        a = policies_and_roles.enter(connection, PolicyIdentity("a@1", IN_PROCESS, "1" * 64))
        b = policies_and_roles.enter(connection, PolicyIdentity("b@2", IN_PROCESS, "2" * 64))
        policies_and_roles.promote(connection, "best", a, evaluation_id=None, who="me", why="")
        assert (
            policies_and_roles.resolved(connection, "best").id == a
            and policies_and_roles.resolved(connection, "b").id == b
        )
        policies_and_roles.promote(connection, "best", b, evaluation_id=None, who="me", why="")
        assert policies_and_roles.resolved(connection, "best").id == b
        undone = policies_and_roles.rollback(connection, "best", who="me", why="worse")
        assert (undone.policy_id, undone.why) == (a, "worse") and undone.undoes_id is not None
        with pytest.raises(UnknownNameError, match='unknown role or policy "bst"; did you mean "best"'):
            policies_and_roles.resolved(connection, "bst")
