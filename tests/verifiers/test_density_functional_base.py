"""A calculation that has no ground state is told as unstable; what cannot be one is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Outcome, Reason
from sciagent_verifiers.high_fidelity.density_functional_base import DensityFunctionalSettings
from sciagent_verifiers.high_fidelity.pyscf_ip_ea import PyscfIpEa
from sciagent_verifiers.high_fidelity.pyscf_orbitals_dipole_energy import PyscfScf
from sciagent_verifiers.high_fidelity.pyscf_solvation import PyscfSolvation
from sciagent_verifiers.high_fidelity.pyscf_tda import PyscfTda
from sciagent_verifiers.high_fidelity.pyscf_thermo import PyscfThermo
from tests.verifiers.ground_states import QUICK, context, finding, values

__all__ = ["context"]


@pytest.mark.parametrize(
    ("smiles", "multiplicity", "reason"),
    [
        ("O=O", 1, Reason.TRIPLET_GROUND_STATE),
        ("N=O", None, Reason.SCF_UNSTABLE),
        ("[OH-]", None, Reason.ANION_UNBOUND),
    ],
)
def test_what_is_no_ground_state_is_unstable_with_its_reason(context, smiles, multiplicity, reason):
    found = finding(smiles, context, QUICK, multiplicity)
    assert (found.outcome, found.reason) == (Outcome.UNSTABLE, reason)
    assert found.detail and found.diagnostics and found.measured == ()


@pytest.mark.parametrize(
    ("smiles", "multiplicity", "settings", "reason"),
    [
        ("CCCC", 1, {"max_atoms": 13}, Reason.TOO_LARGE),
        ("Cl[Ce](Cl)Cl", 2, {}, Reason.ELEMENT),
        ("F[U](F)(F)F", 3, {}, Reason.ELEMENT),
    ],
)
def test_refusals(smiles, multiplicity, settings, reason):
    refused = PyscfScf(settings).accepts(parse_molecule(smiles, multiplicity=multiplicity))
    assert refused is not None and refused.reason is reason


def test_a_spin_that_does_not_fit_never_becomes_a_calculation(context):
    molecule = parse_molecule("[H+]", multiplicity=1)
    refused = PyscfScf().accepts(molecule)
    assert refused is not None and refused.reason is Reason.MULTIPLICITY


@pytest.mark.parametrize(
    "functional",
    [
        "B3LYP",
        "CAM-B3LYP",
        "M06-2X",
        "TPSSh",
        "r2SCAN0",
        "PBE",
        "BLYP",
        "BP86",
        "HF",
        "r2SCAN",
        "wB97X-V",
        "wB97M-V",
        "r2SCAN-3c",
        "wB97X-3c",
    ],
)
def test_every_functional_on_the_list_runs(context, functional):
    found = finding("[HH]", context, QUICK | {"functional": functional, "spin_check": "off"})
    assert found.outcome is Outcome.OK
    assert values(found)["total_energy"] == pytest.approx(-31.96, abs=1.5)  # H2: -1.1745 hartree, exactly


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({"functional": "wB97X-V", "basis": "def2-TZVPD"}, "wB97X-V/def2-TZVPD//GFN2-xTB//ETKDGv3x10"),
        ({"functional": "ωB97M-V", "basis": "def2-TZVP"}, "wB97M-V/def2-TZVP//GFN2-xTB//ETKDGv3x10"),
        ({"functional": "r2SCAN-3c"}, "r2SCAN-3c//GFN2-xTB//ETKDGv3x10"),
        ({"functional": "r²SCAN-3c", "basis": "", "solvent": "water"}, "r2SCAN-3c+SMD(water)//GFN2-xTB//ETKDGv3x10"),
        ({"functional": "wB97X-3c", "optimise": True}, "wB97X-3c//wB97X-3c//GFN2-xTB//ETKDGv3x10"),
    ],
)
def test_levels_are_written_as_chemists_write_them(settings, label):
    assert DensityFunctionalSettings.model_validate(settings).level.label == label


@pytest.mark.parametrize(
    ("verifier", "settings", "says"),
    [
        (PyscfScf, {"functional": "r2SCAN-3c", "basis": "def2-TZVP"}, "own basis set, def2-mTZVPP; leave basis out"),
        (PyscfScf, {"functional": "wB97X-3c", "dispersion": "d4"}, "own dispersion; leave dispersion out"),
        (PyscfScf, {"functional": "wB97M-V", "dispersion": "d3bj"}, "own dispersion; leave dispersion out"),
        (PyscfScf, {"functional": "BHandHLYP", "dispersion": "d4"}, "has no parameters of d4"),
        (PyscfScf, {"basis": ""}, "PBE0 needs a basis set"),
        (PyscfIpEa, {"functional": "r2SCAN-3c"}, "def2-mTZVPP has no diffuse functions"),
        (PyscfTda, {"functional": "wB97X-V"}, "lack the response of VV10"),
    ],
)
def test_wrong_methods_say_what_is_right(verifier, settings, says):
    with pytest.raises(ValidationError, match=says):
        verifier(settings)


@pytest.mark.parametrize("verifier", [PyscfScf, PyscfThermo, PyscfTda])
def test_diffuse_functions_suit_anions_and_are_not_put_on_a_composite_method(verifier):
    assert verifier().defaults_for([0, 1]) == verifier().defaults_for([]) == {}
    assert verifier().defaults_for([-1, 0]) == {"basis": "def2-SVPD"}
    assert verifier({"basis": "def2-TZVPD"}).defaults_for([-1]) == {}
    assert verifier({"functional": "r2SCAN-3c"}).defaults_for([-1]) == {}


def test_electron_affinities_and_solvation_energies_have_diffuse_functions_by_default():
    assert PyscfIpEa().settings.basis == PyscfSolvation().settings.basis == "def2-SVPD"


def test_the_hashes_of_settings_from_before_these_methods_stand():
    """Evidence of earlier releases is found under these hashes."""
    assert PyscfScf().settings_hash == "0f9aa9b6c641e4a9cb16d0694cc71bda59cb932cb0d0e04014d083dc512b73c4"
    assert (
        PyscfSolvation({"basis": "def2-SVP"}).settings_hash
        == "e62fe61394cea7b4c4b69c77309512ee14a38231db54a5bdf17b9b6dc0b3cfd4"
    )
    assert PyscfIpEa().settings_hash == "cc5a448eb9a960b82b4d555df152ea3cb8e75ee59072ed4e20306211895d22a7"


def test_non_local_correlation_costs_more_and_most_on_fine_grids():
    benzene = parse_molecule("c1ccccc1")
    plain, vv10, fine = (
        PyscfScf({"functional": name, "grid": grid}).cost(benzene)["core_seconds"]
        for name, grid in (("wB97X", 3), ("wB97X-V", 3), ("wB97X-V", 5))
    )
    assert 1.2 * plain < vv10 < fine / 5
    thermo = [PyscfThermo({"functional": name}).cost(benzene)["core_seconds"] for name in ("wB97X", "wB97X-V")]
    assert thermo[1] > 3 * thermo[0]
