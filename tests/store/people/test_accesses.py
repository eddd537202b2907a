"""Sessions, tokens and links: each opens one kind of access, until it ends."""

from __future__ import annotations

from datetime import timedelta

from sciagent.domain.people import Role
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
        assert found is not None and found.csrf
        persons.set_role(connection, "root", anna.id, Role.LAB, None)
        used = accesses.opened(connection, session, AccessKind.SESSION)
        assert used is not None and (used.access, used.person) == (found, anna) and used.roles == {None: Role.LAB}
        assert used.wants_touch and timedelta(0) <= used.idle < timedelta(minutes=1)
        accesses.touch(connection, found.id)
        again = accesses.opened(connection, session, AccessKind.SESSION)
        assert again is not None and not again.wants_touch
        assert accesses.opened(connection, session, AccessKind.TOKEN) is None
        accesses.revoke(connection, "anna", found)
        assert not opens(session)
        accesses.revoke_all(connection, anna.id)
        assert not opens(new)
