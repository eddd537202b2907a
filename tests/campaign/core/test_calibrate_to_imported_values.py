"""The messages of a calibration that cannot be made: which level, and which command computes the rest."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

import sciagent
from sciagent.campaign.core.calibrate_to_imported_values import command, fits_of
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.file.rungs import RungSpec
from sciagent.campaign.people.import_values import import_file
from sciagent.cli.verifiers_and_calc import nested
from sciagent.domain.display_units import Column
from sciagent.domain.properties_and_levels import Level
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger

SPEC = """
campaign: fits
subject: molecule
objectives:
  - {property: logp, max: 2, calibrate: {from: measured, kind: offset%s}}
ladder:
  - verifier: molecule.checks
goal: {kind: hits}
budget: {proposals: 50}
proposer: {kind: screen, file: none.csv}
"""


def test_the_command_has_the_settings_of_the_rung() -> None:
    settings = {"functional": "B3LYP", "spin_check": "off", "grid": 1, "geometry": {"conformers": 3}}
    rung = RungSpec.model_validate({"verifier": "pyscf.solvation", "settings": settings})
    words = shlex.split(command(rung, "my data.csv"))
    assert words[:3] == ["sciagent", "calc", "pyscf.solvation"] and words[-2:] == ["--file", "my data.csv"]
    again = {"verifier": "pyscf.solvation", "settings": dict(nested(words[4:-2:2]))}
    assert RungSpec.model_validate(again).configured.settings_hash == rung.configured.settings_hash


def test_the_command_for_a_verifier_of_a_function_is_one_of_python() -> None:
    @sciagent.verifier(measures="logp", name="own_logp")
    def _own(molecule: Any, scale: float = 1.0) -> float:
        return scale * molecule.heavy_atoms

    rung = RungSpec.model_validate({"verifier": "own_logp", "settings": {"scale": 2.0}})
    assert command(rung, "my data.csv") == "sciagent.calc('own_logp', file='my data.csv', settings={'scale': 2.0})"


def test_of_several_levels_one_is_named(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "lab.csv"
    file.write_text("smiles,logp\n" + "".join(f"{'C' * n},{n}\n" for n in range(1, 10)))
    for method in ("experiment", "HPLC"):
        import_file(ledger, file, columns=[Column("logp", "logp")], level=Level(method))

    def told(level: str) -> str:
        spec = parse_spec(SPEC % level, name="fits.yaml", base=tmp_path, candidates=False)
        with ledger.read() as connection, pytest.raises(UsageError) as refused:
            fits_of(connection, spec)
        return str(refused.value)

    assert "logp was imported at 2 levels; name one" in told("")
    assert 'no logp was imported at level "HPCL"; did you mean "HPLC"?' in told(", level: HPCL")
    missing = told(", level: HPLC")
    assert "share 0 candidates with a logp; a fit needs 8. 9 candidates have an imported value" in missing
    assert missing.endswith("sciagent calc molecule.checks --file lab.csv")
