"""Chooses the executor that `--executor` names."""

from __future__ import annotations

from pathlib import Path

from sciagent import settings
from sciagent.errors import UsageError
from sciagent.execution.executor import Executor
from sciagent.store.database.ledger import Ledger

EXECUTORS = ("local", "ledger", "celery", "slurm")
QUEUES = ("simulation", "high_fidelity")  # the tiers whose jobs run on remote workers


def broker_url(given: str | None = None) -> str:
    """Returns the broker's URL: `given`, else SCIAGENT_BROKER. Raises UsageError if neither is set."""
    if (url := given or settings.secret("SCIAGENT_BROKER")) is None:
        raise UsageError(
            "no broker is named: set SCIAGENT_BROKER to its URL, or SCIAGENT_BROKER_FILE to a file that holds it; "
            "sciagent worker takes --broker URL, too"
        )
    return url


def executor_of(name: str, ledger: Ledger, site: Path | None = None) -> Executor | None:
    """Returns the executor of this name; None for the local pool. site: YAML profile for Slurm; default:
    SCIAGENT_SLURM_SITE. Raises UsageError for an unknown name or a missing setting."""
    if name == "local":
        return None
    if name == "ledger":
        return Executor()
    if name == "celery":
        from sciagent.execution.celery.executor import CeleryExecutor

        return CeleryExecutor(broker_url())
    if name == "slurm":
        from sciagent.execution.slurm.controller import SlurmController
        from sciagent.execution.slurm.site import load_site

        if (profile := site or settings.path("SCIAGENT_SLURM_SITE")) is None:
            raise UsageError("--executor slurm needs a site profile: --site SITE.yaml, or SCIAGENT_SLURM_SITE")
        return SlurmController(ledger, load_site(profile), QUEUES)
    raise UsageError(f'--executor "{name}": one of {", ".join(EXECUTORS)}')
