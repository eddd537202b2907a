"""Against xtb 6.5.1 (`xtb FILE --ohess vtight`), whose quasi-harmonic scheme is the same, and observed frequencies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context, Outcome
from sciagent_verifiers.simulation.xtb_thermo import FLEXIBLE, XtbThermo
from tests.support.fundamentals import AMMONIA, BENZENE, WATER

HARTREE = 27.211386245988
# TOTAL FREE ENERGY, TOTAL ENTHALPY and zero point energy, hartree
XTB = {
    "O": (-5.068036205286, -5.046636932150, 0.020126503660),
    "N": (-4.410715366884, -4.388896237556, 0.033544663038),
    "c1ccccc1": (-15.807338987418, -15.776592445492, 0.097513915086),
}
# fundamentals, cm^-1; largest mean and single difference that GFN2-xTB may have
OBSERVED = {
    "O": (WATER, 60, 110),
    "N": (AMMONIA, 75, 215),  # the inversion, 950, is 211 too high
    "c1ccccc1": (BENZENE, 30, 60),
}


@pytest.fixture
def context(tmp_path) -> Context:
    return Context(scratch=tmp_path, checkpoint=tmp_path)


def values(smiles, context, settings=None):
    found = next(iter(XtbThermo(settings).verify([parse_molecule(smiles)], context)))
    assert found.outcome is Outcome.OK, found.detail
    return {m.property: m.quantity.value for m in found.measured}, found


@pytest.mark.parametrize("smiles", XTB)
def test_free_energies_are_those_of_the_program_xtb(smiles, context):
    """Within 0.002 eV: xtb has the two lowest modes of benzene at 353 and 373 cm^-1; by symmetry they are equal."""
    found, _ = values(smiles, context)
    expected = [HARTREE * energy for energy in XTB[smiles]]
    got = [found[name] for name in ("gibbs_free_energy", "enthalpy", "zero_point_energy")]
    assert got == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize("smiles", OBSERVED)
def test_frequencies_are_the_observed_ones(smiles, context):
    """Mode by mode in ascending order; 28 cm^-1 on average for benzene, 57 at most."""
    observed, mean, largest = OBSERVED[smiles]
    _, whole = values(smiles, context)
    differences = np.abs(np.array(whole.diagnostics["frequencies"]) - observed)
    assert differences.mean() < mean and differences.max() < largest


def test_a_finding_has_levels_files_and_frequencies(context):
    found, whole = values("CO", context, {"solvent": "water"})
    assert found["lowest_frequency"] == pytest.approx(min(whole.diagnostics["frequencies"]), abs=0.01)
    assert len(whole.diagnostics["frequencies"]) == 12
    assert {m.level.label for m in whole.measured} == {
        "GFN2-xTB+ALPB harmonic (298.15 K, 1 mol/L)(water)//GFN2-xTB(water)//ETKDGv3x10",
        "GFN2-xTB+ALPB harmonic(water)//GFN2-xTB(water)//ETKDGv3x10",
    }
    assert {m.quantity.unit for m in whole.measured} == {"eV", "cm^-1"}
    assert [a.name.partition("-")[2] for a in whole.artifacts] == ["", "frequencies.csv"]


def test_an_atom_has_no_frequency(context):
    found, _ = values("[Ne]", context)
    assert "lowest_frequency" not in found and found["zero_point_energy"] == 0


def test_a_higher_temperature_lowers_the_free_energy(context):
    low, high = (values("N", context, {"temperature": t})[0]["gibbs_free_energy"] for t in (298.15, 500))
    assert low - high > 0.4  # S is about 2 meV/K


def test_settings_that_do_not_fit_are_refused():
    for wrong in (
        {"solvent": "aqua regia"},
        {"solvent": "water", "pressure": 2},
        {"geometry": {"method": "mmff94"}},
        {"geometry": {"solvent": "water"}},
    ):
        with pytest.raises(ValidationError):
            XtbThermo(wrong)


def test_an_ion_has_its_own_level_charge_and_spin(context):
    """The difference is the adiabatic ionisation energy of furan, 8.88 eV (NIST Chemistry WebBook), plus xtb's shift of
    4.85 eV; GFN2-xTB is not made for it."""
    neutral, _ = values("c1ccoc1", context)
    cation, whole = values("c1ccoc1", context, {"ion": "cation"})
    assert cation["gibbs_free_energy"] - neutral["gibbs_free_energy"] - 4.8455 == pytest.approx(8.88, abs=0.6)
    assert whole.measured[0].level.method.startswith("GFN2-xTB cation harmonic")
    assert "charge=1 multiplicity=2" in Path(whole.artifacts[0].path).read_text()
    assert "ion" not in XtbThermo().settings.model_dump(mode="json")


def test_acetone_is_led_away_from_the_saddle_point_of_its_symmetric_start(context):
    """The program xtb gives 62.8i cm^-1 for the symmetric geometry. From there, displaced by 0.3 angstrom along the
    mode, it gives 92 cm^-1 for the lowest mode of the minimum, and this enthalpy. (Its free energy has the free rotor
    below 50 cm^-1, not 100.)"""
    found, whole = values("CC(C)=O", context)
    again, _ = values("CC(C)=O", context)
    assert "displaced both ways along 62i cm^-1" in whole.detail and found == again
    assert found["lowest_frequency"] == pytest.approx(92, abs=12)
    assert found["enthalpy"] == pytest.approx(-13.445516237170 * HARTREE, abs=0.002)
    _, symmetric = values("CC(C)=O", context, {"imaginary_limit": 63})
    assert symmetric.diagnostics["electronic_energy"] - whole.diagnostics["electronic_energy"] > 0.0005


def test_a_soft_mode_widens_the_uncertainties(context):
    """Tetrahydrofuran's lowest mode comes out between 10 and 16 cm^-1 (benchmarks/soft_modes), its free energy within
    0.5 kJ/mol."""
    _, whole = values("C1CCOC1", context)
    stated = {m.property: m.quantity.uncertainty for m in whole.measured}
    of_class = {prop.name: width for prop, width in FLEXIBLE.items()}  # the ring flips
    added = {name: np.sqrt(stated[name] ** 2 - of_class[name] ** 2) for name in stated}
    assert 5 < added["lowest_frequency"] < 10
    assert 0.5 < added["gibbs_free_energy"] * 96.485 < 1.0
    assert stated["enthalpy"] == pytest.approx(of_class["enthalpy"], abs=1e-4)
