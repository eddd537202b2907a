"""The ledger as an object: it opens the database, begins transactions and holds the artifact store."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy.engine import Connection, Engine

from sciagent.store.database import migrate
from sciagent.store.database.artifacts import ArtifactStore
from sciagent.store.database.engine import connect, ledger_url, read_only, sqlite_path


class Ledger:
    """An open ledger at the code's revision.

    copy_taken: path of the copy of a SQLite file before its upgrade, or None. idle_seconds: see `engine.connect`.
    """

    def __init__(self, url: str, artifacts: Path | None = None, idle_seconds: float | None = None) -> None:
        self.url = ledger_url(url)
        self.engine: Engine = connect(self.url, idle_seconds)
        self.copy_taken = migrate.ensure(self.engine)
        path = sqlite_path(self.engine)
        default = path.with_name(f"{path.stem}-artifacts") if path else Path("sciagent-artifacts")
        self.artifacts = ArtifactStore(artifacts or default)

    def begin(self) -> AbstractContextManager[Connection]:
        """A write transaction: committed whole, or not at all."""
        return self.engine.begin()

    def read(self) -> AbstractContextManager[Connection]:
        """A read transaction: it sees a single snapshot, never waits for a writer and cannot write."""
        return read_only(self.engine)

    def environment(self) -> dict[str, str]:
        """Returns the environment of a child process that works on this ledger.

        The address may hold a password. It is passed on in a variable and never as an argument, since every user of
        the machine can list the arguments of a process.
        """
        variables = os.environ | {"SCIAGENT_LEDGER": self.url.render_as_string(hide_password=False)}
        variables.pop("SCIAGENT_LEDGER_FILE", None)  # this variable may not be set together with SCIAGENT_LEDGER
        variables["SCIAGENT_ARTIFACTS"] = str(self.artifacts.root.resolve())
        return variables

    def close(self) -> None:
        self.engine.dispose()
