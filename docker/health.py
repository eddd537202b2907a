"""Whether what runs in this container does its work: exit code 0, or 1 and a line that says why not.

python health.py ledger     the ledger answers, at the revision that this version needs
python health.py worker     that, and a worker or dispatcher of this host has spoken to it within its time
python health.py http URL   the address answers
"""

from __future__ import annotations

import socket
import sys
import urllib.error
import urllib.request

SECONDS = 10  # longest wait for an address to answer


def ledger(worker: bool) -> str | None:
    """Returns what is wrong, or None. worker: whether a worker of this host has to be there, too."""
    from sqlalchemy.exc import SQLAlchemyError

    from sciagent.errors import SciagentError
    from sciagent.inputs.environment_variables import ledger_address
    from sciagent.store.database import migrate_and_back_up
    from sciagent.store.database.engine import connect, ledger_url, read_only, sqlite_path
    from sciagent.store.job_queue import workers_and_capacity

    try:
        engine = connect(ledger_url(ledger_address()))
        path = sqlite_path(engine)
        if path is not None and not path.exists():
            return f"there is no ledger at {path}"
        revision = migrate_and_back_up.current(engine)
        if revision != migrate_and_back_up.HEAD:
            return f"the ledger is at revision {revision or 'none'}, this sciagent needs {migrate_and_back_up.HEAD}"
        if worker:
            with read_only(engine) as connection:
                hosts = {alive.host for alive in workers_and_capacity.alive(connection)}
            if socket.gethostname() not in hosts:
                return "no worker of this host has spoken to the ledger lately"
    except (SciagentError, SQLAlchemyError, OSError) as error:
        # the words of the error are left out, since they may hold the ledger's address
        return f"the ledger does not answer: {type(error).__name__}"
    return None


def http(url: str) -> str | None:
    """Returns what is wrong, or None."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            answer.read(1)
    except (OSError, urllib.error.URLError, ValueError) as error:
        return f"{url} does not answer: {error}"
    return None


def main(arguments: list[str]) -> int:
    match arguments:
        case ["ledger" | "worker" as kind]:
            wrong = ledger(worker=kind == "worker")
        case ["http", url]:
            wrong = http(url)
        case _:
            sys.stderr.write(str(__doc__))
            return 2
    if wrong:
        sys.stderr.write(wrong + "\n")
    return int(wrong is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
