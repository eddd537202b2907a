"""A paid rung as workers elsewhere meet it: takes its time, goes on from a checkpoint, hangs, or kills who runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import psutil

from misbehaving_verifiers import Base
from sciagent.verification import verifier_contract
from sciagent.verification.verifier_contract import Context, Cost, Finding, Tier

HELD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


class Remote(Base):
    """steps: of `seconds` each, with a checkpoint and a report of progress after each. silent_from: the step from which
    it does nothing and reports nothing. of: the whole amount that it reports, if not `steps`. hang_at, kill_at: the
    SMILES at which it hangs, with a child, or kills `kill`: the process that `forks` its jobs, or the `slot` above it.
    declared: core-seconds."""

    name = "bad.remote"
    tier = Tier.SIMULATION
    stall_seconds = 300.0

    class Settings(verifier_contract.Settings):
        steps: int = 1
        seconds: float = 0.0
        silent_from: int = 1000
        of: float = 0.0
        hang_at: str = ""
        kill_at: str = ""
        kill: str = "forks"
        declared: float = 0.001

    def cost(self, candidate: Any) -> Cost:
        return Cost(core_seconds=self.settings.declared)

    def one(self, candidate: Any, context: Context) -> Finding:
        settings = self.settings
        if candidate.text == settings.hang_at:
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
            time.sleep(1000)
        if candidate.text == settings.kill_at:
            forks = psutil.Process().parent()
            time.sleep(settings.seconds)  # until the findings before this one have arrived
            victim = forks if settings.kill == "forks" else forks.parent()
            os.kill(victim.pid, signal.SIGKILL)
            time.sleep(1000)
        if settings.steps == 1:
            time.sleep(settings.seconds)
            return self.good(candidate, diagnostics={name: os.environ.get(name) for name in HELD})
        done = context.checkpoint / "done"
        began = int(done.read_text()) if done.exists() else 0
        for step in range(began, settings.steps):
            if step >= settings.silent_from:
                time.sleep(1000)
            context.progress(step, settings.of or settings.steps, f"step {step + 1}")
            assert context.deadline > time.monotonic()
            end = time.process_time() + settings.seconds
            while time.process_time() < end:
                pass
            partial = context.checkpoint / "partial"
            partial.write_text(str(step + 1))
            partial.rename(done)
        return self.good(candidate, diagnostics={"began_at": began})
