"""People: the person behind an act, the roles in campaigns, and the rights that each role has.

A role guards acts and decisions, not chemistry: evidence is shared by the campaigns of a ledger by design. Whoever must
not see a structure needs a ledger of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    """The role of a person in a campaign; each role has the rights of the roles above it in this list."""

    VIEWER = "viewer"
    LAB = "lab"
    CHEMIST = "chemist"


class Right(StrEnum):
    """What somebody may do."""

    READ = "read"
    """See campaigns, candidates and tasks."""
    WORK = "work"
    """Claim tasks, enter and correct results, review the results of others."""
    DECIDE = "decide"
    """Approve tasks, pause campaigns, hold and veto candidates."""
    ADMINISTER = "administer"
    """Make accounts and read the audit trail. It brings no right to write evidence."""


NEEDED = {Right.READ: Role.VIEWER, Right.WORK: Role.LAB, Right.DECIDE: Role.CHEMIST}
"""The lowest role with each right."""
_ORDER = list(Role)


@dataclass(frozen=True)
class Rights:
    """The rights of a person."""

    is_admin: bool = False
    roles: Mapping[int | None, Role] = field(default_factory=dict)
    """Role by id of the campaign; the role under None holds in all campaigns."""
    scopes: frozenset[Right] | None = None
    """Rights that a token is limited to; None for all rights of its person."""
    only_campaign: int | None = None
    """Id of the campaign that a token is limited to; None for all campaigns of its person."""

    def may(self, right: Right, campaign_id: int | None = None) -> bool:
        """Returns whether the person has the right in a campaign. None: in at least one."""
        if self.scopes is not None and right not in self.scopes:
            return False
        if right is Right.ADMINISTER:
            return self.is_admin and self.only_campaign is None
        if self.only_campaign is not None:
            if campaign_id not in (None, self.only_campaign):
                return False
            campaign_id = self.only_campaign
        if right is Right.READ and self.is_admin:
            return True
        held = self.roles.values() if campaign_id is None else self._held(campaign_id)
        return any(_ORDER.index(role) >= _ORDER.index(NEEDED[right]) for role in held)

    def campaigns(self, right: Right) -> list[int] | None:
        """Returns the ids of the campaigns in which the person has the right; None for all."""
        if self.only_campaign is not None:
            return [self.only_campaign] if self.may(right) else []
        if right is Right.READ and self.is_admin:
            return None
        if Rights(roles=self._everywhere()).may(right):
            return None
        return [id_ for id_ in self.roles if id_ is not None and self.may(right, id_)]

    def _held(self, campaign_id: int) -> list[Role]:
        """Returns the person's roles in a campaign."""
        return [role for id_, role in self.roles.items() if id_ in (None, campaign_id)]

    def _everywhere(self) -> dict[int | None, Role]:
        """Returns the roles that hold in all campaigns."""
        return {id_: role for id_, role in self.roles.items() if id_ is None}


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
        actor.person_id = person_id
        actor.access_id = access_id
        return actor


def person_and_access_ids(who: str) -> tuple[int | None, int | None]:
    """Returns (person id, access id) of an actor; (None, None) for a user of the machine."""
    if isinstance(who, Actor):
        return who.person_id, who.access_id
    return None, None
