"""Before the first candidate: whether jobs can run here at all, and what verifiers build once and keep on disk, such as
the index of a reference file."""

from __future__ import annotations

from collections.abc import Iterable

from sciagent.campaign.core.build import BuiltRung
from sciagent.domain.jobs.needs import CORES, in_words
from sciagent.errors import CampaignError, SimulatorError, UsageError


def check_here(rungs: Iterable[BuiltRung], workers: int) -> None:
    """A campaign's own processes have cores, `workers` of them, and nothing else to give. Raises UsageError for a rung
    that needs more."""
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
    """Let every rung build what it needs. Raises CampaignError, naming the rung, where one cannot."""
    for rung in rungs:
        try:
            rung.verifier.prepare()
        except SimulatorError as error:
            raise CampaignError(f'rung "{rung.spec.rung}" ({rung.verifier.name}): {error.detail}') from error
