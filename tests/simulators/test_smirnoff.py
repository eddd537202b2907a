"""OpenFF's files are read as OpenFF's own toolkit reads them, and files with anything else in them are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from rdkit import Chem

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent_simulators.force_fields.smirnoff import (
    installed_force_field,
    labels_of,
    library_charges,
    mdl_aromatic,
    parameters_of,
    read_force_field,
)
from tests.support.force_fields import alone, recorded

SAGE = installed_force_field("openff-2.2.1")
UNCONSTRAINED = installed_force_field("openff_unconstrained-2.2.1")
RECORDED = recorded("openff")
FEW = ("alcohol", "sulfonamide", "phosphate ester", "azide", "cyclopropane")
SOURCE = Path(str(files("openforcefields"))) / "offxml" / "openff-2.2.1.offxml"


def ends_sorted(atoms: list[int]) -> tuple[int, ...]:
    return min(tuple(atoms), tuple(reversed(atoms)))


def around_centre(atoms: list[int]) -> tuple[int, ...]:
    return (atoms[1], *sorted((atoms[0], atoms[2], atoms[3])))


def molecule_of(smiles: str) -> Chem.Mol:
    return Chem.AddHs(Chem.MolFromSmiles(smiles))


def changed(tmp_path: Path, change: Callable[[str], str]) -> Path:
    text = SOURCE.read_text(encoding="utf-8")
    new_text = change(text)
    assert new_text != text
    file = tmp_path / "other.offxml"
    file.write_text(new_text, encoding="utf-8")
    return file


def test_every_label_is_that_of_the_openff_toolkit() -> None:
    """49 molecules, 3548 labels of toolkit 0.18.0, none different."""
    n_labels = 0
    for each in RECORDED.values():
        free = labels_of(each.molecule, UNCONSTRAINED)
        fixed = labels_of(each.molecule, SAGE)
        sections = {
            "vdW": (free.atoms, ends_sorted),
            "Bonds": (free.bonds, ends_sorted),
            "Angles": (free.angles, ends_sorted),
            "ProperTorsions": (free.propers, ends_sorted),
            "ImproperTorsions": (free.impropers, around_centre),
            "Constraints": (fixed.constraints, ends_sorted),
        }
        for section, (ours, key) in sections.items():
            theirs = {key(atoms): label for *atoms, label in each.labels[section]}
            assert {atoms: row.label for atoms, row in ours.items()} == theirs, (each.kind, section)
            n_labels += len(theirs)
    assert (len(RECORDED), n_labels) == (49, 3548)


def assert_energies_of_interchange(kind: str) -> None:
    each = RECORDED[kind]
    parameters = parameters_of(each.molecule, UNCONSTRAINED, each.charges)
    assert alone(parameters, each.positions) == pytest.approx(each.energies, abs=1e-9), kind


@pytest.mark.parametrize("kind", FEW)
def test_energies_of_each_term_are_those_of_openff_interchange(kind: str) -> None:
    """kJ/mol, at distorted geometries; Interchange 0.5.3. Differences up to 4e-13 are seen."""
    assert_energies_of_interchange(kind)


@pytest.mark.long
def test_energies_of_all_molecules_are_those_of_openff_interchange() -> None:
    for kind in RECORDED:
        assert_energies_of_interchange(kind)


def test_aromaticity_is_that_of_mdl_which_has_no_aromatic_furan() -> None:
    furan = Chem.MolFromSmiles("c1ccoc1")
    assert all(atom.GetIsAromatic() for atom in furan.GetAtoms())
    assert not any(atom.GetIsAromatic() for atom in mdl_aromatic(furan).GetAtoms())
    assert all(atom.GetIsAromatic() for atom in mdl_aromatic(Chem.MolFromSmiles("c1ccccc1")).GetAtoms())


@pytest.mark.parametrize(
    ("smiles", "term"), [("C[Si](C)(C)C", "atom Si1"), ("CB(O)O", "atom B1"), ("F[S](F)(F)(F)(F)F", "angle")]
)
def test_a_term_without_parameters_is_named(smiles: str, term: str) -> None:
    with pytest.raises(SimulatorError, match=term) as caught:
        labels_of(molecule_of(smiles), SAGE)
    assert (caught.value.outcome, caught.value.reason) == (Outcome.REFUSED, Reason.NO_PARAMETERS)


def test_water_has_the_charges_of_tip3p_and_is_rigid() -> None:
    water = molecule_of("O")
    charges = library_charges(water, SAGE)
    assert charges == (-0.834, 0.417, 0.417)
    constraints = {each.atoms: each.distance for each in parameters_of(water, SAGE, charges).constraints}
    assert constraints[(0, 1)] == pytest.approx(0.09572, abs=1e-9)
    angle = 2 * math.asin(constraints[(1, 2)] / 2 / constraints[(0, 1)])
    assert math.degrees(angle) == pytest.approx(104.52, abs=0.01)  # TIP3P
    assert library_charges(molecule_of("CO"), SAGE) is None


def test_constraints_have_the_length_of_their_bond() -> None:
    each = RECORDED["alcohol"]
    parameters = parameters_of(each.molecule, SAGE, each.charges)
    lengths = {bond.atoms: bond.length for bond in parameters.bonds}
    assert len(parameters.constraints) == 6
    for constraint in parameters.constraints:
        assert constraint.distance == lengths[constraint.atoms]
    assert not parameters_of(each.molecule, UNCONSTRAINED, each.charges).constraints


def test_rules_are_those_with_which_sage_was_fitted() -> None:
    assert SAGE.rules.cutoff == pytest.approx(0.9) and SAGE.rules.switch_width == pytest.approx(0.1)
    assert SAGE.rules.scale_coulomb == 0.8333333333 and SAGE.rules.scale_lennard_jones == 0.5


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("<SMIRNOFF", '<!DOCTYPE x [<!ENTITY y "z">]><SMIRNOFF', "document type"),
        ("OEAroModel_MDL", "OEAroModel_RDKit", "MDL"),
        ('potential="harmonic"', 'potential="quartic"', "potential"),
        ('scale13="0.0"', 'scale13="0.5"', "scale13"),
        ("ToolkitAM1BCC", "NAGLCharges", "NAGLCharges"),
        ('id="b1"', 'id="b1" k_bondorder1="3"', "k_bondorder1 not understood"),
        ('id="b1"', "", "with an id"),
        ("[#6X4:1]-[#6X4:2]", "[#6X4:1]-[#6X4:1]", "tags .1, 1."),
        ("[#6X4:1]-[#6X4:2]", "[#6X4:1]-[#6X4:2", "cannot be read"),
        ("1.533682189836 * angstrom ** 1", "1.533682189836 * degree ** 1", "dimension"),
        ("1.533682189836 * angstrom ** 1", "1.533682189836 * furlong ** 1", "furlong"),
        ("1.533682189836 * angstrom ** 1", "nan * angstrom ** 1", "finite"),
        ('idivf1="1.0"', 'idivf1="0.0"', "idivf1"),
        ('charge1="-0.834 * elementary_charge ** 1"', "", "0 charges"),
        ("</SMIRNOFF>", "", "no element found"),
    ],
)
def test_a_file_that_is_not_understood_whole_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    number = -1 if old == "ToolkitAM1BCC" else 1  # both its tags
    file = changed(tmp_path, lambda text: text.replace(old, new, number))
    with pytest.raises(SimulatorError, match=says) as caught:
        read_force_field(file)
    assert (caught.value.outcome, caught.value.reason) == (Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE)


def test_the_last_row_that_matches_counts(tmp_path: Path) -> None:
    row = '<Bond smirks="[*:1]~[*:2]" id="last" length="1 * angstrom" k="1 * kilocalorie_per_mole * angstrom ** -2"/>'
    file = changed(tmp_path, lambda text: text.replace("</Bonds>", f"{row}</Bonds>"))
    labels = labels_of(molecule_of("CC"), read_force_field(file))
    assert {found.label for found in labels.bonds.values()} == {"last"}
    assert labels.bonds[(0, 1)].value.force_constant == pytest.approx(418.4)  # 4.184 kJ times 100 per nm^2


def test_a_missing_or_endless_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SimulatorError, match="cannot be read"):
        read_force_field(tmp_path / "none.offxml")
    (tmp_path / "long.offxml").write_bytes(b" " * (5 << 20))
    with pytest.raises(SimulatorError, match="larger than 4 MB"):
        read_force_field(tmp_path / "long.offxml")
    with pytest.raises(ValueError, match="no name"):
        installed_force_field("../secret")
