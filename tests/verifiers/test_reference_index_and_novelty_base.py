"""New is what no reference holds, and far enough from all of them."""

from __future__ import annotations

import gzip

import pytest
from pydantic import ValidationError
from rdkit import Chem

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.verification.sandbox.host import Request, Worker
from sciagent.verification.verifier_contract import Context
from sciagent_verifiers.fast.novelty_verifiers import MoleculeNovelty
from tests.verifiers.compared import PARACETAMOL, similarity, verify
from tests.verifiers.references import shelf

__all__ = ["shelf"]


@pytest.mark.parametrize("smiles", ["CC(O)=O", "Oc1ccc(N)cc1", "CN", "N[C@@H](C)C(=O)O"])
def test_what_is_known_is_refused_however_it_is_written(shelf, smiles):
    finding = verify(shelf, smiles)
    assert (finding.outcome, finding.reason, finding.measured) == (Outcome.REFUSED, Reason.NOT_NOVEL, ())
    assert finding.detail.endswith(" of blocks.csv")
    assert similarity(verify(shelf, smiles, refuse_known=False)) == 1.0


def test_an_enantiomer_is_new_unless_only_connectivity_counts(shelf):
    assert verify(shelf, "N[C@H](C)C(=O)O").outcome is Outcome.OK
    assert verify(shelf, "N[C@H](C)C(=O)O", match="connectivity").detail == "alanine of blocks.csv"


def test_too_near_is_refused_with_the_neighbour(shelf):
    finding = verify(shelf, "Nc1ccc(OC)cc1", max_similarity=0.3)
    assert (finding.outcome, finding.reason) == (Outcome.REFUSED, Reason.NOT_NOVEL)
    assert "to 4-aminophenol of blocks.csv; at most 0.3" in finding.detail
    near = verify(shelf, "Nc1ccc(OC)cc1", max_similarity=0.9)
    assert near.outcome is Outcome.OK
    assert near.diagnostics == {"nearest": "Nc1ccc(O)cc1", "nearest_name": "4-aminophenol", "reference": "blocks.csv"}


def test_of_several_references_the_nearest_counts(shelf):
    with gzip.open(shelf / "drugs.smi.gz", "wt") as file:
        file.write(f"{PARACETAMOL} paracetamol\nCC(=O)Oc1ccccc1C(=O)O aspirin\n")
    references = ["blocks.csv", "drugs.smi.gz"]
    finding = verify(shelf, "CCC(=O)Nc1ccc(O)cc1", references=references)
    assert finding.diagnostics["nearest_name"] == "paracetamol"
    assert finding.measured[0].level.label.endswith("to blocks.csv+drugs.smi.gz")
    assert verify(shelf, PARACETAMOL, references=references).detail == "paracetamol of drugs.smi.gz"


def test_an_sdf_is_a_reference_too(shelf):
    with Chem.SDWriter(str(shelf / "one.sdf")) as writer:
        writer.write(Chem.MolFromSmiles(PARACETAMOL))
    assert verify(shelf, PARACETAMOL, references=["one.sdf"]).reason is Reason.NOT_NOVEL


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"references": []}, "at least 1"),
        ({"references": ["blocks.csv", {"path": "blocks.csv"}]}, "two references have one name"),
        ({"references": ["gone.csv"]}, "does not exist"),
        ({"bits": 100}, "1024"),
        ({"max_similarity": 1.5}, "less than or equal to 1"),
    ],
)
def test_wrong_settings_are_refused(shelf, settings, message):
    with pytest.raises(ValidationError, match=message):
        MoleculeNovelty({"references": ["blocks.csv"], **settings}, shelf)


def test_in_the_host_it_says_the_same(shelf, tmp_path):
    verifier = MoleculeNovelty({"references": ["blocks.csv"]}, shelf)
    verifier.prepare()
    molecules = tuple(map(parse_molecule, (PARACETAMOL, "CC(=O)O", "CCCCCCCCO")))
    with Worker(tmp_path / "scratch", preload=[verifier.name]) as worker:
        for _ in range(2):  # before and after the fingerprints are shared
            found = [r.finding for r in worker.run(Request(verifier.name, verifier.request_settings, molecules))]
            assert found == list(verifier.verify(molecules, Context(tmp_path, tmp_path)))
