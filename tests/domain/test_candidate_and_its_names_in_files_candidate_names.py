"""Names of candidates in tables."""

from __future__ import annotations

from sciagent.domain.candidate_and_its_names_in_files import (
    MISSING,
    STANDARDISED,
    identifier_columns,
    identifier_text,
    name_cells,
    name_rows,
    names_from_rows,
    source_rows,
    standardised_notes,
)

NAMES = {"supplier": ("Acme", "Bolt"), "ID": ("A-1", "A-9")}
CATALOGUE = [{"id": "A1", "price": "10"}, {"id": "A2"}, {"id": "A3", "price": "10"}, {"id": "A4", "price": "7"}]
"""Rows of a file that all hold one molecule; A2 has no price."""


def test_the_label_is_the_identifier_with_all_its_texts_wherever_it_stands() -> None:
    assert identifier_columns(["smiles", "Compound ID", "title"], "smiles") == ("title",)
    assert identifier_columns(["smiles", "batch_id"], "smiles") == ("batch_id",)
    assert (
        identifier_text(NAMES) == "A-1; A-9"
        and identifier_text({"supplier": ("Acme",)}) == "Acme"
        and identifier_text({}) == ""
    )


def test_the_label_has_each_identifier_once_and_no_empty_ones() -> None:
    assert identifier_text({"id": ("A1", "A1", MISSING), "price": ("10", "7", "5")}) == "A1"


def test_a_table_has_a_column_for_the_identifier_and_one_for_each_other_field() -> None:
    fields = ["supplier", "ID", "remark"]
    assert name_cells(NAMES, fields) == {"name": "A-1; A-9", "name.supplier": "Acme; Bolt", "name.remark": ""}
    assert list(name_cells({}, fields)) == ["name", "name.supplier", "name.remark"]
    assert name_cells({}, []) == {}


def test_all_columns_have_a_text_for_each_row_in_one_order() -> None:
    names = names_from_rows(CATALOGUE)
    assert names == {"id": ("A1", "A2", "A3", "A4"), "price": ("10", MISSING, "10", "7")}
    assert name_cells(names, ["id", "price"]) == {"name": "A1; A2; A3; A4", "name.price": "10; n/a; 10; 7"}
    assert name_rows(names)[1] == {"id": "A2", "price": MISSING}


def test_the_name_of_a_row_stands_beside_each_of_its_prices() -> None:
    names = names_from_rows([{"id": "A1", "price": "10"}, {"id": "A1", "price": "7"}])
    assert name_cells(names, ["id", "price"]) == {"name": "A1; A1", "name.price": "10; 7"}


def test_a_row_that_says_nothing_new_counts_once() -> None:
    rows = [{"id": "A2"}, *CATALOGUE, {"id": "A4", "price": "7"}, {"price": "7"}]
    assert names_from_rows(rows) == {"id": ("A2", "A1", "A3", "A4"), "price": (MISSING, "10", "10", "7")}
    assert names_from_rows([{"id": "A1"}, {"id": "A1", "price": "10"}]) == {"id": ("A1",), "price": ("10",)}
    assert names_from_rows([]) == {}


def test_a_semicolon_within_a_text_is_told_from_the_end_of_a_row() -> None:
    remarks = names_from_rows([{"remark": "toxic; flammable"}, {"remark": "old"}])
    assert name_cells(remarks, ["remark"]) == {"name": '"toxic; flammable"; old'}
    assert name_cells({"remark": ("toxic; flammable",)}, ["remark"]) == {"name": "toxic; flammable"}


def test_names_of_files_with_values_never_replace_the_campaigns_own() -> None:
    names = {"code": ("A1", "A2"), "imported.compound_id": ("77",), "imported.batch": ("3",)}
    assert identifier_text(names) == "A1; A2"
    cells = name_cells(names, list(names))
    assert cells == {"name": "A1; A2", "name.imported.compound_id": "77", "name.imported.batch": "3"}
    *_, last = name_rows(names)
    assert last == {"imported.compound_id": "77", "imported.batch": "3"}
    assert identifier_text({"imported.batch": ("3",), "imported.compound_id": ("77",)}) == "77"


def test_a_column_of_the_campaign_may_have_any_heading() -> None:
    assert len(name_rows({"imported.x": ("a", "b"), "imported.batch": ("3",)})) == 2


def test_a_remark_on_the_substance_is_no_name_and_stays_with_its_row() -> None:
    salt_and_base = names_from_rows(
        [{"id": "CAS-1", "price": "12", STANDARDISED: "hydrogen chloride removed"}, {"id": "CAS-2", "price": "30"}]
    )
    assert identifier_text(salt_and_base) == "CAS-1; CAS-2"
    assert standardised_notes(salt_and_base) == {"CAS-1": "hydrogen chloride removed"}
    assert source_rows(salt_and_base) == [
        {"id": "CAS-1", "price": "12", STANDARDISED: "hydrogen chloride removed"},
        {"id": "CAS-2", "price": "30"},
    ]
    without_name = names_from_rows([{STANDARDISED: "water removed"}])
    assert identifier_text(without_name) == ""
    assert standardised_notes(without_name) == {"": "water removed"}
    assert name_cells(without_name, [STANDARDISED]) == {f"name.{STANDARDISED}": "water removed"}
