"""A subject may leave things out: by default the text is the notation, and nothing is alike."""

from __future__ import annotations

from sciagent.chemistry.subjects.base import Subject
from tests.support.subjects import MOLECULES


def test_a_text_is_a_notation_unless_a_subject_says_otherwise() -> None:
    ethanol = MOLECULES.read("OCC")
    assert MOLECULES.notation(ethanol) == MOLECULES.notation_of(ethanol.text, {}) == MOLECULES.shown("CCO") == "CCO"
    assert not Subject.same(MOLECULES, ethanol, ethanol) and not MOLECULES.matches


def test_files_are_known_by_their_endings() -> None:
    assert MOLECULES.is_file_of("a.CSV.gz") and MOLECULES.is_file_of("b.sdf") and not MOLECULES.is_file_of("c.cif")


def test_the_nearest_of_none_is_none() -> None:
    found = MOLECULES.features("CCO")
    assert MOLECULES.nearest(found, []) is None and MOLECULES.nearest(found, [found]) == 1
