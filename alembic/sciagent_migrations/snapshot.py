"""Prints the SQL of an empty SQLite ledger, from which new ones are made. After each new script:

`python -m sciagent_migrations.snapshot > alembic/sciagent_migrations/sqlite.sql`
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sciagent.store.database.engine import connect, ledger_url
from sciagent.store.database.migrate_and_back_up import run_scripts


def of_scripts() -> str:
    """Returns the SQL of an empty ledger, as the scripts make it."""
    with tempfile.TemporaryDirectory() as folder:
        engine = connect(ledger_url(str(Path(folder) / "ledger.db")))
        run_scripts(engine)
        with engine.connect() as connection:
            begin, *statements, commit = connection.connection.driver_connection.iterdump()
        engine.dispose()
    made_first = [each for each in statements if each.startswith(("CREATE TABLE", "INSERT"))]
    others = sorted(set(statements) - set(made_first))
    return "\n".join((begin, *made_first, *others, commit, ""))


if __name__ == "__main__":
    sys.stdout.write(of_scripts())
