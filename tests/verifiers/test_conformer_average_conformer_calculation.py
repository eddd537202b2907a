"""Averages over real conformers: weights by hand, rigid molecules, settings and hashes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent_simulators.low_conformers_and_search_spread import low_conformers
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import DftSettings, single_point
from sciagent_simulators.starting_geometry import GeometryProtocol
from sciagent_verifiers.high_fidelity.pyscf_ip_ea import PyscfIpEa
from sciagent_verifiers.high_fidelity.pyscf_orbitals_dipole_energy import PyscfScf
from sciagent_verifiers.high_fidelity.pyscf_solvation import PyscfSolvation
from sciagent_verifiers.high_fidelity.pyscf_tda import PyscfTda
from sciagent_verifiers.high_fidelity.pyscf_thermo import PyscfThermo
from tests.verifiers.ground_states import context, finding, values

__all__ = ["context"]

HF = {"functional": "HF", "spin_check": "off"}
KT = 8.617333262e-5 * 298.15


def test_the_average_of_difluoroethane_is_the_one_by_hand(context):
    """Anti has one well and no dipole, gauche has two and 2.9 D: Hartree-Fock energies decide their weights."""
    found = finding("FCCF", context, HF | {"average": "boltzmann"})
    assert found.outcome is Outcome.OK and found.detail == ""
    molecule = parse_molecule("FCCF")
    protocol = GeometryProtocol()
    low, _ = low_conformers(molecule.mol, 0, 1, protocol, protocol.seed(molecule.key), 5)
    engine = DftSettings(functional="hf", spin_check="off")
    anti, gauche = sorted((single_point(one, engine) for one in low.geometries), key=lambda result: result.dipole)
    assert anti.dipole < 0.1 < 2.5 < gauche.dipole
    ratio = 2 * np.exp(-(gauche.energy - anti.energy) / KT)
    share = ratio / (1 + ratio)
    got = values(found)
    assert got["total_energy"] == pytest.approx((1 - share) * anti.energy + share * gauche.energy, abs=1e-5)
    assert got["homo"] == pytest.approx((1 - share) * anti.homo + share * gauche.homo, abs=1e-4)
    assert got["dipole"] == pytest.approx((share * gauche.dipole**2 + (1 - share) * anti.dipole**2) ** 0.5, abs=1e-3)
    table = found.diagnostics["average"]["conformers"]
    assert sum(row["weight"] for row in table) == pytest.approx(1, abs=1e-3)
    assert {row["wells"]: row["weight"] for row in table}[2.0] == pytest.approx(share, abs=1e-3)
    assert sum(row["found"] for row in table) == 10
    assert set(found.diagnostics["uncertainty_kind"].values()) == {"molecule"}
    assert found.measured[0].level.geometry == "GFN2-xTB//ETKDGv3x10, ensemble of 5 at 298.15 K"
    assert Path(found.artifacts[-1].path).read_text().count("weight=") == 2


def test_a_rigid_molecule_has_the_plain_value(context):
    plain, average = (finding("O", context, HF | extra) for extra in ({}, {"average": "boltzmann"}))
    assert values(average) == pytest.approx(values(plain), abs=1e-6)
    assert [m.quantity.uncertainty for m in average.measured] == [m.quantity.uncertainty for m in plain.measured]


@pytest.mark.parametrize("verifier", [PyscfScf, PyscfIpEa, PyscfTda, PyscfSolvation, PyscfThermo])
def test_every_rung_of_pyscf_has_the_setting_and_its_old_evidence_keeps_its_keys(verifier):
    plain, average = verifier(), verifier({"average": "boltzmann"})
    assert "average" not in plain.settings.model_dump(mode="json")
    assert plain.settings_hash != average.settings_hash
    assert plain.measures[0].level != average.measures[0].level
    flexible, rigid = parse_molecule("FCCF"), parse_molecule("O")
    assert average.cost(flexible)["core_seconds"] == pytest.approx(5 * plain.cost(flexible)["core_seconds"])
    assert average.cost(rigid)["core_seconds"] == plain.cost(rigid)["core_seconds"]


def test_settings_that_do_not_fit_are_refused():
    for wrong, why in (
        ({"average_conformers": 3}, "no effect"),
        ({"average": "boltzmann", "geometry": {"method": "mmff94"}}, "gfn2"),
        ({"average": "boltzmann", "geometry": {"conformers": 1}}, "nothing to average"),
        ({"average": "bolzmann"}, "boltzmann"),
    ):
        with pytest.raises(ValidationError, match=why):
            PyscfScf(wrong)


def test_open_stereocentres_of_diastereomers_are_refused():
    refused = PyscfScf({"average": "boltzmann"}).accepts(parse_molecule("CC(F)C(C)Cl"))
    assert refused is not None and refused.reason is Reason.UNDEFINED_STEREO
