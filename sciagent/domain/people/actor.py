"""The person behind an act."""

from __future__ import annotations


class Actor(str):
    """A name under which an act is kept, with the account behind it.

    It is a text, so that everything that keeps a name takes it. A plain text stands for a user of the machine, who has
    no account: the command line checks no password.
    """

    person_id: int
    access_id: int | None

    def __new__(cls, login: str, person_id: int, access_id: int | None = None) -> Actor:
        """access_id: the session or the token through which the person acts."""
        actor = super().__new__(cls, login)
        actor.person_id, actor.access_id = person_id, access_id
        return actor


def account(who: str) -> tuple[int | None, int | None]:
    """Returns (person id, access id) of an actor; (None, None) for a user of the machine."""
    return (who.person_id, who.access_id) if isinstance(who, Actor) else (None, None)
