"""Crystals through the interface of subjects: notations, identity on the way, likeness, looks."""

from __future__ import annotations

import json

import pytest

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.subjects import crystal
from sciagent.chemistry.subjects.base import CandidateColumns
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.errors import InvalidCandidateError

CRYSTALS = subject_of("crystal")


def test_a_notation_is_read_back_to_the_same_crystal() -> None:
    made = CRYSTALS.read("perovskite: Cs Sn I")
    notation = CRYSTALS.notation(made)
    assert "\n" not in notation and CRYSTALS.shown(notation) == made.text == "CsSnI3 Pm-3m"
    assert CRYSTALS.notation_of(made.text, json.loads(json.dumps(made.payload()))) == notation
    assert Crystal.from_payload(json.loads(notation)).key == made.key


def test_identity_travels_and_is_not_found_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = CRYSTALS.read("rocksalt: Na Cl")
    record, payload = json.loads(json.dumps(CRYSTALS.record(made))), json.loads(json.dumps(made.payload()))
    monkeypatch.setattr("sciagent.chemistry.crystal.crystal_from_structure", None)
    assert CRYSTALS.from_record(record).key == made.key
    columns = CandidateColumns(*(getattr(made, name) for name in CandidateColumns._fields))
    again = CRYSTALS.from_row(columns, payload, False)
    assert isinstance(again, Crystal) and (again.key, again.space_group) == (made.key, "Fm-3m")
    assert CRYSTALS.from_row(columns, None, True) is None, "the cell is in the payload"
    with pytest.raises(InvalidCandidateError):
        CRYSTALS.from_record(record | {"lattice": "no cell"})


def test_alike_crystals_are_of_one_prototype() -> None:
    tin, lead, salt = (
        CRYSTALS.features(text) for text in ("perovskite: Cs Sn I", "perovskite: Cs Pb I", "rocksalt: Na Cl")
    )
    assert tin.family == lead.family != salt.family
    alike, apart = CRYSTALS.similarities(tin, [lead, salt])
    assert 1 > alike > apart
    assert CRYSTALS.features("no crystal").family == ""


def test_a_crystal_is_drawn_and_has_a_cell() -> None:
    made = CRYSTALS.read("fluorite: Ca F")
    assert CRYSTALS.drawing(CRYSTALS.notation(made)).startswith("<svg")
    text, form = CRYSTALS.geometry(made.payload()) or ("", "")
    assert form == "cif" and "_cell_length_a" in text
    assert CRYSTALS.atoms(made.payload()).get_chemical_formula() == "CaF2"
    assert CRYSTALS.drawing("</svg>") == ""


def test_a_notation_reads_alike_in_the_process_that_wrote_it_and_in_another() -> None:
    for text in ("zincblende: Zn S", "CdCl2: Mg Cl", "wurtzite: Zn O"):
        notation = CRYSTALS.notation(CRYSTALS.read(text))
        here = CRYSTALS.read(notation)
        crystal._KNOWN.clear()
        assert CRYSTALS.read(notation).payload() == here.payload() and here.key == CRYSTALS.read(text).key
