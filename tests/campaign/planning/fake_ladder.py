"""A ladder of verifiers that compute nothing, and its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sciagent.domain.properties_and_levels import DIPOLE, HOMO_LUMO_GAP, Property
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Prior,
    PropertyAtLevel,
    Settings,
    Tier,
    Verifier,
    at,
)


class Priced(Settings):
    """seconds: of one run."""

    seconds: float = 1.0


class Fake(Verifier[Any]):
    """Computes nothing."""

    version = "1"
    tier = Tier.SIMULATION
    Settings = Priced
    of: tuple[Property, ...] = (HOMO_LUMO_GAP,)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level(self.name), *self.of)

    def cost(self, candidate: Any) -> Cost:
        return Cost(core_seconds=self.settings.seconds)

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        yield from ()


def prior(spearman: float, n: int = 100_000, level: str = "fake.top") -> tuple[Prior, ...]:
    return (Prior("homo_lumo_gap", level, spearman, None, n, "made up"),)


class Top(Fake):
    name, tier = "fake.top", Tier.HIGH_FIDELITY


class Useless(Fake):
    name, priors = "fake.useless", prior(0.0)


class Good(Fake):
    name, priors = "fake.good", prior(0.9)


class Elsewhere(Fake):
    name, priors = "fake.elsewhere", prior(0.9, 40, "fake.other")


class Unknown(Fake):
    name = "fake.unknown"


class Dipole(Fake):
    name, of = "fake.dipole", (DIPOLE,)


LADDER = (Useless, Good, Elsewhere, Unknown, Dipole, Top)
Maker = Callable[..., dict[str, Any]]


def rung(found: dict[str, Any], name: str) -> dict[str, Any]:
    [one] = [r for r in found["rungs"] if r["rung"] == name]
    return one
