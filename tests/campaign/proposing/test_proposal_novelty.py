"""How new a proposal is, by the ledger as it is when the proposal is made."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from rdkit.DataStructs import TanimotoSimilarity

from sciagent.campaign.proposing import proposal_novelty
from sciagent.chemistry.molecule import parse_molecule
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from tests.support.subjects import MOLECULES


def propose(ledger: Ledger, *texts: str) -> list[dict]:
    """One turn."""
    made = [parse_molecule(text) for text in texts]
    with ledger.begin() as connection:
        found = [(molecule.key, MOLECULES.features(molecule.text)) for molecule in made]
        notes = proposal_novelty.novelty_notes(connection, MOLECULES, found)
        ids = candidates.enter(connection, made)
        fresh = [each for each, note in zip(found, notes, strict=True) if note["candidate"]]
        proposal_novelty.remember_families(connection, MOLECULES, {ids[key]: features for key, features in fresh})
    return notes


def test_the_first_of_all_is_new_and_near_to_nothing(ledger: Ledger) -> None:
    [note] = propose(ledger, "Cc1ccccc1")
    assert note == {"candidate": True, "scaffold": True, "nearest": None, "fingerprint": "ECFP4/2048", "compared": 0}


def test_a_known_scaffold_and_a_new_one_are_told_apart(ledger: Ledger) -> None:
    propose(ledger, "Cc1ccccc1")
    ethyl, pyridine, again = propose(ledger, "CCc1ccccc1", "Cc1ccncc1", "c1ccccc1C")
    assert (ethyl["candidate"], ethyl["scaffold"], ethyl["compared"]) == (True, False, 1)
    assert (pyridine["candidate"], pyridine["scaffold"], pyridine["compared"]) == (True, True, 2)
    assert again == {"candidate": False, "scaffold": False, "nearest": 1.0}


def test_what_came_before_in_the_same_turn_is_earlier(ledger: Ledger) -> None:
    first, second, third = propose(ledger, "Cc1ccncc1", "CCc1ccncc1", "CCc1ccncc1")
    assert (first["scaffold"], second["scaffold"]) == (True, False)
    assert third["candidate"] is False
    assert second["compared"] == 1


def test_the_nearest_is_by_tanimoto_as_rdkit_has_it(ledger: Ledger) -> None:
    propose(ledger, "CCO", "CC(=O)Nc1ccc(O)cc1")
    [note] = propose(ledger, "CC(=O)Nc1ccc(OC)cc1")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    prints = [generator.GetFingerprint(Chem.MolFromSmiles(s)) for s in ("CC(=O)Nc1ccc(O)cc1", "CC(=O)Nc1ccc(OC)cc1")]
    assert note["nearest"] == pytest.approx(TanimotoSimilarity(*prints), abs=1e-4)
    assert note["compared"] == 2


def test_only_so_many_are_compared(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposal_novelty, "MAX_COMPARED", 3)
    propose(ledger, "Cc1ccccc1", *("C" * n for n in range(1, 6)))
    [note] = propose(ledger, "CCc1ccccc1")
    assert note["compared"] == 3
    assert note["nearest"] < 0.5  # toluene came too long ago
    assert note["scaffold"] is False  # but scaffolds are looked up among all


def test_a_scaffold_is_unsure_until_what_a_file_brought_has_its_own(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposal_novelty, "MAX_FILLED", 2)
    imported = [parse_molecule(text) for text in ("c1ccoc1", "c1ccsc1", "c1cc[nH]c1")]
    with ledger.begin() as connection:
        candidates.enter(connection, imported)
    [first] = propose(ledger, "Cc1ccccc1")
    assert first["scaffold"] is None
    with ledger.read() as connection:
        assert len(candidates.candidates_without_family(connection, 10)) == 1
    propose(ledger, "CCO")
    [known, new] = propose(ledger, "Cc1cc[nH]c1", "Cc1ccncc1")
    assert (known["scaffold"], new["scaffold"]) == (False, True)
