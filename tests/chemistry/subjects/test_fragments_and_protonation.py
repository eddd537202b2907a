"""Protonation states at a pH, against measured pKa; what is ambiguous, what fails, and what is never touched."""

from __future__ import annotations

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.chemistry.subjects.fragments_and_protonation import Standardisation, state_at
from sciagent.errors import InvalidCandidateError

AT_BLOOD = Standardisation("parent", 7.4)


@pytest.mark.parametrize(
    ("smiles", "ph", "state"),
    [  # pKa in water from the CRC Handbook, 97th edition
        ("CC(=O)O", 7.4, "CC(=O)[O-]"),  # 4.76
        ("CC(=O)O", 2.0, "CC(=O)O"),
        ("NCc1ccccc1", 7.4, "[NH3+]Cc1ccccc1"),  # 9.33
        ("NCc1ccccc1", 13.0, "NCc1ccccc1"),
        ("NCC(=O)O", 7.4, "[NH3+]CC(=O)[O-]"),  # 2.35 and 9.78
        ("Oc1ccccc1", 7.4, "Oc1ccccc1"),  # 9.99
        ("Oc1ccccc1", 13.0, "[O-]c1ccccc1"),
        ("NS(=O)(=O)c1ccccc1", 7.4, "NS(=O)(=O)c1ccccc1"),  # 10.1
        ("CC(=O)NS(=O)(=O)c1ccccc1", 7.4, "CC(=O)[N-]S(=O)(=O)c1ccccc1"),  # an acyl sulfonamide, about 4.5
        ("c1ccncc1", 7.4, "c1ccncc1"),  # 5.23
        ("C[N+](C)(C)CC(=O)O", 7.4, "C[N+](C)(C)CC(=O)[O-]"),  # betaine, whose nitrogen has no proton to lose
        ("O=[N+]([O-])c1ccccc1", 7.4, "O=[N+]([O-])c1ccccc1"),
    ],
)
def test_the_dominant_state_follows_from_the_measured_pka(smiles: str, ph: float, state: str) -> None:
    made = Standardisation("refuse", ph).apply(smiles)
    assert (made.candidate.smiles, made.fault) == (state, "")
    assert made.candidate.key == parse_molecule(state).key  # the state is that molecule, however it was drawn
    assert bool(made.note.startswith("protonated")) == (state != smiles)


@pytest.mark.parametrize("smiles", ["CC(=O)C=C(C)O", "CC(=O)CC(C)=O", "NC=O", "N=CO", "Cc1c[nH]cn1", "Cc1cnc[nH]1"])
def test_tautomers_are_not_touched(smiles: str) -> None:
    assert AT_BLOOD.apply(smiles).candidate.key == parse_molecule(smiles).key


def test_salts_and_ions_of_one_parent_become_one_candidate() -> None:
    texts = ["O=C(O)c1ccccc1", "[Na+].O=C([O-])c1ccccc1", "O=C([O-])c1ccccc1"]
    assert {AT_BLOOD.apply(text).candidate.smiles for text in texts} == {"O=C([O-])c1ccccc1"}
    with pytest.raises(InvalidCandidateError, match="2 fragments"):
        Standardisation("refuse", 7.4).apply(texts[1])


def test_an_ambiguous_state_names_the_others() -> None:
    """The library's pKa of a primary amine is 8.2 with a standard deviation of 2.5."""
    made = AT_BLOOD.apply("NCC(=O)O")
    assert made.is_ambiguous and made.note == (
        "protonated at pH 7.4 from NCC(=O)O; also possible at pH 7.4 within the spread of the pKa: NCC(=O)[O-]"
    )
    assert state_at(parse_molecule("CC(=O)O"), 7.4).others == ()


def test_a_molecule_on_which_the_library_fails_stays_as_it_is_and_says_so() -> None:
    """The library drops the isotope of an acidic hydrogen, which would be another molecule."""
    made = AT_BLOOD.apply("[2H]OC(C)=O")
    assert made.candidate == parse_molecule("[2H]OC(C)=O")
    assert made.fault == "dimorphite_dl makes another molecule of it, CC(=O)[O-]"
    assert made.note == f"kept as [2H]OC(C)=O at pH 7.4: {made.fault}"


def test_spin_and_stereochemistry_are_kept() -> None:
    acid = AT_BLOOD.apply("CC[C@H](N)C(=O)O").candidate
    assert acid.smiles == "CC[C@H]([NH3+])C(=O)[O-]"
    assert AT_BLOOD.apply("[O]c1ccccc1C(=O)O").candidate.multiplicity == 2


def test_without_a_ph_nothing_is_asked_of_the_library() -> None:
    plain = Standardisation.stated("parent")
    assert plain.apply("CC(=O)[O-].[Na+]").candidate.smiles == "CC(=O)O"
    assert Standardisation.stated({"fragments": "parent", "ph": 7.4}) == AT_BLOOD
