"""Averages of given values over the conformers of butane, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rdkit import Chem

from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.verification.verifier_contract import Finding, Level
from sciagent_simulators.low_conformers_and_search_spread import low_conformers
from sciagent_simulators.starting_geometry import GeometryProtocol
from sciagent_verifiers.high_fidelity.conformer_average import ComputedConformer, conformer_average

KT = 8.617333262e-5 * 298.15
LEVEL = Level("PBE0", "def2-SVP", "gas", "any")


def computed(*energies: float, found: tuple[int, ...] = (5, 5), prop: str = "gibbs_free_energy", **quantity):
    """Returns conformers of butane with these energies, eV, as values of a property."""
    mol = Chem.MolFromSmiles("CCCC")
    low, _ = low_conformers(mol, 0, 1, GeometryProtocol(conformers=20), 1, 5)
    rows = [Measured(prop, LEVEL, Quantity(e, "eV", 0.001, **quantity)) for e in energies]
    findings = [Finding("butane", Outcome.OK, (row,)) for row in rows]
    parts = zip(low.geometries, findings, energies, found, strict=True)
    return mol, [ComputedConformer(*part) for part in parts]


def test_free_energies_make_the_free_energy_of_the_ensemble():
    mol, both = computed(-5.0, -4.97)
    (row,) = conformer_average(mol, both, 10, 298.15, rotations_counted=True).rows
    assert row.quantity.value == pytest.approx(-5.0 - KT * np.log(1 + 2 * np.exp(-0.03 / KT)))


def test_a_conformer_that_was_found_once_widens_the_uncertainty():
    mol, both = computed(-5.0, -5.0, found=(9, 1))
    (row,) = conformer_average(mol, both, 10, 298.15, rotations_counted=True).rows
    missing = 0.9**10
    width = KT * np.log(3) * (missing * (1 - missing)) ** 0.5
    assert row.quantity.uncertainty == pytest.approx(np.hypot(0.001, width), rel=1e-3)


def test_a_censored_value_makes_the_average_a_limit():
    mol, both = computed(1.0, 1.0, prop="vertical_electron_affinity")
    bound = both[0].finding.measured[0]
    limit = Quantity(0.0, "eV", None, Censoring.BELOW)
    both[0] = replace(both[0], finding=replace(both[0].finding, measured=(replace(bound, quantity=limit),)))
    (row,) = conformer_average(mol, both, 10, 298.15, rotations_counted=False).rows
    assert row.quantity.censoring is Censoring.BELOW and row.quantity.value == pytest.approx(2 / 3)


def test_a_value_that_one_conformer_lacks_is_left_out_and_named():
    mol, both = computed(1.0, 1.1)
    both[1] = replace(both[1], finding=replace(both[1].finding, measured=()))
    average = conformer_average(mol, both, 10, 298.15, rotations_counted=True)
    assert average.rows == () and average.note == "not every conformer has gibbs_free_energy"


def test_conformers_that_became_one_count_once():
    mol, both = computed(1.0, 1.001)
    same = [both[0], replace(both[1], geometry=both[0].geometry)]
    average = conformer_average(mol, same, 10, 298.15, rotations_counted=True)
    assert average.diagnostics["conformers"] == [{"weight": 1.0, "relative_kcal_mol": 0.0, "wells": 1.0, "found": 10}]
