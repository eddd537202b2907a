"""Environment variables that a job inherits from the submitting process, so that no profile has to list them."""

from __future__ import annotations

import os
from pathlib import Path

from sciagent.errors import SlurmError
from sciagent.execution.slurm.site import SiteProfile
from sciagent.store.database.ledger import Ledger

LEDGER, LEDGER_FILE = "SCIAGENT_LEDGER", "SCIAGENT_LEDGER_FILE"


def variables(ledger: Ledger, site: SiteProfile) -> dict[str, str]:
    """The ledger's address and the artifact folder, except for variables that the profile sets itself.

    Raises SlurmError if the address holds a password, since Slurm stores the environment of jobs in files.
    """
    named = {*site.environment, *site.pass_environment}
    values = {"SCIAGENT_ARTIFACTS": str(ledger.artifacts.root.resolve())}
    if lease := os.environ.get("SCIAGENT_LEASE_SECONDS"):  # must be equal for all users of a ledger
        values["SCIAGENT_LEASE_SECONDS"] = lease
    if not named & {LEDGER, LEDGER_FILE}:
        if ledger.url.password is None:
            values[LEDGER] = ledger.url.render_as_string(hide_password=False)
        elif path := os.environ.get(LEDGER_FILE):
            values[LEDGER_FILE] = str(Path(path).expanduser().resolve())
        else:
            raise SlurmError(
                "the URL of the ledger holds a password, and Slurm keeps what it is given in files: write the URL into "
                f"a file of mode 600 that the nodes see, and set {LEDGER_FILE} to it instead of {LEDGER}; or leave the "
                f"password to ~/.pgpass; or, if you want it so, name {LEDGER} in pass_environment of {site.site}"
            )
    return {name: value for name, value in values.items() if name not in named}
