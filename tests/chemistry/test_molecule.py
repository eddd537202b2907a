"""What a molecule is the same as, what it differs from, and what is none."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rdkit import Chem

from sciagent.chemistry.molecule import MAX_CHARACTERS, Molecule, parse_molecule
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import candidate_from_payload
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError

PINNED = json.loads((Path(__file__).parent / "pinned_keys.json").read_text())
SMILES = {row["name"]: row["smiles"] for row in PINNED}


def test_pinned_keys_have_not_moved():
    moved = [r["name"] for r in PINNED if parse_molecule(r["smiles"], multiplicity=r["multiplicity"]).key != r["key"]]
    assert len(PINNED) >= 200
    assert moved == []


def test_pinned_molecules_are_all_different():
    assert len({row["key"] for row in PINNED}) == len(PINNED)


def test_what_the_ledger_stores_makes_the_same_molecule_again():
    for row in PINNED:
        molecule = parse_molecule(row["smiles"], multiplicity=row["multiplicity"])
        payload = json.loads(json.dumps(molecule.payload()))
        assert candidate_from_payload("molecule", payload) == molecule
        assert candidate_from_payload("molecule", payload).key == row["key"]


@pytest.mark.parametrize(
    ("smiles", "inchikey", "formula", "n_atoms"),
    [  # published standard InChIKeys
        ("CC(=O)Oc1ccccc1C(=O)O", "BSYNRYMUTXBXSQ-UHFFFAOYSA-N", "C9H8O4", 21),
        ("Cn1cnc2c1c(=O)n(C)c(=O)n2C", "RYYVLZVUVIJVGH-UHFFFAOYSA-N", "C8H10N4O2", 24),
        ("c1ccccc1", "UHOVQNZJYSORNB-UHFFFAOYSA-N", "C6H6", 12),
        ("CCO", "LFQSCWFLJHTTHZ-UHFFFAOYSA-N", "C2H6O", 9),
        ("O", "XLYOFNOQVPJJNP-UHFFFAOYSA-N", "H2O", 3),
        ("CC(C)Cc1ccc(C(C)C(=O)O)cc1", "HEFNNWSXXWATRW-UHFFFAOYSA-N", "C13H18O2", 33),
    ],
)
def test_standard_inchikeys_are_the_published_ones(smiles, inchikey, formula, n_atoms):
    molecule = parse_molecule(smiles)
    assert (molecule.inchikey, molecule.formula, molecule.n_atoms) == (inchikey, formula, n_atoms)
    assert isinstance(molecule, Candidate)
    assert len(molecule.key) == 64


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2-pyridone", "2-hydroxypyridine"),
        ("acetylacetone", "acetylacetone enol"),
        ("4-methylimidazole", "5-methylimidazole"),
        ("1H-tetrazole", "2H-tetrazole"),
        ("thioacetamide", "thioacetimidic acid"),
        ("glycine", "glycine zwitterion"),
        ("glycine", "glycine anion"),
        ("L-alanine", "D-alanine"),
        ("L-alanine", "alanine undefined"),
        ("E-stilbene", "Z-stilbene"),
        ("E-stilbene", "stilbene undefined"),
        ("dioxygen triplet", "dioxygen singlet"),
        ("R-methyl phenyl sulfoxide", "S-methyl phenyl sulfoxide"),
        ("deuterobenzene", "benzene"),
    ],
)
def test_tautomers_charges_spins_and_stereoisomers_differ(first, second):
    assert parse_molecule(SMILES[first]).key != parse_molecule(SMILES[second]).key


def test_standard_inchikey_merges_what_the_key_keeps_apart():
    keto, enol = parse_molecule("O=c1cccc[nH]1"), parse_molecule("Oc1ccccn1")
    assert keto.inchikey == enol.inchikey
    assert keto != enol


def test_spin_is_part_of_the_molecule():
    singlet, triplet = parse_molecule("[CH2]", multiplicity=1), parse_molecule("[CH2]")
    assert triplet.multiplicity == 3
    assert singlet.identity == triplet.identity
    assert singlet.key != triplet.key
    assert Molecule.from_payload(singlet.payload()) == singlet


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C[N+](=O)[O-]", "CN(=O)=O"),
        ("C[S+](C)[O-]", "CS(C)=O"),
        ("C[S+2](C)([O-])[O-]", "CS(C)(=O)=O"),
        ("C[P+](C)(C)[O-]", "CP(C)(C)=O"),
        ("[O-][n+]1ccccc1", "O=n1ccccc1"),
        ("CN=[N+]=[N-]", "C[N-][N+]#N"),
        ("C=[N+]=[N-]", "C=N#N"),
        ("[CH3:1][OH:2]", "CO"),
        ("[H]C([H])([H])O", "CO"),
        ("  CO\n", "CO"),
    ],
)
def test_spellings_of_one_molecule_have_one_key_and_one_smiles(one, other):
    assert parse_molecule(one).key == parse_molecule(other).key
    assert parse_molecule(one).smiles == parse_molecule(other).smiles


def test_a_complex_that_is_written_as_a_salt_is_refused_with_its_metal_by_name():
    with pytest.raises(InvalidCandidateError, match=r"leaves out Fe, .* with bonds to the metal"):
        parse_molecule("[Fe+2].c1cc[cH-]c1.c1cc[cH-]c1", standardise="parent")
    assert "[Fe]" in parse_molecule("[CH]1([Fe][CH]2C=CC=C2)C=CC=C1").smiles


def test_the_parent_of_a_salt_is_the_neutral_organic_part():
    parent = parse_molecule("[Na+].CC(=O)[O-]", standardise="parent")
    assert parent == parse_molecule("CC(=O)O")
    assert parse_molecule("C[N+](C)(C)C.[Cl-]", standardise="parent").charge == 1


UNREADABLE = (  # RDKit reads it, and cannot read the aromatic SMILES that it writes for it
    "N1=C2C3=C4C=C5C6=C7C8=C9C%10=C%11C=C9C9=C%12C%13=C%14C%15=C5C5=C%16C%17=C3C3=C%18C%19=C7C%14=C7C%14="
    "CC%20=C%10C=C%10C(=C%14C7=C%17%10)C%20=CC(=C%15C(=C1C=C%19C9=C%123)C=C6)C2=CC8=C%16C5C%18C%13=C%114"
)
BAD = [
    (None, Reason.NOT_TEXT),
    (42, Reason.NOT_TEXT),
    (b"CCO", Reason.NOT_TEXT),
    (["CCO"], Reason.NOT_TEXT),
    ("", Reason.EMPTY),
    (" \n\t ", Reason.EMPTY),
    ("CC\x00O", Reason.NOT_TEXT),
    ("CC\x1b[31mO", Reason.NOT_TEXT),
    ("C" * (MAX_CHARACTERS + 1), Reason.TOO_LONG),
    ("C" * 10_000_000, Reason.TOO_LONG),
    ("C(" * 150 + "C" + ")" * 150, Reason.TOO_DEEP),
    ("C" * 301, Reason.TOO_LARGE),
    ("*CC", Reason.WILDCARD),
    ("[*]C", Reason.WILDCARD),
    ("C~C", Reason.WILDCARD),
    ("[C,N]C", Reason.WILDCARD),
    ("[Xx]C", Reason.UNKNOWN_ELEMENT),
    ("C[R1]", Reason.UNKNOWN_ELEMENT),
    ("C(C)(C)(C)(C)C", Reason.VALENCE),
    ("FF(F)F", Reason.VALENCE),
    ("c1cccc1", Reason.KEKULIZATION),
    ("c1ccc2cccc2c1", Reason.KEKULIZATION),
    ("C1CC", Reason.UNPARSABLE),
    ("CC(C", Reason.UNPARSABLE),
    ("hello world", Reason.UNPARSABLE),
    ("CC>>CO", Reason.UNPARSABLE),
    ("СС", Reason.UNPARSABLE),  # Cyrillic
    ("\ud800", Reason.UNPARSABLE),
    ("__import__('os').system('id')", Reason.UNPARSABLE),
    ("[#200]", Reason.UNPARSABLE),
    ("CC.[Na+]", Reason.MULTIPLE_FRAGMENTS),
    ("[999CH4]", Reason.ISOTOPE),
    ("[N+257]", Reason.CHARGE),
    ("[C+20]", Reason.CHARGE),
    (UNREADABLE, Reason.UNPARSABLE),
    ("C->[Fe]", Reason.NO_IDENTITY),
    ("[CH3][U]", Reason.MULTIPLICITY),
]


@pytest.mark.parametrize(("text", "reason"), BAD, ids=[f"{reason}-{ascii(text)[:20]}" for text, reason in BAD])
def test_what_is_no_molecule_gets_its_reason_at_once(text, reason):
    start = time.perf_counter()
    with pytest.raises(InvalidCandidateError) as caught:
        parse_molecule(text)
    assert caught.value.reason is reason
    assert 0 < len(caught.value.detail) <= 300
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("multiplicity", [0, 2, -1, 99, "1", 1.0, True, None])
def test_spin_must_fit_the_electrons(multiplicity):
    if multiplicity is None:
        assert parse_molecule("C").multiplicity == 1
        return
    with pytest.raises(InvalidCandidateError) as caught:
        parse_molecule("C", multiplicity=multiplicity)
    assert caught.value.reason is Reason.MULTIPLICITY


@pytest.mark.parametrize("payload", [{}, {"smiles": None}, {"smiles": "C", "multiplicity": "x"}, {"smiles": ["C"]}])
def test_a_broken_payload_is_refused_by_name(payload):
    with pytest.raises(InvalidCandidateError):
        candidate_from_payload("molecule", payload)


def test_a_candidate_of_an_unknown_kind_is_refused():
    with pytest.raises(InvalidCandidateError, match="wrong_kind"):
        candidate_from_payload("polymer", {"smiles": "C"})


def test_rdkit_says_nothing_on_the_terminal(capfd):
    for text, _ in BAD:
        with pytest.raises(InvalidCandidateError):
            parse_molecule(text)
    parse_molecule("[Na+].CC(=O)[O-]", standardise="parent")
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_rdkit_still_speaks_outside(caplog):
    parse_molecule("C")
    Chem.MolFromSmiles("C1CC")
    assert "unclosed ring" in caplog.text


def test_molecules_travel_between_processes():
    molecule = parse_molecule("c1ccccc1")
    assert molecule.mol.GetNumAtoms() == 6
    assert pickle.loads(pickle.dumps(molecule)) == molecule


_alphabet = st.text(alphabet="CNOPSFclnos[]()=#-+@/\\%.0123456789HBrIaeuU*:~$<>&,;", max_size=60)


@given(st.one_of(st.text(max_size=200), _alphabet))
@example("[U]")
@example("C%(99999)C")
@example("[CH999]")
@example("[C@SP1]")
@settings(max_examples=300, deadline=1000, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_is_a_molecule_or_has_a_reason(text):
    try:
        molecule = parse_molecule(text)
    except InvalidCandidateError as error:
        assert isinstance(error.reason, Reason)
    else:
        assert Molecule.from_payload(molecule.payload()).key == molecule.key


def test_the_standard_inchikey_is_the_one_of_rdkit():
    odd = ["C[Zn]C", "O=[Mn](=O)(=O)[O-]", "[2H]N([2H])c1ncnc2[nH]cnc12", "O/N=C/C=N/O", "C[S@](=O)CC", "[Fe+2]"]
    for smiles in [row["smiles"] for row in PINNED if row["multiplicity"] is not None] + odd:
        molecule = parse_molecule(smiles)
        assert molecule.inchikey == Chem.MolToInchiKey(Chem.MolFromSmiles(molecule.smiles)), smiles


def test_a_text_that_comes_again_is_not_read_again(monkeypatch):
    first = parse_molecule("CCCCCCCCCCCC#N")
    _ = first.mol
    monkeypatch.setattr("sciagent.chemistry.molecule._build", None)  # whoever calls it fails
    again = parse_molecule(" CCCCCCCCCCCC#N\n")
    assert again == first
    assert again.key == first.key
    assert "mol" not in vars(again)  # what others hang on a molecule is not remembered with the text


def test_a_text_that_was_none_is_none_again_for_the_same_reason():
    said = set()
    for _ in range(2):
        with pytest.raises(InvalidCandidateError) as caught:
            parse_molecule("CC(C)(C)(C)C")
        said.add((caught.value.reason, caught.value.detail))
    assert len(said) == 1
    assert said.pop()[0] == Reason.VALENCE


def test_the_same_text_is_another_candidate_under_other_rules():
    salt = "CC(=O)[O-].[Na+]"
    assert parse_molecule(salt, standardise="parent").smiles == "CC(=O)O"
    with pytest.raises(InvalidCandidateError):
        parse_molecule(salt)
    assert parse_molecule("[CH2]", multiplicity=1) != parse_molecule("[CH2]", multiplicity=3)


@pytest.mark.parametrize(
    ("smiles", "changed"), [("CCO", False), ("c1ccccc1N(C)C", False), ("C[S+](C)[O-]", True), ("C[N+](=O)[O-]", False)]
)
def test_molecules_that_no_rule_touches_are_left_as_they_are(smiles, changed):
    from sciagent.chemistry.molecule_normal_form import _normaliser, normalise

    mol = Chem.MolFromSmiles(smiles)
    theirs = Chem.MolToSmiles(Chem.RemoveHs(_normaliser().normalize(Chem.Mol(mol))))
    assert Chem.MolToSmiles(normalise(Chem.Mol(mol))) == theirs
    assert (theirs != Chem.CanonSmiles(smiles)) == changed
