"""`orca.scf`, `gaussian.scf` and `xtb.program` in the real host, by `sciagent calc`; programs that are missing.

ORCA and Gaussian are scripts on the path that print recorded output; xtb is the real program.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from sciagent.execution.worker.read_claimed_jobs import CannotError, Tasks
from sciagent.verification.declarations_and_availability import declared_programs
from sciagent_simulators.programs.orca import ORCA
from sciagent_verifiers.high_fidelity.pyscf_orbitals_dipole_energy import PyscfScf
from sciagent_verifiers.programs.orca_and_gaussian_scf import GaussianScf, OrcaScf
from sciagent_verifiers.programs.xtb_program import XtbProgram
from sciagent_verifiers.simulation.xtb_singlepoint import XtbSinglepoint
from tests.simulators.recorded import FOLDER
from tests.support import fake_programs
from tests.support.typed import call, data, refused, told

CAMPAIGN = """
campaign: with-orca
subject: molecule
objectives: [{property: homo_lumo_gap, min: 4, unit: eV}]
ladder:
  - {rung: checks, verifier: molecule.checks}
  - {rung: orca, verifier: orca.scf}
goal: {kind: hits, count: 1}
budget: {core_seconds: 100, rungs: {orca: 1}}
proposer: {kind: screen, file: seeds.csv, column: smiles}
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCIAGENT_LEDGER", str(tmp_path / "a.db"))
    for program in declared_programs():
        monkeypatch.delenv(program.variable, raising=False)
    yield tmp_path


def calculated(verifier: str, *more: str) -> dict[str, Any]:
    [answer] = data("calc", verifier, "O", *more)
    return answer


def values(answer: dict[str, Any]) -> dict[str, float]:
    return {value["property"]: value["value"] for value in answer["values"]}


@pytest.mark.parametrize(("command", "verifier"), [("orca", "orca.scf"), ("g16", "gaussian.scf")])
def test_a_program_that_prints_recorded_output_goes_through_the_host(
    command: str, verifier: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = verifier.split(".")[0]
    does = f"cat {FOLDER}/{program}_water.txt; cp molecule.* {place}"
    fake_programs.put(place / "bin", command, does, monkeypatch)
    answer = calculated(verifier)
    assert answer["outcome"] == "ok", answer
    assert values(answer)["total_energy"] == pytest.approx(-76.275949448 * 27.211386245988, abs=1e-4)
    assert values(answer)["homo_lumo_gap"] == pytest.approx(10.0626, abs=1e-3)
    assert {value["level"] for value in answer["values"]} == {PyscfScf().level.label}
    [given] = place.glob("molecule.*")
    assert "0 1\n" in given.read_text()
    assert calculated(verifier)["reused"]


def test_a_failure_of_the_program_reaches_the_chemist(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    does = f"cat {FOLDER}/orca_scf_not_converged.txt"
    fake_programs.put(place / "bin", "orca", does, monkeypatch)
    answer = calculated("orca.scf")
    assert (answer["outcome"], answer["reason"]) == ("not_converged", "scf_not_converged")
    assert answer["detail"].startswith("ORCA 6.0.1") and not answer["values"]


def test_a_program_that_hangs_dies_with_its_job(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sciagent.chemistry.molecule import parse_molecule
    from sciagent.verification.sandbox.host import Limits, Request, Worker

    fake_programs.put(place / "bin", "orca", f"echo $$ > {place}/pid; exec sleep 600", monkeypatch)
    with Worker(place / "scratch") as worker:
        request = Request("orca.scf", {}, (parse_molecule("O"),), Limits(wall_seconds=4, memory_mb=2000))
        [result] = worker.run(request)
    assert (result.finding.outcome, result.finding.reason) == ("timeout", "wall_limit")
    assert result.versions["orca"] == "6.0.1"
    assert not Path(f"/proc/{(place / 'pid').read_text().strip()}").exists()


@fake_programs.needs_xtb
def test_xtb_itself_has_the_level_and_the_values_of_tblite() -> None:
    program, library = calculated("xtb.program"), calculated("xtb.singlepoint")
    assert program["outcome"] == library["outcome"] == "ok", program
    assert values(program) == pytest.approx(values(library), abs=5e-4)
    assert XtbProgram().level == XtbSinglepoint().level


def test_what_needs_a_missing_program_is_refused_at_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    file = place / "a.yaml"
    file.write_text(CAMPAIGN)
    (place / "seeds.csv").write_text("smiles\nCCO\n")
    for message in (refused("run", str(file)), refused("calc", "orca.scf", "O")):
        assert "(orca.scf): ORCA is not available here" in message and "export SCIAGENT_ORCA=" in message
    assert "needs ORCA, which is not installed" in told("verifiers")
    assert "export SCIAGENT_ORCA=" in told("verifiers", "orca.scf", width=400)
    found = {check["what"]: check for check in data("doctor")}
    assert found["program orca"]["state"] == "absent" and "SCIAGENT_ORCA" in found["program orca"]["detail"]
    assert found["program xtb"]["state"] == ("ok" if shutil.which("xtb") else "absent")
    assert call("status", "with-orca").exit_code in (0, 2)  # the refusal broke nothing


def test_a_worker_without_the_program_leaves_the_job_to_others(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    request = {"settings": {}, "limits": {}}
    about = {"verifier": "orca.scf", "verifier_version": "1", "settings_hash": OrcaScf().settings_hash}
    row = SimpleNamespace(rung_id=1, campaign_id=1, campaign_name="a", request=request, **about)
    with pytest.raises(CannotError, match=r"orca\.scf: ORCA is not available here"):
        Tasks()._task(row)
    fake_programs.put(place / "bin", "orca", "exit 1", monkeypatch)
    assert Tasks()._task(row).verifier.programs == (ORCA,)


@pytest.mark.parametrize(
    ("kind", "settings", "fault"),
    [
        (OrcaScf, {"functional": "PBE0\n%pal"}, "is not one word"),
        (OrcaScf, {"keywords": ["!NoCOSX"]}, "is not one word"),
        (OrcaScf, {"functional": "DLPNO-CCSD(T)"}, "goes beyond the self-consistent field"),
        (OrcaScf, {"functional": "B2PLYP"}, "goes beyond"),
        (OrcaScf, {"functional": "r2SCAN-3c"}, "has its own basis set"),
        (OrcaScf, {"functional": "pbe0"}, 'did you mean "PBE0"'),
        (GaussianScf, {"functional": "MP2"}, "goes beyond"),
        (GaussianScf, {"keywords": ["External=/tmp/script"]}, "hands the calculation over to another program"),
        (GaussianScf, {"functional": "r2SCAN"}, "Gaussian has no r2SCAN"),
        (GaussianScf, {"basis": "def2-SVPD"}, "Gaussian has no def2-SVPD"),
        (GaussianScf, {"dispersion": "d4"}, "Gaussian has no D4"),
        (XtbProgram, {"solvent": "ethanol", "model": "gbsa"}, "GBSA has no parameters"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(kind: Any, settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault.replace("(", r"\(")):
        kind(settings)


def test_the_level_names_all_that_changes_the_numbers() -> None:
    chosen = {"functional": "r2SCAN-3c", "basis": "", "solvent": "water", "keywords": ["NoCOSX"], "optimise": True}
    assert OrcaScf(chosen).level.label == (
        "r2SCAN-3c+SMD NoCOSX(water)//r2SCAN-3c+SMD NoCOSX(water)//GFN2-xTB//ETKDGv3x10"
    )
