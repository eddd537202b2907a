"""What a job on a node has to know of the process that submitted it, so that nobody has to write it into a profile."""

from __future__ import annotations

import os
from pathlib import Path

from sciagent.errors import SlurmError
from sciagent.execution.slurm.site import Site
from sciagent.store.database.ledger import Ledger

LEDGER, LEDGER_FILE = "SCIAGENT_LEDGER", "SCIAGENT_LEDGER_FILE"


def variables(ledger: Ledger, site: Site) -> dict[str, str]:
    """Which ledger it is, and where artifacts go; what the profile names itself is left to it.

    Raises SlurmError where that would hand on a password: Slurm keeps the environment of jobs in its files.
    """
    named = {*site.environment, *site.pass_environment}
    found = {"SCIAGENT_ARTIFACTS": str(ledger.artifacts.root.resolve())}
    if lease := os.environ.get("SCIAGENT_LEASE_SECONDS"):  # all who share a ledger have the same
        found["SCIAGENT_LEASE_SECONDS"] = lease
    if not named & {LEDGER, LEDGER_FILE}:
        if ledger.url.password is None:
            found[LEDGER] = ledger.url.render_as_string(hide_password=False)
        elif path := os.environ.get(LEDGER_FILE):
            found[LEDGER_FILE] = str(Path(path).expanduser().resolve())
        else:
            raise SlurmError(
                "the URL of the ledger holds a password, and Slurm keeps what it is given in files: write the URL into "
                f"a file of mode 600 that the nodes see, and set {LEDGER_FILE} to it instead of {LEDGER}; or leave the "
                f"password to ~/.pgpass; or, if you want it so, name {LEDGER} in pass_environment of {site.site}"
            )
    return {name: value for name, value in found.items() if name not in named}
