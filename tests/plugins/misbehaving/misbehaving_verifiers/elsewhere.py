"""Verifiers whose engine this environment lacks: one has an environment of its own, the other has none."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any

from misbehaving_verifiers import Base
from sciagent.verification import verifier_contract
from sciagent.verification.verifier_contract import Context, Finding, Tier


class Elsewhere(Base):
    """Its engine is the distribution `only-there`, of the environment that the settings name."""

    name = "bad.elsewhere"
    tier = Tier.SIMULATION
    together = 4
    requires = ("only-there",)
    engines = ("only-there",)

    class Settings(verifier_contract.Settings):
        where: str = "there"
        poison: str = ""

    @property
    def runs_in(self) -> str:
        return self.settings.where

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        import only_there

        if any(candidate.text == self.settings.poison for candidate in batch):
            raise RuntimeError("as asked")
        for candidate in batch:
            yield self.good(candidate, diagnostics={"python": sys.executable, "says": only_there.SAYS})


class Absent(Base):
    """Its engine is in no environment; `dies` ends the process that is asked."""

    name = "bad.absent"
    tier = Tier.SIMULATION

    class Settings(verifier_contract.Settings):
        dies: bool = False

    @classmethod
    def missing(cls) -> str | None:
        try:
            metadata.version("no-such-engine")
        except metadata.PackageNotFoundError:
            return "no-such-engine is not installed; pip install no-such-engine"
        return None

    def lacks(self) -> str | None:
        if self.settings.dies:
            sys.exit(3)
        return super().lacks()
