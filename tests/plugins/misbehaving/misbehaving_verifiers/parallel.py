"""A verifier whose program is a script of another interpreter, in several processes of Open MPI."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from misbehaving_verifiers import Base
from sciagent.programs import interpreter
from sciagent.verification import verifier_contract
from sciagent.verification.verifier_contract import Context, Finding, SimulatorError, Tier
from sciagent_simulators.programs.foreign_script import run_script

JSON = interpreter("json", "JSON", "SCIAGENT_JSON", "every Python has it")
SCRIPT = Path(__file__).parent / "ranks_script.py"


class Parallel(Base):
    """Each process of the program burns `seconds` of CPU; with `hold`, they wait for ever."""

    name = "bad.parallel"
    tier = Tier.SIMULATION

    class Settings(verifier_contract.Settings):
        ranks: int = 2
        seconds: float = 0.0
        hold: bool = False

    def one(self, candidate: Any, context: Context) -> Finding:
        os.environ["SCIAGENT_JSON"] = sys.executable
        request = {"seconds": self.settings.seconds, "hold": self.settings.hold}
        try:
            answer = run_script(JSON, SCRIPT, request, context.scratch / "script", ranks=self.settings.ranks)
        except SimulatorError as error:
            return self.failed(candidate, error)
        return self.good(candidate, diagnostics=dict(answer.result), versions=dict(answer.versions))
