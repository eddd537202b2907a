"""Two verifiers that compute nothing, and a campaign that uses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from sciagent.campaign.file.campaign_spec import CampaignSpec, parse_spec
from sciagent.domain.properties_and_levels import DIPOLE, HOMO_LUMO_GAP, QED, SA_SCORE
from sciagent.verification import verifier_registry
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    LabAnswer,
    LabForm,
    Level,
    Outcome,
    PropertyAtLevel,
    Settings,
    Tier,
    Verifier,
    WorldVerifier,
    at,
)
from sciagent_verifiers.fast.molecule_and_crystal_safety import MoleculeSafety


class Geometry(Settings):
    method: Literal["gfn2", "mmff"] = "gfn2"
    conformers: int = 10


class ScfSettings(Settings):
    functional: str = "PBE0"
    basis: str = "def2-SVP"
    dispersion: str | None = "d4"
    geometry: Geometry = Geometry()


class Scf(Verifier[Any]):
    name = "fake.scf"
    version = "1"
    tier = Tier.HIGH_FIDELITY
    Settings = ScfSettings

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level(self.settings.functional, self.settings.basis), HOMO_LUMO_GAP, DIPOLE)

    def cost(self, candidate: Any) -> Cost:
        return Cost(core_seconds=1)

    def verify(self, batch: Sequence[Any], context: Context) -> Iterator[Finding]:
        yield from ()


class Checks(Scf):
    name = "fake.checks"
    tier = Tier.FAST
    Settings = Settings

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level("RDKit"), SA_SCORE, QED)


class Lattice(Checks):
    name = "fake.lattice"
    kind = "crystal"


class Bench(WorldVerifier[Any]):
    name = "fake.bench"
    version = "1"

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(Level("bench"), HOMO_LUMO_GAP, DIPOLE)

    def form(self, candidate: Any) -> LabForm:
        return LabForm((), "bench")

    def read(self, candidate: Any, answer: LabAnswer) -> Finding:
        return Finding(candidate.key, Outcome.OK)


@dataclass(frozen=True)
class Point:
    loaded: type[Verifier[Any]]
    value: str = "fake_verifiers"

    def load(self) -> type[Verifier[Any]]:
        return self.loaded


CAMPAIGN = """\
campaign: dyes
description: gaps
subject: molecule
seed: 1
objectives:
  - property: homo_lumo_gap
    window: [4.0, 4.6]
    unit: eV
    scale: 0.5
ladder:
  - rung: checks
    verifier: fake.checks
    gate:
      sa_score: {max: 4}
  - rung: dft
    verifier: fake.scf
    settings:
      functional: B3LYP
      geometry: {method: gfn2, conformers: 3}
    limits: {wall_seconds: 120}
terminal: dft
goal: {kind: hits, count: 5}
budget:
  core_seconds: 3600
  rungs: {dft: 12}
proposer:
  kind: evolve
  seeds: seeds.csv
scheduler: {kind: thresholds}
workers: 2
safety:
  screen: false
  reason: the fake verifiers stand alone in these tests
"""


@pytest.fixture(name="folder")
def make_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of seeds, while the fake verifiers are registered."""
    points = {loaded.name: Point(loaded) for loaded in (Scf, Checks, Lattice, Bench, MoleculeSafety)}
    monkeypatch.setattr(verifier_registry, "_points", lambda: points)
    (tmp_path / "seeds.csv").write_text("smiles\nCCO\n")
    return tmp_path


def changed(folder: Path, *edits: tuple[str, str]) -> CampaignSpec:
    """The campaign with some of its text replaced."""
    text = CAMPAIGN
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return parse_spec(text, base=folder)
