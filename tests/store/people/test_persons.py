"""Accounts and roles."""

from __future__ import annotations

import pytest

from sciagent.domain.people import Role
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import audit, persons


def test_a_role_is_given_replaced_and_taken(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        anna = persons.add(connection, "root", "anna", "Anna Berg")
        for role in (Role.VIEWER, Role.CHEMIST):
            persons.set_role(connection, "root", anna.id, role, None)
        assert persons.roles(connection, [anna.id]) == {anna.id: {None: Role.CHEMIST}}
        persons.set_role(connection, "root", anna.id, None, None)
        assert persons.roles(connection, [anna.id]) == {anna.id: {}}
        persons.set_role(connection, "root", anna.id, Role.LAB, None)
        persons.set_disabled(connection, "root", anna.id, True)
        assert persons.by_id(connection, anna.id).disabled_at is not None
        whats = [entry.what for entry in audit.entries(connection)]
    assert whats == ["added", "gave a role", "gave a role", "gave a role", "gave a role", "disabled"]


@pytest.mark.parametrize("login", ["Anna", "", "4anna", "a" * 65, "anna berg", "anna\n", "../anna", "änna"])
def test_a_text_that_is_no_login_is_refused(ledger: Ledger, login: str) -> None:
    with pytest.raises(UsageError, match="is no login"), ledger.begin() as connection:
        persons.add(connection, "root", login, "Anna")


def test_a_second_account_with_a_login_is_refused(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        persons.add(connection, "root", "anna", "Anna Berg")
        with pytest.raises(UsageError, match="sciagent person change anna --reset"):
            persons.add(connection, "root", "anna", "Anna Bell")
