"""Before the first candidate: what verifiers build once and keep on disk, such as the index of a reference file."""

from __future__ import annotations

from collections.abc import Iterable

from sciagent.campaign.build import BuiltRung
from sciagent.errors import CampaignError, SimulatorError


def prepare(rungs: Iterable[BuiltRung]) -> None:
    """Let every rung build what it needs. Raises CampaignError, naming the rung, where one cannot."""
    for rung in rungs:
        try:
            rung.verifier.prepare()
        except SimulatorError as error:
            raise CampaignError(f'rung "{rung.spec.rung}" ({rung.verifier.name}): {error.detail}') from error
