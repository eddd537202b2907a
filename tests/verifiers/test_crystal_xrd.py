"""`crystal.xrd` ranks crystals by their powder patterns, and names what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.series import MEDIA_TYPE, read_series
from sciagent.errors import SimulatorError
from sciagent.verification.sandbox.host import Request, Worker
from sciagent.verification.verifier_contract import Context, Finding
from sciagent_simulators.powder.powder_fit import ProfileParameters, peaks_of, rendered
from sciagent_simulators.powder.reflections_and_spectral_lines import lines_of, reflections_of
from sciagent_verifiers.fast.crystal_xrd import CrystalXrd

GRID = np.arange(15.0, 90.0, 0.02)


def salt(cation: str, anion: str, a: float) -> Crystal:
    """Returns rock salt with the edge a of its cubic cell, Å."""
    structure = read_crystal(f"rocksalt: {cation} {anion}").structure
    return crystal_from_structure(structure.scale_lattice(a**3 * len(structure) / 8))


HALITE, SYLVITE, PERICLASE = salt("Na", "Cl", 5.6402), salt("K", "Cl", 6.2931), salt("Mg", "O", 4.2112)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the pattern of rock salt whose cell is 1 % larger."""
    reflections = reflections_of(HALITE.structure, 1.5405929, 10, 95)
    peaks = peaks_of(reflections, lines_of("CuKa"), ProfileParameters(1.01, -0.03, 0.12, 0.06, 0.4, 1.0))
    signal = rendered(GRID, peaks, 0.4)
    counts = np.random.default_rng(5).poisson(3000 * signal / signal.max() + 150)
    np.savetxt(tmp_path / "salt.xy", np.column_stack([GRID, counts]), fmt="%.2f %d")
    return tmp_path


def verifier(folder: Path, **settings: Any) -> CrystalXrd:
    return CrystalXrd({"pattern": "salt.xy", "wavelength": "CuKa", **settings}, folder)


def look(folder: Path, crystal: Any, **settings: Any) -> Finding:
    [finding] = verifier(folder, **settings).verify([crystal], Context(folder, folder))
    return finding


def value(finding: Finding, name: str) -> float:
    return next(m.quantity.value for m in finding.measured if m.property == name)


def test_the_crystal_of_the_powder_matches_and_others_do_not(folder: Path) -> None:
    found = {crystal.formula: look(folder, crystal) for crystal in (HALITE, SYLVITE, PERICLASE)}
    matches = {formula: value(finding, "xrd_match") for formula, finding in found.items()}
    assert matches["NaCl"] > 0.99 and max(matches["KCl"], matches["MgO"]) < 0.5
    assert value(found["NaCl"], "xrd_rwp") < 0.4 < value(found["KCl"], "xrd_rwp")
    assert value(found["NaCl"], "xrd_unexplained") < 0.03 < value(found["KCl"], "xrd_unexplained")
    assert found["NaCl"].diagnostics["cell"] == pytest.approx(1.01, abs=5e-4)


def test_the_fitted_pattern_is_a_series(folder: Path) -> None:
    [file] = look(folder, HALITE).artifacts
    assert file.media_type == MEDIA_TYPE
    series = read_series(Path(file.path).read_bytes())
    assert series.title == "NaCl against salt.xy"
    assert series.column("measured").values[:3] == [float(x) for x in np.loadtxt(folder / "salt.xy")[:3, 1]]
    assert 27 < series.column("reflections").values[0] < 27.3


def test_in_the_host_it_says_the_same(folder: Path) -> None:
    own = verifier(folder)
    batch = (HALITE, SYLVITE)
    with Worker(folder / "scratch", preload=[own.name]) as worker:
        results = list(worker.run(Request(own.name, own.request_settings, batch)))
    assert [r.finding.outcome for r in results] == [Outcome.OK, Outcome.OK], [r.finding.detail for r in results]
    for result, crystal in zip(results, batch, strict=True):
        own_measured = look(folder, crystal).measured
        assert [(m.property, m.level) for m in result.finding.measured] == [(m.property, m.level) for m in own_measured]
        found = [m.quantity.value for m in result.finding.measured]
        assert found == pytest.approx([m.quantity.value for m in own_measured], rel=1e-6)
        assert "pymatgen-core" in result.versions


def test_levels_of_other_files_and_radiations_differ(folder: Path) -> None:
    level = verifier(folder).level
    assert level.label == f"kinematic XRD CuKa to salt.xy {verifier(folder).settings.pattern.sha256[:8]}"
    narrow = verifier(folder, two_theta_min=20.5, cell_tolerance=0.01).level
    assert narrow.conditions == "from 20.5, cell within 0.01"
    with (folder / "salt.xy").open("a") as file:
        file.write("90.0 5\n")
    assert len({level, verifier(folder).level, verifier(folder, wavelength=1.54).level}) == 3


def test_what_is_no_crystal_or_too_large_is_refused(folder: Path) -> None:
    assert look(folder, parse_molecule("CCO")).reason is Reason.WRONG_KIND
    assert look(folder, HALITE, max_sites=1).reason is Reason.TOO_LARGE


def test_a_crystal_without_a_reflection_in_the_range_matches_nothing(folder: Path) -> None:
    found = look(folder, HALITE, two_theta_min=15, two_theta_max=20.5)
    assert (value(found, "xrd_match"), value(found, "xrd_unexplained")) == (0.0, 1.0)
    assert found.artifacts == () and "no reflection" in found.detail


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"pattern": "gone.xy"}, "does not exist"),
        ({"pattern": "notes.pdf"}, "is no powder pattern"),
        ({"wavelength": "UKa"}, "CuKa1"),
        ({"wavelength": 0.0}, "greater than or equal to 0.1"),
        ({"two_theta_min": 30, "two_theta_max": 32}, "at least 5 degrees above"),
        ({"two_theta_min": 95}, "two_theta_min and two_theta_max: the pattern has 0 points from 95 to 89.98 degrees"),
        ({"cell_tolerance": 0.5}, "less than or equal to 0.05"),
    ],
)
def test_wrong_settings_are_refused(folder: Path, settings: dict[str, Any], fault: str) -> None:
    (folder / "notes.pdf").write_bytes(b"%PDF")
    with pytest.raises(ValidationError, match=fault):
        verifier(folder, **settings)


@pytest.mark.parametrize(
    ("text", "fault"),
    [("no numbers", "salt.xy: no line with two numbers"), ("1 2\n2 x", "salt.xy:2"), ("\0", "no text")],
)
def test_a_garbage_file_is_named_when_the_campaign_is_read(folder: Path, text: str, fault: str) -> None:
    (folder / "salt.xy").write_text(text)
    with pytest.raises(ValidationError, match=fault):
        verifier(folder)


def test_a_file_that_changes_meanwhile_is_not_used(folder: Path) -> None:
    own = verifier(folder)
    (folder / "salt.xy").write_text((folder / "salt.xy").read_text() + "95.0 5\n")
    with pytest.raises(SimulatorError):
        own.prepare()
    [finding] = own.verify([HALITE], Context(folder, folder))
    assert finding.outcome is Outcome.BAD_ENVIRONMENT
    assert finding.reason is Reason.REFERENCE_FILE and "is not what it was" in finding.detail


def test_diagnostics_are_json(folder: Path) -> None:
    assert json.loads(json.dumps(look(folder, PERICLASE).diagnostics))["reflections"] > 3


def test_a_pattern_that_is_worse_than_none_fails_a_gate(folder: Path) -> None:
    assert verifier(folder).gates == {"xrd_rwp": (None, 1.0)}
