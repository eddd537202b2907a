"""The tables of people: accounts, roles, sessions and tokens, and the chain of what people did."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Index, Integer, UniqueConstraint

from sciagent.store.database.column_types import Id, Json, Key, String, Text, UtcDateTime
from sciagent.store.database.table_parts import needed, optional, references, table

APPEND_ONLY = ("audit_entry",)

# an account; it is disabled, never deleted, since what the person wrote names it
person = table(
    "person",
    needed(String(64), "login", unique=True),
    needed(String(200), "name"),
    optional(String(320), "email"),
    optional(Text, "password_hash"),  # None: invited, and no password was chosen yet
    needed(sa.Boolean, "is_admin", default=False),
    optional(UtcDateTime, "disabled_at"),
    needed(Integer, "failures", default=0),  # wrong passwords since the last right one
    optional(UtcDateTime, "locked_until"),
    needed(UtcDateTime, "created_at"),
)

# a person's role in a campaign; without a campaign: in all of them
membership = table(
    "membership",
    references("person"),
    references("campaign", nullable=True),
    needed(String(20), "role"),  # viewer, lab or chemist
    UniqueConstraint("person_id", "campaign_id"),
)
_everywhere = membership.c.campaign_id.is_(None)
Index(
    "ix_membership_everywhere",
    membership.c.person_id,
    unique=True,
    sqlite_where=_everywhere,
    postgresql_where=_everywhere,
)

# a session of a browser, a token of an instrument, or a link to choose a password; only the hash of its secret is kept
access = table(
    "access",
    references("person", index=True),
    needed(String(20), "kind"),  # session, token, invite or reset
    needed(Key, "secret_hash", unique=True),
    optional(Key, "csrf"),
    needed(String(200), "label"),
    needed(Json, "scopes"),
    optional(String(64), "address"),
    needed(UtcDateTime, "created_at", "expires_at"),
    optional(UtcDateTime, "seen_at", "revoked_at"),
    Index("ix_access_expires", "expires_at"),
)

# an act of a person; each entry has the hash of the one before it, so that a changed entry is found
audit_entry = table(
    "audit_entry",
    needed(UtcDateTime, "at"),
    references("person", "access", nullable=True),
    needed(String(200), "who"),
    needed(String(40), "what", "object"),
    optional(Id, "object_id"),
    references("campaign", nullable=True),
    needed(Json, "payload"),
    needed(Key, "previous_hash"),
    needed(Key, "hash", unique=True),
    Index("ix_audit_entry_campaign", "campaign_id", "id"),
    Index("ix_audit_entry_object", "object", "object_id", "id"),
)
