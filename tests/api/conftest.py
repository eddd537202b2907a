"""A campaign that took seconds, with a function of this file as its rung, for the tests of what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sciagent
from sciagent.api.campaign import Campaign

MOLECULES = ("CCO", "c1ccccc1", "CC(C)(C)C", "O=Cc1ccccc1", "C" * 12)


@sciagent.verifier(measures="toy_energy", unit="kJ/mol", cost=0.01, description="heavy atoms in disguise")
def toy_energy(molecule: Any, scale: float = 1.0) -> tuple[float, float]:
    if molecule.heavy_atoms > 10:
        raise ValueError("too large for a toy")
    return scale * molecule.heavy_atoms, 0.25


def toy_keys(**changed: Any) -> dict[str, Any]:
    """Arguments of a campaign whose hits have five to seven heavy atoms."""
    return {
        "name": "toys",
        "objectives": [{"property": "toy_energy", "window": [5, 7], "unit": "kJ/mol"}],
        "ladder": [{"rung": "checks", "verifier": "molecule.checks"}, {"rung": "toy", "verifier": toy_energy}],
        "goal": {"kind": "hits"},
        "budget": {"core_seconds": 60},
        "proposer": {"kind": "screen", "file": "molecules.csv"},
        "workers": 1,
    } | changed


def write_molecules(folder: Path) -> None:
    (folder / "molecules.csv").write_text("smiles\n" + "\n".join(MOLECULES) + "\n")


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Campaign]:
    """The campaign before its first step, in a ledger of its own."""
    monkeypatch.chdir(tmp_path)
    write_molecules(tmp_path)
    campaign = Campaign(**toy_keys(ledger=tmp_path / "toys.db"))
    yield campaign
    campaign.ledger.close()


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    """The campaign after it has run, to be read only."""
    folder = tmp_path_factory.mktemp("toys")
    write_molecules(folder)
    campaign = Campaign(**toy_keys(ledger=folder / "toys.db", base=folder))
    campaign.run(progress=False)
    yield campaign
    campaign.ledger.close()
