"""Sessions, tokens and links: each opens one kind of access, until it ends."""

from __future__ import annotations

from datetime import timedelta

from sciagent.domain.people import Role
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import persons, sessions_and_tokens
from sciagent.store.people.sessions_and_tokens import AccessKind


def test_a_secret_opens_one_kind_of_access_until_it_ends(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        anna = persons.add(connection, "root", "anna", "Anna Berg")
        session, _ = sessions_and_tokens.create(connection, "anna", anna.id, AccessKind.SESSION)
        old, _ = sessions_and_tokens.create(connection, "root", anna.id, AccessKind.INVITE)
        new, _ = sessions_and_tokens.create(connection, "root", anna.id, AccessKind.RESET)
        late, _ = sessions_and_tokens.create(
            connection, "root", anna.id, AccessKind.TOKEN, lifetime=timedelta(seconds=-1)
        )

        def opens(secret: str, *kinds: AccessKind) -> bool:
            return sessions_and_tokens.find(connection, secret, kinds or tuple(AccessKind)) is not None

        assert opens(session, AccessKind.SESSION) and not opens(session, AccessKind.TOKEN)
        assert opens(new) and not opens(old), "a new link ends the earlier one"
        assert not opens(late) and not opens("") and not opens(session.lower())
        found = sessions_and_tokens.find(connection, session, (AccessKind.SESSION,))
        assert found is not None and found.csrf
        persons.set_role(connection, "root", anna.id, Role.LAB, None)
        used = sessions_and_tokens.opened(connection, session, AccessKind.SESSION)
        assert used is not None and (used.access, used.person) == (found, anna) and used.roles == {None: Role.LAB}
        assert used.should_note_use and timedelta(0) <= used.idle < timedelta(minutes=1)
        sessions_and_tokens.note_use(connection, found.id)
        again = sessions_and_tokens.opened(connection, session, AccessKind.SESSION)
        assert again is not None and not again.should_note_use
        assert sessions_and_tokens.opened(connection, session, AccessKind.TOKEN) is None
        sessions_and_tokens.revoke(connection, "anna", found)
        assert not opens(session)
        sessions_and_tokens.revoke_all(connection, anna.id)
        assert not opens(new)
