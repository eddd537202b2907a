"""The roles of PostgreSQL for the processes of sciagent, with the least that each needs.

`web` serves the pages and records what people answer; `worker` runs jobs; `dispatcher` drives campaigns, and submits,
amends and imports. A role may add rows to the tables that it writes. It may change only columns that change in use, and
remove nothing but memberships and counts of wrong passwords (`web`). It can neither drop a trigger nor make a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Connection

from sciagent.errors import UsageError
from sciagent.store.database.tables import metadata

VIEW = "current_evidence"
VERSION = "alembic_version"
PRIVATE = ("person", "access", "membership", "wrong_password")
"""Tables with accounts, hashes of passwords and log-ins, which only the web server reads."""

_ANSWERS = ("evidence", "quantity", "property", "level", "decision", "spend", "reservation", "attempt", "event", "job")
_ADDS = {
    "web": (
        *_ANSWERS, "directive", "likeness", "audit_entry", "submission", "sample", "lab_task", "person", "membership",
        "access", "wrong_password",
    ),
    "worker": (
        "evidence", "quantity", "property", "level", "artifact", "spend", "attempt", "event", "cost_observation",
        "worker",
    ),
    "dispatcher": (
        *_ANSWERS, "artifact", "artifact_removal", "cost_observation", "worker", "directive", "likeness", "audit_entry",
        "lab_task", "law", "calibration", "candidate", "candidate_alias", "candidate_name", "candidate_parent",
        "campaign", "campaign_amendment", "campaign_candidate", "campaign_law", "campaign_policy", "rung",
        "trajectory", "turn", "proposal", "tool_set", "policy", "submission",
    ),
}  # fmt: skip
"""{kind: tables to which it adds rows}."""

_JOB = ("state", "outcome", "priority", "attempts", "kills", "fence", "losses", "lease_owner", "lease_until",
    "cancel_requested", "updated_at", "queue", "external", "seconds", "memory_mb", "needs")  # fmt: skip
_ATTEMPT = ("state", "outcome", "reason", "detail", "cost", "wall_seconds", "heartbeat_at", "ended_at", "holds",
    "watermark", "cost_at_loss", "late_watermark", "progress", "progress_at")  # fmt: skip
_PLACE = ("standing", "position", "depth", "verdict", "hit_tier", "reason", "detail", "utility", "p_hit",
    "expected_utility", "margin", "chance", "basis", "is_hit", "updated_at")  # fmt: skip
_WORKER = ("name", "host", "executor", "pid", "slots", "queues", "memory_mb", "cores", "resources", "started_at",
    "seen_at", "until", "stopped_at", "draining")  # fmt: skip
_TASK = ("version", "plate", "well", "due_at", "approved_at", "assigned_to", "approved_by", "sample_id",
    "in_review_id", "sent_back_id", "open_quantities", "note")  # fmt: skip
_SHARED: Mapping[str, tuple[str, ...]] = {
    "watermark": ("value",),
    "job": _JOB,
    "attempt": _ATTEMPT,
    "reservation": ("released_at",),
}
_CHANGES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "web": {
        **_SHARED,
        "campaign": ("state", "stop_reason", "wakes_at", "hosted", "updated_at"),
        "campaign_candidate": _PLACE,
        "lab_task": _TASK,
        "sample": ("state",),
        "person": ("password_hash", "pin_hash", "disabled_at"),
        "wrong_password": ("number", "last_at"),
        "access": ("seen_at", "revoked_at", "locked_at", "wrong_pins"),
    },
    "worker": {**_SHARED, "worker": _WORKER},
    "dispatcher": {
        **_SHARED,
        "worker": _WORKER,
        "campaign": (
            "spec", "spec_hash", "source", "base", "state", "stop_reason", "driver", "driver_fence", "driver_until",
            "wall_seconds", "driver_core_seconds", "updated_at", "hosted", "wakes_at",
        ),
        "rung": ("request",),
        "campaign_candidate": _PLACE,
        "candidate": ("scaffold_hash",),
        "trajectory": ("state", "ended_at", "ended_why"),
        "lab_task": _TASK,
    },
}  # fmt: skip
"""{kind: {table: columns that it changes}}."""
_REMOVES: Mapping[str, tuple[str, ...]] = {"web": ("membership", "wrong_password"), "worker": (), "dispatcher": ()}

_DANGEROUS = ("pg_write_all_data", "pg_execute_server_program", "pg_write_server_files", "pg_read_server_files")
"""Roles of PostgreSQL that reach past all grants."""


@dataclass(frozen=True)
class TableRights:
    """The rights that a role has, or that it should have."""

    tables: frozenset[tuple[str, str]]
    """(table, privilege) such as `("evidence", "INSERT")`."""
    columns: frozenset[tuple[str, str]]
    """(table, column) that may be changed."""

    def __or__(self, other: TableRights) -> TableRights:
        return TableRights(self.tables | other.tables, self.columns | other.columns)


NO_RIGHTS = TableRights(frozenset(), frozenset())


def rights_of(kind: str) -> TableRights:
    """The rights that a kind of process needs."""
    names = [*metadata.tables, VIEW, VERSION]
    tables = {(name, "SELECT") for name in names if kind == "web" or name not in PRIVATE}
    tables |= {(name, "INSERT") for name in _ADDS[kind]}
    tables |= {(name, "DELETE") for name in _REMOVES[kind]}
    columns = {(table, column) for table, changed in _CHANGES[kind].items() for column in changed}
    return TableRights(frozenset(tables), frozenset(columns))


def statements(names: Mapping[str, str], schema: str = "public") -> Iterator[str]:
    """Yields the SQL that makes the roles, or gives existing ones exactly these rights. Its reader runs it as the owner
    of the tables, who may make roles. names: {kind: name of the role}."""
    quoted = postgresql.dialect().identifier_preparer.quote  # type: ignore[no-untyped-call]
    yield f"REVOKE CREATE ON SCHEMA {quoted(schema)} FROM PUBLIC;"
    for kind, name in names.items():
        role = quoted(name)
        text = name.replace("'", "''")
        yield ""
        yield f"-- {kind}: make a login of your own a member, for example: CREATE ROLE {kind}_1 LOGIN IN ROLE {role};"
        yield f"DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{text}') THEN"
        yield f"  CREATE ROLE {role} NOLOGIN; END IF; END $$;"
        yield f"REVOKE ALL ON ALL TABLES IN SCHEMA {quoted(schema)} FROM {role};"
        yield f"REVOKE ALL ON ALL SEQUENCES IN SCHEMA {quoted(schema)} FROM {role};"
        yield f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {role};"
        rights = rights_of(kind)
        for privilege in ("SELECT", "INSERT", "DELETE"):
            tables = sorted(table for table, granted in rights.tables if granted == privilege)
            if tables:
                yield f"GRANT {privilege} ON {', '.join(map(quoted, tables))} TO {role};"
        for table, columns in _CHANGES[kind].items():
            yield f"GRANT UPDATE ({', '.join(map(quoted, columns))}) ON {quoted(table)} TO {role};"
        sequences = sorted(f"{table}_id_seq" for table in _ADDS[kind] if _has_sequence(table))
        yield f"GRANT USAGE ON SEQUENCE {', '.join(sequences)} TO {role};"


def _has_sequence(table: str) -> bool:
    """Whether the database numbers the rows of a table."""
    columns = metadata.tables[table].columns
    return "id" in columns and columns["id"].autoincrement is True


def _held(connection: Connection, role: str) -> TableRights:
    """The rights that a role has, also through roles whose member it is."""
    tables = sa.text(
        "SELECT c.relname, p FROM pg_class c CROSS JOIN unnest(CAST(:privileges AS text[])) p "
        "WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v') "
        "AND has_table_privilege(:role, c.oid, p)"
    )
    columns = sa.text(
        "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > 0 "
        "AND NOT a.attisdropped AND has_column_privilege(:role, c.oid, a.attnum, 'UPDATE')"
    )
    privileges = ["SELECT", "INSERT", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"]
    of_tables = connection.execute(tables, {"role": role, "privileges": privileges})
    table_rights = frozenset((str(table), str(privilege)) for table, privilege in of_tables)
    of_columns = connection.execute(columns, {"role": role})
    return TableRights(table_rights, frozenset((str(table), str(column)) for table, column in of_columns))


@dataclass(frozen=True)
class RoleCheck:
    """The differences between a role's rights and those that it needs."""

    role: str
    kind: str
    """`web`, `worker` or `dispatcher`, those of a login with `+` between them; empty for none."""
    too_wide: tuple[str, ...]
    """The rights beyond its need, in words."""
    missing: tuple[str, ...]
    """The rights that it needs and lacks, in words."""

    @property
    def lines(self) -> Iterator[str]:
        """The result in words."""
        what = f"{self.role} ({self.kind})" if self.kind else self.role
        if not self.too_wide and not self.missing:
            yield f"{what}: as it should be"
        for fault in self.too_wide:
            yield f"{what}: too wide: {fault}"
        for fault in self.missing:
            yield f"{what}: missing: {fault}"


def check(connection: Connection, names: Mapping[str, str]) -> list[RoleCheck]:
    """Checks the roles, and the login of the connection unless it owns the tables. names: {kind: name of the role}.

    Raises UsageError if the ledger is not in PostgreSQL.
    """
    if connection.dialect.name != "postgresql":
        raise UsageError("a SQLite ledger has no roles: whoever may write its file may change all of it")
    checks = []
    existing = set(connection.execute(sa.text("SELECT rolname FROM pg_roles")).scalars())
    for kind, name in names.items():
        if name in existing:
            checks.append(_check_role(connection, name, kind, rights_of(kind), missing_counts=True))
        else:
            checks.append(RoleCheck(name, kind, (), ("there is no such role; `sciagent db roles` prints the SQL",)))
    login = str(connection.execute(sa.text("SELECT current_user")).scalar_one())
    if login not in names.values() and not owns_tables(connection, login):
        is_member = sa.text("SELECT pg_has_role(current_user, CAST(:role AS name), 'USAGE')")
        kinds = []
        rights = NO_RIGHTS
        for kind, name in names.items():
            if name in existing and connection.execute(is_member, {"role": name}).scalar_one():
                kinds.append(kind)
                rights |= rights_of(kind)
        checks.append(_check_role(connection, login, "+".join(kinds), rights, missing_counts=False))
    return checks


def owns_tables(connection: Connection, role: str) -> bool:
    """Whether a role owns tables of the ledger, is a member of their owner, or is a superuser: it may do anything."""
    query = sa.text(
        "SELECT EXISTS (SELECT 1 FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace "
        "AND c.relkind IN ('r', 'v') AND pg_has_role(CAST(:role AS name), c.relowner, 'USAGE'))"
    )
    return bool(connection.execute(query, {"role": role}).scalar_one())


def _check_role(
    connection: Connection, role: str, kind: str, wanted: TableRights, *, missing_counts: bool
) -> RoleCheck:
    """Compares the rights of a role with those it should have. missing_counts: whether missing rights are faults."""
    too_wide = list(_attributes(connection, role))
    missing: list[str] = []
    if owns_tables(connection, role):
        too_wide.append("it owns the tables, or is a superuser, and may change everything")
        return RoleCheck(role, kind, tuple(too_wide), ())
    held = _held(connection, role)
    too_wide += [f"{privilege} on {table}" for table, privilege in sorted(held.tables - wanted.tables)]
    too_wide += _of_columns(held.columns - wanted.columns)
    if missing_counts:
        missing += [f"{privilege} on {table}" for table, privilege in sorted(wanted.tables - held.tables)]
        missing += _of_columns(wanted.columns - held.columns)
    return RoleCheck(role, kind, tuple(too_wide), tuple(missing))


def _of_columns(columns: frozenset[tuple[str, str]]) -> list[str]:
    """The right to change columns, in words, a text for each table."""
    by_table: dict[str, list[str]] = {}
    for table, column in sorted(columns):
        by_table.setdefault(table, []).append(column)
    return [f"UPDATE of {', '.join(names)} on {table}" for table, names in by_table.items()]


def _attributes(connection: Connection, role: str) -> Iterator[str]:
    """Yields what a role may do beyond tables."""
    query = sa.text(
        "SELECT rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication FROM pg_roles WHERE rolname = :role"
    )
    flags = connection.execute(query, {"role": role}).one()
    for name, is_set in zip(("SUPERUSER", "CREATEROLE", "CREATEDB", "BYPASSRLS", "REPLICATION"), flags, strict=True):
        if is_set:
            yield name
    may_create = sa.text("SELECT has_schema_privilege(:role, current_schema(), 'CREATE')")
    if connection.execute(may_create, {"role": role}).scalar_one():
        yield "CREATE in the schema of the ledger"
    member = sa.text("SELECT pg_has_role(CAST(:role AS name), CAST(:other AS name), 'MEMBER')")
    for other in _DANGEROUS:
        if connection.execute(member, {"role": role, "other": other}).scalar_one():
            yield f"member of {other}"
