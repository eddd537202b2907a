"""A training campaign proposes its seeds before the rollouts begin. After the rollouts it proposes nothing more."""

from __future__ import annotations

import threading

from sciagent.campaign.core.build import Built
from sciagent.campaign.file.sources import LlmSpec, ScreenSpec
from sciagent.campaign.proposing.sources import ProposerSlot, ScriptSource, Source, TurnResult
from sciagent.errors import CampaignError, UsageError
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.job_queue import attempts
from sciagent.training.rollouts.scripted import NAME
from sciagent.verification.sandbox.host import Worker


class NoSource:
    """The source that proposes nothing, so that the scheduler only buys what waits."""

    is_busy = is_ready = False
    patience = 1
    total: int | None = None
    fault: str | None = None

    def prepare(self) -> bool:
        return True

    def take(self, limit: int) -> TurnResult | None:
        return None

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


def no_source(built: Built, lease: DriverLease, worker: Worker, bell: threading.Event) -> Source:
    return NoSource()


def seed_source(built: Built, lease: DriverLease, worker: Worker, bell: threading.Event) -> Source:
    """Returns the source of the campaign's seeds: its file of molecules, each proposed once."""
    spec = _only_proposer(built)
    if isinstance(spec, LlmSpec) and spec.seeds is None:
        return NoSource()
    with built.ledger.begin() as connection:
        return ScriptSource(built, connection, lease, worker, ProposerSlot("", spec, 0, bell))


def check_seeds(built: Built) -> None:
    """Raises CampaignError if a rung could verify no seed, since this machine lacks what the verifier needs.

    No proposal could be verified either, and a model that is trained would learn from costs alone."""
    with built.ledger.read() as connection:
        fault = attempts.environment_fault(connection, built.row.id)
    if fault is not None:
        rung = next(rung.spec for rung in built.all_rungs if rung.id == fault[0])
        raise CampaignError(f'{built.row.name}: rung "{rung.rung}" ({rung.verifier}) could verify no seed: {fault[1]}')


def model_spec(built: Built) -> LlmSpec:
    """Returns the settings of the campaign's model; of a campaign without one, those of a script that calls tools.

    Raises UsageError for a campaign whose proposer is neither a model nor a file.
    """
    spec = _only_proposer(built)
    return (
        spec
        if isinstance(spec, LlmSpec)
        else LlmSpec.model_validate({"kind": "llm", "model": NAME, "structured": False})
    )


def _only_proposer(built: Built) -> LlmSpec | ScreenSpec:
    chosen = [spec for _, spec in built.spec.proposers]
    if len(chosen) == 1 and isinstance(chosen[0], LlmSpec | ScreenSpec):
        return chosen[0]
    kinds = " and ".join(spec.kind for spec in chosen)
    raise UsageError(
        f"rollouts begin from the {built.subject.words.many} of a file, and this campaign's proposer is {kinds}; write "
        "proposer: {kind: llm, model: NAME, seeds: FILE}, or {kind: screen, file: FILE} for --policy scripted"
    )
