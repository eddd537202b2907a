"""Sessions, tokens and links: each opens one kind of access, until it ends."""

from __future__ import annotations

from datetime import timedelta

from sciagent.store.database.ledger import Ledger
from sciagent.store.people import accesses, persons
from sciagent.store.people.accesses import AccessKind


def test_a_secret_opens_one_kind_of_access_until_it_ends(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        anna = persons.add(connection, "root", "anna", "Anna Berg")
        session, _ = accesses.create(connection, "anna", anna.id, AccessKind.SESSION)
        old, _ = accesses.create(connection, "root", anna.id, AccessKind.INVITE)
        new, _ = accesses.create(connection, "root", anna.id, AccessKind.RESET)
        late, _ = accesses.create(connection, "root", anna.id, AccessKind.TOKEN, lifetime=timedelta(seconds=-1))

        def opens(secret: str, *kinds: AccessKind) -> bool:
            return accesses.find(connection, secret, kinds or tuple(AccessKind)) is not None

        assert opens(session, AccessKind.SESSION) and not opens(session, AccessKind.TOKEN)
        assert opens(new) and not opens(old), "a new link ends the earlier one"
        assert not opens(late) and not opens("") and not opens(session.lower())
        found = accesses.find(connection, session, (AccessKind.SESSION,))
        assert found is not None and found.csrf and accesses.wants_touch(connection, found)
        accesses.touch(connection, found.id)
        accesses.revoke(connection, "anna", found)
        assert not opens(session)
        accesses.revoke_all(connection, anna.id)
        assert not opens(new)
