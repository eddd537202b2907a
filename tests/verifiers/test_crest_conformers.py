"""`crest.conformers` on recorded output: CREST samples, and the ensemble is that of `xtb.conformers`.

No real CREST runs here, since Debian has no package of it. The recorded conformers of ethanol were written for this
test in CREST's format; a script that stands in for CREST goes through the whole verifier.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.verification.verifier_contract import Context, Finding
from sciagent_verifiers.programs.crest_conformers import CrestConformers
from sciagent_verifiers.simulation.xtb_conformers import XtbConformers
from tests.simulators.recorded import FOLDER
from tests.support import fake_programs

FOUND = FOLDER / "crest_ethanol_conformers.xyz"


def finding(does: str, folder: Path, monkeypatch: pytest.MonkeyPatch, smiles: str = "CCO") -> Finding:
    fake_programs.put(folder / "bin", "crest", f'echo "$@" > {folder}/asked\n{does}', monkeypatch)
    [found] = CrestConformers({"mode": "quick"}).verify([parse_molecule(smiles)], Context(folder, folder, threads=2))
    return found


def values(found: Finding) -> dict[str, float]:
    return {measured.property: measured.quantity.value for measured in found.measured}


def test_what_crest_found_is_counted_and_averaged_as_by_xtb_conformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = finding(f"cp {FOUND} crest_conformers.xyz; cat {FOLDER}/crest_ethanol.txt", tmp_path, monkeypatch)
    assert found.outcome is Outcome.OK, found.detail
    arguments = (tmp_path / "asked").read_text().split()
    assert arguments == ["molecule.xyz", "--gfn2", "--chrg", "0", "--uhf", "0", "--ewin", "4", "-T", "2", "--quick"]
    [own] = XtbConformers().verify([parse_molecule("CCO")], Context(tmp_path, tmp_path))
    theirs = values(own)
    assert values(found) == pytest.approx(theirs, abs=1e-3)
    assert values(found)["conformers"] == 3  # anti and two gauche, of which CREST gives one
    assert found.diagnostics["program"] == "CREST 3.0.2"
    assert {Path(file.path).suffix for file in found.artifacts} == {".xyz", ".txt"}
    [level] = {measured.level.label for measured in found.measured}
    assert level == "GFN2-xTB//GFN2-xTB//CREST quick, ensemble of 4 kcal/mol at 298.15 K"


@pytest.mark.parametrize(
    ("does", "reason", "detail"),
    [
        (f"cat {FOLDER}/crest_topology.txt; exit 1", Reason.BOND_CHANGED, "Change in topology detected"),
        (f"cat {FOLDER}/crest_ethanol.txt", Reason.NO_RESULT, "has written no conformers"),
        (
            f"sed 's/-11.39/-11.38/' {FOUND} > crest_conformers.xyz; cat {FOLDER}/crest_ethanol.txt",
            Reason.BAD_RESULT,
            "differ by up to 1.0e-02 hartree",
        ),
        (
            f"sed 's/ O / S /' {FOUND} > crest_conformers.xyz; cat {FOLDER}/crest_ethanol.txt",
            Reason.BAD_RESULT,
            "not the 9 atoms that were asked for",
        ),
    ],
)
def test_what_went_wrong_has_its_name(
    does: str, reason: Reason, detail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = finding(does, tmp_path, monkeypatch)
    assert (found.reason, found.measured) == (reason, ()) and detail in found.detail


def test_open_diastereomers_are_refused() -> None:
    refusal = CrestConformers().accepts(parse_molecule("CC(F)C(F)O"))
    assert refusal is not None and refusal.reason == Reason.UNDEFINED_STEREO
