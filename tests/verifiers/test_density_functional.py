"""A calculation that has no ground state is told as unstable; what cannot be one is refused."""

from __future__ import annotations

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.contract import Outcome, Reason
from sciagent_verifiers.high_fidelity.pyscf_scf import PyscfScf
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
    "functional", ["B3LYP", "CAM-B3LYP", "M06-2X", "TPSSh", "r2SCAN0", "PBE", "BLYP", "BP86", "HF"]
)
def test_every_functional_on_the_list_runs(context, functional):
    found = finding("[HH]", context, QUICK | {"functional": functional, "spin_check": "off"})
    assert found.outcome is Outcome.OK
    assert values(found)["total_energy"] == pytest.approx(-31.96, abs=1.5)  # H2: -1.1745 hartree, exactly
