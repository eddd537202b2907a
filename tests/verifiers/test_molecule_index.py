"""The index of reference structures: exact, built once, and never from another content."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
import tables
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from rdkit.DataStructs import BulkTanimotoSimilarity

from sciagent.verification.verifier_contract import SimulatorError
from sciagent_verifiers.fast.molecule_index import ReferenceIndex
from sciagent_verifiers.fast.novelty_verifiers import MoleculeNovelty
from tests.verifiers.compared import PARACETAMOL, similarity, verify
from tests.verifiers.references import BLOCKS, shelf

__all__ = ["shelf"]

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
