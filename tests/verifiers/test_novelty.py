"""New is what no reference holds, and far enough from all of them."""

from __future__ import annotations

import gzip
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import tables
from pydantic import ValidationError
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from rdkit.DataStructs import BulkTanimotoSimilarity

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.verification.contract import Context, Finding, SimulatorError
from sciagent.verification.sandbox.host import Request, Worker
from sciagent_verifiers.fast.novelty import MoleculeNovelty
from sciagent_verifiers.fast.reference_index import ReferenceIndex
from tests.verifiers.references import BLOCKS, shelf

__all__ = ["shelf"]
PARACETAMOL = "CC(=O)Nc1ccc(O)cc1"
REFERENCES = [line.partition(",")[0] for line in BLOCKS.splitlines()[1:-1]]
ASKED = (
    PARACETAMOL,
    "Brc1ccccc1",
    "CCCCCCCCO",
    "N[C@H](C)C(=O)OC",
    "c1ccncc1",
    "[He]",
    "C1COCCN1C",
    "O=S(=O)(O)c1ccccc1",
)


def verify(folder: Path, smiles: str, **settings: Any) -> Finding:
    verifier = MoleculeNovelty({"references": ["blocks.csv"], **settings}, folder)
    [finding] = verifier.verify([parse_molecule(smiles)], Context(folder, folder))
    return finding


def similarity(finding: Finding) -> float:
    [one] = finding.measured
    return one.quantity.value


@pytest.mark.parametrize(("radius", "bits"), [(2, 2048), (3, 1024)])
def test_the_nearest_is_the_one_that_rdkit_finds_by_looking_at_all(shelf, radius, bits):
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=radius, fpSize=bits)
    known = [generator.GetFingerprint(Chem.MolFromSmiles(s.removesuffix(".Cl"))) for s in REFERENCES]
    for smiles in ASKED:
        finding = verify(shelf, smiles, radius=radius, bits=bits, refuse_known=False)
        expected = max(BulkTanimotoSimilarity(generator.GetFingerprint(Chem.MolFromSmiles(smiles)), known))
        assert similarity(finding) == pytest.approx(expected, abs=1e-6), smiles
        assert finding.measured[0].level.label == f"Tanimoto ECFP{2 * radius}/{bits} to blocks.csv"
        assert finding.measured[0].quantity.uncertainty == 0.0


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


def test_the_index_is_built_once_and_not_again_for_a_copy_elsewhere(shelf, tmp_path):
    verifier = MoleculeNovelty({"references": ["blocks.csv"]}, shelf)
    verifier.prepare()
    [built] = [p for p in (tmp_path / "cache" / "references").iterdir() if p.is_dir()]
    before = built.stat().st_mtime_ns
    other = tmp_path / "copy"
    other.mkdir()
    (other / "blocks.csv").write_text(BLOCKS)
    MoleculeNovelty({"references": ["blocks.csv"]}, other).prepare()
    assert [p for p in (tmp_path / "cache" / "references").iterdir() if p.is_dir()] == [built]
    assert built.stat().st_mtime_ns == before
    index = ReferenceIndex(verifier.settings.references[0])
    assert index.about == {"molecules": 9, "unreadable": 1}
    with tables.open_file(str(built / "fingerprints.h5")) as file:
        assert file.root.fps.chunkshape[0] * file.root.fps.rowsize < 4 << 20, "a chunk as large as the L3 cache"


def _build(folder: str) -> int:
    verifier = MoleculeNovelty({"references": ["many.smi"]}, Path(folder))
    verifier.prepare()
    return verifier._indexes[0].about["molecules"]


@pytest.mark.long
def test_several_that_build_at_once_get_one_index(shelf, tmp_path):
    (shelf / "many.smi").write_text("".join(f"{'C' * (n % 60 + 1)}{'O' * (n // 60)}\n" for n in range(600)))
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.map(_build, [str(shelf)] * 3) == [600] * 3
    assert len([p for p in (tmp_path / "cache" / "references").iterdir() if p.is_dir()]) == 1


def test_what_a_killed_builder_left_is_swept(shelf, tmp_path):
    index = MoleculeNovelty({"references": ["blocks.csv"]}, shelf)._indexes[0]
    left = index.folder.with_name(f"{index.folder.name}.abc.partial")
    left.mkdir(parents=True)
    (left / "fingerprints.h5").write_bytes(b"half")
    index.build()
    assert index.is_built
    assert not left.exists()


def test_a_file_that_changed_since_the_campaign_was_read_builds_nothing(shelf):
    verifier = MoleculeNovelty({"references": ["blocks.csv"]}, shelf)
    (shelf / "blocks.csv").write_text("smiles\nCCO\n")
    with pytest.raises(SimulatorError, match="is not what it was"):
        verifier.prepare()


@pytest.mark.parametrize("text", ["smiles\n", "smiles\nnothing\n"])
def test_a_reference_without_molecules_is_an_error_with_a_name(shelf, text):
    (shelf / "empty.csv").write_text(text)
    with pytest.raises(SimulatorError, match=r"empty.csv holds no molecule"):
        MoleculeNovelty({"references": ["empty.csv"]}, shelf).prepare()


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
