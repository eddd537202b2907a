"""What makes two configured verifiers the same, and what does not."""

from __future__ import annotations

from typing import Any

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Cost, Settings, Tier, Verifier


def made(default: int, version: str = "1") -> type[Verifier[Any]]:
    class Some(Settings):
        cycles: int = default

    class Calculation(Verifier[Any]):
        name, tier = "some.calculation", Tier.SIMULATION
        Settings = Some
        measures = ()

        def cost(self, candidate: Any) -> Cost:
            return Cost()

        def verify(self, batch: Any, context: Any) -> Any:
            yield from ()

    Calculation.version = version
    return Calculation


def test_a_changed_default_or_version_is_another_evidence_key() -> None:
    ethene = parse_molecule("C=C")
    key = made(10)().evidence_key(ethene)
    assert made(10)({"cycles": 10}).evidence_key(ethene) == key, "a default that is written out is the same setting"
    assert made(20)().evidence_key(ethene).hash != key.hash
    assert made(20)({"cycles": 10}).evidence_key(ethene).hash == key.hash
    assert made(10, version="2")().evidence_key(ethene).hash != key.hash
    assert made(10)().evidence_key(parse_molecule("CC")).hash != key.hash
    assert made(10)().evidence_key(ethene, replicate=1).hash != key.hash


def test_the_seed_comes_from_the_evidence_alone() -> None:
    ethene = parse_molecule("C=C")
    assert made(10)().evidence_key(ethene).seed == made(10)().evidence_key(ethene).seed
    assert made(10)().evidence_key(ethene).seed != made(10)().evidence_key(ethene, replicate=1).seed
