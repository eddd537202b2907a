"""Prepares rungs before the first candidate: checks that jobs can run here, and lets verifiers build files that they
need, such as the index of a reference file."""

from __future__ import annotations

from collections.abc import Iterable

from sciagent.campaign.core.build import BuiltRung
from sciagent.domain.jobs.resource_requests import CORES, in_words
from sciagent.errors import CampaignError, SimulatorError, UsageError


def check_here(rungs: Iterable[BuiltRung], workers: int) -> None:
    """Raises UsageError if a rung needs more than `workers` cores, or another resource, since a driver's own pool has
    only cores."""
    for rung in rungs:
        if more := {name: n for name, n in rung.holds.items() if name != CORES}:
            asked = " ".join(f"--resource {name}={n}" for name, n in more.items())
            raise UsageError(
                f'rung "{rung.spec.rung}" needs {in_words(more)}, and a campaign that runs its jobs itself has cores '
                f"alone: run it with --executor ledger and start sciagent worker {asked}"
            )
        if rung.holds[CORES] > workers:
            raise UsageError(
                f'rung "{rung.spec.rung}" needs {rung.holds[CORES]} cores, and the campaign runs on {workers}: raise '
                "workers, or give it fewer cores"
            )


def prepare(rungs: Iterable[BuiltRung]) -> None:
    """Lets every rung build the files that it needs. Raises CampaignError that names the rung if it fails."""
    for rung in rungs:
        try:
            rung.verifier.prepare()
        except SimulatorError as error:
            raise CampaignError(f'rung "{rung.spec.rung}" ({rung.verifier.name}): {error.detail}') from error
