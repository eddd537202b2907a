"""Starting geometries: embedding, force fields, and the seeds that make them repeatable."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from sciagent.errors import SimulatorError
from sciagent_simulators.starting_geometry import GeometryProtocol, embed, prepare


def test_the_same_seed_gives_the_same_geometry_and_another_seed_a_rotated_one():
    first, again = (embed("CCO", 0, 1, 5, seed=11)[0][0] for _ in range(2))
    assert np.array_equal(first.positions, again.positions)
    assert not np.allclose(first.positions, embed("CCO", 0, 1, 5, seed=12)[0][0].positions)


def test_conformers_come_lowest_first():
    geometries, told, energies = embed("CCCO", 0, 1, 6, seed=3)
    assert len(geometries) == told["conformers"] == 6
    assert told["force_field"] == "MMFF94"
    assert list(energies) == sorted(energies) and energies[0] == told["force_field_energy"]


def test_a_molecule_outside_mmff94_falls_back_to_uff():
    assert embed("B", 0, 1, 1, seed=1)[1]["force_field"] == "UFF"


def test_cyclopropyne_cannot_be_embedded():
    with pytest.raises(SimulatorError) as caught:
        embed("C1C#C1", 0, 1, 2, seed=1)
    assert caught.value.reason == "embedding_failed"


def test_force_field_geometry_of_ethane_has_the_bond_length_of_mmff94():
    """Its reference length is 1.508 angstrom (Halgren 1996, CR-CR); the strain of six hydrogens adds little."""
    geometry = embed("CC", 0, 1, 1, seed=1)[0][0]
    assert np.linalg.norm(geometry.positions[0] - geometry.positions[1]) == pytest.approx(1.52, abs=0.02)


@pytest.mark.parametrize(
    "smiles",
    ["C12CC(C1)C2", "[SiH2]1O[SiH2]O1", "C12C3C4C1C5C2C3C45", "CI", "O=C(O)C(O)=O"],
    ids=["bicyclopentane", "cyclodisiloxane", "cubane", "iodomethane", "oxalic acid"],
)
def test_strained_and_crowded_molecules_keep_their_bonds(smiles):
    prepare(smiles, 0, 1, GeometryProtocol(conformers=2), seed=1)


def test_glycine_zwitterion_is_no_molecule_of_the_gas_phase():
    """In vacuum the proton goes from nitrogen to the carboxylate without a barrier."""
    with pytest.raises(SimulatorError) as caught:
        prepare("[NH3+]CC(=O)[O-]", 0, 1, GeometryProtocol(conformers=2), seed=1)
    assert (caught.value.outcome, caught.value.reason) == ("unstable", "bond_changed")


def test_seed_comes_from_candidate_protocol_and_replicate_alone():
    protocol = GeometryProtocol()
    assert protocol.seed("a") == GeometryProtocol(conformers=10).seed("a")
    assert (
        len({protocol.seed("a"), protocol.seed("b"), protocol.seed("a", 1), GeometryProtocol(conformers=9).seed("a")})
        == 4
    )
    assert protocol.label == "GFN2-xTB//ETKDGv3x10"


def test_a_protocol_that_names_no_solvent_keeps_the_seed_it_had_before_there_were_any():
    """Seeds and settings hashes stand behind evidence in ledgers."""
    assert GeometryProtocol().seed("a") == 1101469696
    assert GeometryProtocol().model_dump(mode="json") == {"method": "gfn2", "conformers": 10}
    in_water = GeometryProtocol(solvent="water")
    assert in_water.seed("a") != GeometryProtocol().seed("a")
    assert in_water.label == "GFN2-xTB(water)//ETKDGv3x10"


def test_a_force_field_has_no_solvent():
    with pytest.raises(ValidationError, match="with a solvent use method: gfn2"):
        GeometryProtocol(method="mmff94", solvent="water")
