"""A verifier that computes several candidates in one call, as one that runs a model on a GPU does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from misbehaving_verifiers import Base
from sciagent.verification import verifier_contract
from sciagent.verification.verifier_contract import Context, Cost, Finding, Tier


class Together(Base):
    """All of a batch take `seconds` of CPU, then come the findings, each heavier than the one before. A batch with the
    candidate `poison` takes `burns` of CPU and fails. `how` afterwards: the zygote is killed after the last finding."""

    name = "bad.together"
    tier = Tier.SIMULATION
    together = 8

    class Settings(verifier_contract.Settings):
        seconds: float = 0.0
        sleep: float = 0.0
        poison: str = ""
        how: str = "raise"
        burns: float = 0.0

    def cost(self, candidate: Any) -> Cost:
        return Cost(core_seconds=0.01)

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        if any(candidate.text == self.settings.poison for candidate in batch):
            self._fail()
        time.sleep(self.settings.sleep)
        end = time.process_time() + self.settings.seconds
        while time.process_time() < end:
            pass
        for i, candidate in enumerate(batch):
            diagnostics = {"batch": len(batch), "checkpoint": context.checkpoint.name}
            yield replace(self.good(candidate, diagnostics=diagnostics), share=float(i + 1))
        if self.settings.how == "afterwards":
            time.sleep(0.5)  # until the last finding has arrived
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(1000)

    def _fail(self) -> None:
        how = self.settings.how
        end = time.process_time() + self.settings.burns
        while time.process_time() < end:
            pass
        if how == "exit":
            os._exit(3)
        if how == "memory":
            bytearray(2_000_000_000)
        if how == "sleep":
            time.sleep(1000)
        if how == "zygote":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(1000)
        raise RuntimeError("as asked")
