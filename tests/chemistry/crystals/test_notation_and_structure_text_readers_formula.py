"""CIFs whose sites do not make the stated formula are refused by name; deuterium is hydrogen with a remark."""

from __future__ import annotations

import pytest

from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError

BRUCITE = """\
data_brucite
_chemical_formula_sum '{formula}'
_cell_length_a 3.142
_cell_length_b 3.142
_cell_length_c 4.766
_cell_angle_alpha 90
_cell_angle_beta 90
_cell_angle_gamma 120
_space_group_name_H-M_alt 'P -3 m 1'
loop_
_atom_site_label
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
Mg1 Mg 0 0 0
O1 O 0.333333 0.666667 0.220300
"""
HYDROGEN = "H1 {symbol} 0.333333 0.666667 0.413000\n"


@pytest.mark.parametrize("formula", ["H2 Mg O2", "Mg1 H2 O2", "Mg O2 D2", "Mg O"])
def test_a_file_without_its_hydrogen_is_refused_by_name(formula: str) -> None:
    with pytest.raises(InvalidCandidateError) as raised:
        read_crystal(BRUCITE.format(formula=formula))
    assert raised.value.reason is Reason.FORMULA_MISMATCH
    assert "the sites make MgO2" in str(raised.value)


@pytest.mark.parametrize("formula", ["Mg O2", "O4 Mg2", "?", "(Mg O2)n", ""])
def test_other_numbers_of_units_and_texts_that_are_no_formula_are_taken(formula: str) -> None:
    assert read_crystal(BRUCITE.format(formula=formula)).formula == "MgO2"


@pytest.mark.parametrize(("symbol", "remark"), [("H", ""), ("D", "deuterium taken as hydrogen")])
def test_deuterium_is_hydrogen_with_a_remark(symbol: str, remark: str) -> None:
    text = BRUCITE.format(formula=f"Mg O2 {symbol}2") + HYDROGEN.format(symbol=symbol)
    made = subject_of("crystal").reading("refuse").apply(text)
    assert (made.candidate.formula, made.row_note) == ("Mg(HO)2", remark)


def test_deuterium_is_seen_in_other_formats() -> None:
    poscar = "LiD\n1.0\n0 2.035 2.035\n2.035 0 2.035\n2.035 2.035 0\nLi D\n1 1\nDirect\n0 0 0\n0.5 0.5 0.5\n"
    assert (read_crystal(poscar).isotopes, read_crystal(poscar).formula) == (("D",), "LiH")
    assert read_crystal("rocksalt: Li H").isotopes == ()
