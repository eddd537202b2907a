"""Names of candidates in tables."""

from __future__ import annotations

from sciagent.domain.candidates import identifier_columns, identifier_text, name_cells

NAMES = {"supplier": ("Acme",), "ID": ("A-1", "A-9")}


def test_the_label_is_the_identifier_with_all_its_texts_wherever_it_stands() -> None:
    assert identifier_columns(["smiles", "Compound ID", "title"], "smiles") == ("title",)
    assert identifier_columns(["smiles", "batch_id"], "smiles") == ("batch_id",)
    assert (
        identifier_text(NAMES) == "A-1; A-9"
        and identifier_text({"supplier": ("Acme",)}) == "Acme"
        and identifier_text({}) == ""
    )


def test_a_table_has_a_column_for_the_identifier_and_one_for_each_other_field() -> None:
    fields = ["supplier", "ID", "remark"]
    assert name_cells(NAMES, fields) == {"name": "A-1; A-9", "name.supplier": "Acme", "name.remark": ""}
    assert list(name_cells({}, fields)) == ["name", "name.supplier", "name.remark"]
    assert name_cells({}, []) == {}
