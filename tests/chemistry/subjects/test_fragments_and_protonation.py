"""Protonation states at a pH, against measured pKa; what is ambiguous, what fails, and what is never touched."""

from __future__ import annotations

import pytest

from sciagent.chemistry.isomers_and_tautomers import mirror_smiles
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


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("CCN.Cl", "hydrogen chloride removed"),
        ("CCN.Cl.Cl", "2 hydrogen chloride removed"),
        ("CC(=O)[O-].[Na+]", "sodium removed, neutralised from CC(=O)[O-]"),
        ("[NH3+]CC(=O)[O-]", "neutralised from [NH3+]CC(=O)[O-]"),
        ("c1ccccc1.[Fe]", "[Fe] removed"),
        ("C[N+](C)(C)C.[Cl-]", "chloride removed"),  # the ion keeps its charge
        ("CCN", ""),
        ("O=[N+]([O-])c1ccccc1", ""),
        ("[2H]C(Cl)(Cl)Cl", ""),  # nothing is lost: deuterium is kept
        ("C[C@H](F)[C@H](Cl)Br |&1:1,3|", "a mixture of stereoisomers (&1), taken as drawn"),
        ("C[C@H](F)[C@H](Cl)Br |a:1,o1:3|", "one unknown stereoisomer of several (or1), taken as drawn"),
    ],
)
def test_a_row_that_names_another_substance_says_so(text: str, note: str) -> None:
    made = Standardisation("parent").apply(text)
    assert (made.row_note, made.note) == (note, note)


def test_deuterated_chloroform_is_another_candidate_than_chloroform() -> None:
    rules = Standardisation("parent")
    assert rules.apply("[2H]C(Cl)(Cl)Cl").candidate.key != rules.apply("C(Cl)(Cl)Cl").candidate.key


def test_each_stereoisomer_is_a_candidate_with_its_parent() -> None:
    rules = Standardisation("parent", stereo="enumerate")
    forms = rules.forms("CC=CC#N.Cl")
    assert {form.candidate.text for form in forms} == {"C/C=C/C#N", "C/C=C\\C#N"}
    assert {(form.parent and form.parent.text, form.operation, form.n_left_out) for form in forms} == {
        ("CC=CC#N", "isomer", 0)
    }
    assert forms[0].row_note == "hydrogen chloride removed; one of 2 stereoisomers of CC=CC#N"
    [defined] = rules.forms("C/C=C/C#N")
    assert (defined.parent, defined.note) == (None, "")


def test_of_too_many_stereoisomers_the_same_ones_are_kept_and_the_others_counted() -> None:
    rules = Standardisation("parent", stereo="enumerate", most=2)
    [first, second] = rules.forms("CC(Cl)C(C)Br")
    assert first.n_left_out == 2
    assert first.note == "one of 4 stereoisomers of CC(Cl)C(C)Br, of which 2 are candidates (most: 2)"
    # two diastereomers, not two mirror images, however the text is written
    assert mirror_smiles(parse_molecule(first.candidate.text).mol) != second.candidate.text
    assert [form.candidate for form in rules.forms("BrC(C)C(Cl)C")] == [first.candidate, second.candidate]


def test_each_tautomer_is_a_candidate_and_the_text_its_own() -> None:
    [own, pyridone, *_] = Standardisation("parent", tautomers="enumerate").forms("Oc1ccccn1")
    assert (own.candidate.text, own.parent, own.operation) == ("Oc1ccccn1", None, "")
    assert (pyridone.candidate.text, pyridone.operation) == ("O=c1cccc[nH]1", "tautomer")
    assert pyridone.parent == own.candidate
    assert own.candidate.inchikey == pyridone.candidate.inchikey  # one compound by the standard InChI


def test_without_enumeration_a_text_is_one_candidate() -> None:
    rules = Standardisation("parent")
    assert rules.most_forms == 1
    assert [form.candidate for form in rules.forms("CC=CC#N")] == [parse_molecule("CC=CC#N")]
