"""New is what no reference file of crystals holds, also under another cell or with fewer digits."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sciagent.chemistry.crystal import crystal_from_structure
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.verification.verifier_contract import Context, Finding, SimulatorError
from sciagent_verifiers.fast.compounds.reference_crystal_index import CrystalIndex
from sciagent_verifiers.fast.novelty_verifiers import CrystalNovelty


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a reference file; its index is made in a cache of its own."""
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "known.csv").write_text(
        "structure,name\nrocksalt: Na Cl,salt\nquartz: Si O,quartz\nnonsense,none\nperovskite: Cs Pb I,lead iodide\n"
    )
    return tmp_path


def finding(shelf: Path, crystal: object, **settings: object) -> Finding:
    verifier = CrystalNovelty({"references": ["known.csv"], **settings}, base=shelf)
    one = read_crystal(crystal) if isinstance(crystal, str) else crystal
    (found,) = verifier.verify([one], Context(shelf, shelf))  # type: ignore[list-item]
    return found


def test_what_is_known_is_refused_by_name(shelf: Path) -> None:
    found = finding(shelf, "rocksalt: Na Cl")
    assert (found.outcome, found.reason, found.detail) == (Outcome.REFUSED, Reason.NOT_NOVEL, "salt of known.csv")
    assert finding(shelf, "rocksalt: Na Cl", refuse_known=False).measured[0].quantity.value == 1


def test_a_copy_with_noise_is_known_and_another_volume_is_new(shelf: Path) -> None:
    quartz = read_crystal("quartz: Si O").structure
    noisy = quartz.copy()
    noisy.perturb(1e-3, seed=0)
    assert crystal_from_structure(noisy).key != crystal_from_structure(quartz).key
    assert finding(shelf, crystal_from_structure(noisy)).detail == "quartz of known.csv"
    larger = quartz.copy()
    larger.scale_lattice(1.1 * quartz.volume)
    assert finding(shelf, crystal_from_structure(larger)).outcome is Outcome.OK


def test_the_nearest_reference_is_named(shelf: Path) -> None:
    found = finding(shelf, "perovskite: Cs Sn I")
    assert found.diagnostics == {"nearest": "CsPbI3 Pm-3m", "nearest_name": "lead iodide", "reference": "known.csv"}
    assert 0.3 < found.measured[0].quantity.value < 1
    assert found.measured[0].level.label == "Tanimoto of bonds to known.csv"
    refused = finding(shelf, "perovskite: Cs Sn I", max_similarity=0.2)
    assert refused.reason is Reason.NOT_NOVEL
    assert "to lead iodide of known.csv; at most 0.2" in refused.detail


def test_unreadable_records_are_counted(shelf: Path) -> None:
    verifier = CrystalNovelty({"references": ["known.csv"]}, base=shelf)
    verifier.prepare()
    verifier.attach()
    (index,) = verifier._indexes
    assert isinstance(index, CrystalIndex)
    assert index.about == {"crystals": 3, "unreadable": 1}


def test_a_file_without_crystals_is_refused(shelf: Path) -> None:
    (shelf / "none.csv").write_text("structure\nnonsense\n")
    with pytest.raises(SimulatorError, match="holds no crystal"):
        CrystalNovelty({"references": ["none.csv"]}, base=shelf).prepare()
    (shelf / "x.smi").write_text("CCO\n")
    for references in (["x.smi"], [], ["known.csv", "known.csv"]):
        with pytest.raises(ValidationError):
            CrystalNovelty({"references": references}, base=shelf)
