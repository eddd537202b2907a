"""Tables of molecules as other programs write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.molecule_files import read_structures
from sciagent.errors import InputFileError


@pytest.mark.parametrize(
    ("content", "place"), [(b"smiles,name\rCCO,a\rCC,b\r", "1:1"), (b"smiles,name\nCCO,a\rCC,b\n", "2:1")]
)
def test_a_bare_carriage_return_is_named_at_its_line(content: bytes, place: str, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_bytes(content)
    with pytest.raises(InputFileError, match=rf"old\.csv:{place}: a carriage return without a line feed"):
        list(read_structures(tmp_path / "old.csv"))


@pytest.mark.parametrize(
    ("row", "fault"), [('CC,"b unclosed', "a quote .* is not closed"), ('CC,"b"x', "text after a closing quote")]
)
def test_a_quote_that_swallows_rows_is_named_at_its_line(row: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "quoted.csv").write_text(f"smiles,name\nCCO,a\n{row}\nCCC,c\n")
    with pytest.raises(InputFileError, match=rf"quoted\.csv:3:1: .*{fault}"):
        list(read_structures(tmp_path / "quoted.csv"))


@pytest.mark.parametrize(
    ("header", "keep", "names"),
    [("smiles,ID,supplier", None, {"ID": "1"}), ("Catalog_ID,smiles", None, {"Catalog_ID": "CCO"}),
     ("smiles,logp,mass", None, {}), ("smiles,name,supplier", ("supplier", "name"), {"supplier": "Acme", "name": "1"})],
)  # fmt: skip
def test_the_columns_that_are_kept_are_those_asked_for_or_the_identifier(
    header: str, keep: tuple[str, ...] | None, names: dict[str, str], tmp_path: Path
) -> None:
    (path := tmp_path / "a.csv").write_text(f"{header}\nCCO, 1 ,Acme\n")
    assert next(read_structures(path, keep=keep)).names == names
