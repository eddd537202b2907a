"""Systems have the pairs, cutoffs and corrections that OpenMM itself would give them."""

from __future__ import annotations

import math

import numpy as np
import openmm
import pytest
from openmm import app, unit

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.force_fields.molecule_parameters import MoleculeParameters
from sciagent_simulators.force_fields.openmm_system import Portion, Term, build, excluded_pairs, openmm_water
from sciagent_simulators.force_fields.smirnoff import installed_force_field, parameters_of
from tests.support.force_fields import context_of, energies_of, recorded

RECORDED = recorded("openff")
SAGE = installed_force_field("openff-2.2.1")
EDGE = 2.2


def parameters_for(kind: str) -> MoleculeParameters:
    return parameters_of(RECORDED[kind].molecule, SAGE, RECORDED[kind].charges)


def force_named(system: openmm.System, name: str) -> openmm.Force:
    return next(force for force in system.getForces() if type(force).__name__ == name)


@pytest.mark.parametrize("kind", ["cyclopropane", "cycloalkane", "xanthine", "sulfonamide", "azide"])
def test_pairs_are_excluded_and_scaled_as_openmm_does_from_the_bonds(kind: str) -> None:
    parameters = parameters_for(kind)
    theirs = openmm.NonbondedForce()
    for atom, charge in zip(parameters.atoms, parameters.charges, strict=True):
        theirs.addParticle(charge, atom.sigma, atom.epsilon)
    rules = parameters.rules
    theirs.createExceptionsFromBonds(parameters.bonded_pairs, rules.scale_coulomb, rules.scale_lennard_jones)
    box = build([Portion(parameters, 1)], None)
    ours = force_named(box.system, "NonbondedForce")

    def exceptions(force: openmm.NonbondedForce) -> dict[tuple[int, int], tuple[float, float, float]]:
        found = {}
        for place in range(force.getNumExceptions()):
            i, j, product, sigma, epsilon = force.getExceptionParameters(place)
            number = sigma._value if epsilon._value else 0.0
            found[(min(i, j), max(i, j))] = (product._value, number, epsilon._value)
        return found

    expected = exceptions(theirs)
    found = exceptions(ours)
    assert found.keys() == expected.keys()
    for pair, values in expected.items():
        assert found[pair] == pytest.approx(values, abs=1e-12)
    none, scaled = excluded_pairs(parameters)
    assert none | scaled == expected.keys() and not none & scaled


def test_a_box_has_pme_a_switch_and_the_dispersion_correction() -> None:
    box = build([Portion(parameters_for("alcohol"), 3, "ETH")], EDGE)
    nonbonded = force_named(box.system, "NonbondedForce")
    assert nonbonded.getNonbondedMethod() == openmm.NonbondedForce.PME
    assert nonbonded.getUseDispersionCorrection() and nonbonded.getUseSwitchingFunction()
    assert nonbonded.getCutoffDistance()._value == pytest.approx(0.9)
    assert nonbonded.getSwitchingDistance()._value == pytest.approx(0.8)
    assert box.system.getNumConstraints() == 3 * 6
    assert force_named(box.system, "HarmonicBondForce").getNumBonds() == 3 * 2  # C-C and C-O
    assert [residue.name for residue in box.topology.residues()] == ["ETH"] * 3
    assert box.topology.getNumBonds() == 3 * 8
    assert box.topology.getUnitCellDimensions()[0].value_in_unit(unit.nanometer) == pytest.approx(EDGE)
    assert force_named(box.system, "CMMotionRemover")
    alone = build([Portion(parameters_for("alcohol"), 1)], None)
    assert force_named(alone.system, "NonbondedForce").getNonbondedMethod() == openmm.NonbondedForce.NoCutoff


def test_the_dispersion_correction_is_the_integral_over_the_rest_of_space() -> None:
    """-8 pi N^2 / (3 V) mean(epsilon sigma^6) / rc^3 for a truncated potential, less the repulsive part."""
    parameters = parameters_for("alkane")
    hard = MoleculeParameters(
        **{**vars(parameters), "rules": type(parameters.rules)(0.5, 0.5, cutoff=0.9, switch_width=0.0)}
    )
    box = build([Portion(hard, 2)], EDGE)
    molecule = RECORDED["alkane"].positions / 10
    positions = np.concatenate([molecule, molecule + EDGE / 2])
    nonbonded = force_named(box.system, "NonbondedForce")
    with_correction = energies_of(context_of(box, positions))["nonbonded"]
    nonbonded.setUseDispersionCorrection(False)
    without = energies_of(context_of(box, positions))["nonbonded"]
    sigma = np.array([atom.sigma for atom in hard.atoms * 2])
    epsilon = np.array([atom.epsilon for atom in hard.atoms * 2])
    n = len(sigma)
    upper = np.triu_indices(n)  # OpenMM's mean counts each kind of pair once, an atom with itself included
    mixed = (sigma[:, None] + sigma)[upper] / 2
    strength = np.sqrt(epsilon[:, None] * epsilon)[upper]
    sixth = float(np.mean(strength * mixed**6))
    twelfth = float(np.mean(strength * mixed**12))
    expected = 8 * n**2 * math.pi / EDGE**3 * (twelfth / (9 * 0.9**9) - sixth / (3 * 0.9**3))
    assert with_correction - without == pytest.approx(expected, rel=1e-3)
    assert expected < 0


def test_water_of_openmm_has_the_energies_of_openmms_own_system() -> None:
    water = openmm_water("tip3p.xml", SAGE.rules)
    assert water.charges == (-0.834, 0.417, 0.417)
    positions = np.array([[0, 0, 0], [0.1, 0.01, 0], [-0.02, 0.09, 0.01]])
    topology = app.Topology()
    residue = topology.addResidue("HOH", topology.addChain())
    atoms = [topology.addAtom(f"{e}{k}", app.Element.getBySymbol(e), residue) for k, e in enumerate("OHH")]
    topology.addBond(atoms[0], atoms[1])
    topology.addBond(atoms[0], atoms[2])
    system = app.ForceField("tip3p.xml").createSystem(topology, rigidWater=False, removeCMMotion=False)
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    theirs = context.getState(getEnergy=True).getPotentialEnergy()._value
    ours = energies_of(context_of(build([Portion(water.flexible(), 1)], None), positions))
    assert sum(ours.values()) == pytest.approx(theirs, abs=1e-9) and theirs > 1
    rigid = build([Portion(water, 1)], None).system
    assert rigid.getNumConstraints() == 3
    assert force_named(rigid, "HarmonicBondForce").getNumBonds() == 0
    assert force_named(rigid, "HarmonicAngleForce").getNumAngles() == 0
    with pytest.raises(ValueError, match="extra site"):
        openmm_water("tip4pew.xml", SAGE.rules)


def test_a_solute_in_water_keeps_the_scales_of_its_own_force_field() -> None:
    alone = build([Portion(parameters_for("amide"), 1)], None)
    dissolved = build(
        [Portion(parameters_for("amide"), 1), Portion(openmm_water("tip3p.xml", SAGE.rules), 5, "HOH")], EDGE
    )
    first = force_named(alone.system, "NonbondedForce")
    second = force_named(dissolved.system, "NonbondedForce")
    assert second.getNumExceptions() == first.getNumExceptions() + 5 * 3
    assert dissolved.system.getNumParticles() == 12 + 15
    assert {force.getForceGroup() for force in alone.system.getForces()} == {int(term) for term in Term}


def test_boxes_that_are_too_small_or_too_large_are_refused() -> None:
    alcohol = parameters_for("alcohol")
    for number, edge, reason in ((2, 1.7, Reason.TOO_SMALL), (20_000, 9.0, Reason.TOO_LARGE)):
        with pytest.raises(SimulatorError) as caught:
            build([Portion(alcohol, number)], edge)
        assert (caught.value.outcome, caught.value.reason) == (Outcome.REFUSED, reason)
    with pytest.raises(ValueError, match="need a box"):
        build([Portion(alcohol, 2)], None)
    with pytest.raises(ValueError, match="no molecules"):
        build([], EDGE)
    with pytest.raises(ValueError, match="residue name"):
        Portion(alcohol, 1, "TOO LONG")
    with pytest.raises(ValueError, match="0 molecules"):
        Portion(alcohol, 0)
