"""The index of a file of crystals is built once, and its nearest is the one that comparing with all finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.crystals.crystal_similarity import nearest
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent_verifiers.fast.compounds.reference_crystal_index import CrystalFile, CrystalIndex

TEXTS = [
    "rocksalt: Na Cl", "rocksalt: Mg O", "perovskite: Sr Ti O", "perovskite: Cs Pb I", "rutile: Ti O",
    "spinel: Mg Al O",    "fluorite: Ca F", "zincblende: Ga N", "half-Heusler: Ti Ni Sn", "fcc: Cu",
]  # fmt: skip


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrystalIndex:
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "known.csv"
    path.write_text("name,structure\n" + "".join(f"n{i},{text}\n" for i, text in enumerate(TEXTS)))
    return CrystalIndex(CrystalFile.model_validate(str(path)))


def test_the_nearest_is_the_one_that_comparing_with_all_finds(index: CrystalIndex) -> None:
    others = [read_crystal(text) for text in TEXTS]
    for text in ("perovskite: Ba Ti O", "rocksalt: Na Br", "CsCl: Ni Al", "wurtzite: Zn S", "bcc: W"):
        crystal = read_crystal(text)
        assert index.nearest(crystal).similarity == pytest.approx(nearest(crystal, others), abs=1e-6)


def test_an_index_is_built_once(index: CrystalIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    assert index.holds(read_crystal("rutile: Ti O")) == "n4"
    monkeypatch.setattr(CrystalIndex, "_write", None)
    again = CrystalIndex(index.file)  # type: ignore[arg-type]
    assert again.is_built
    assert again.holds(read_crystal("rocksalt: Mg O")) == "n1"
    assert again.holds(read_crystal("rutile: Sn O")) is None
