"""Tables of molecules as other programs write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rdkit import Chem

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


def _chain(n: int) -> str:
    """Returns the V3000 record of a chain of n carbons."""
    atoms = "".join(f"M  V30 {i} C {i}.0 0 0 0\n" for i in range(1, n + 1))
    bonds = "".join(f"M  V30 {i} 1 {i} {i + 1}\n" for i in range(1, n))
    return (
        f"a chain\n\n\n  0  0  0     0  0            999 V3000\nM  V30 BEGIN CTAB\nM  V30 COUNTS {n} {n - 1} 0 0 0\n"
        f"M  V30 BEGIN ATOM\n{atoms}M  V30 END ATOM\nM  V30 BEGIN BOND\n{bonds}M  V30 END BOND\nM  V30 END CTAB\n"
        "M  END\n$$$$\n"
    )


def _record(smiles: str) -> str:
    """Returns the V2000 record of a molecule, as RDKit writes it."""
    return str(Chem.MolToMolBlock(Chem.MolFromSmiles(smiles))) + "$$$$\n"


@pytest.mark.parametrize(
    ("huge", "fault"),
    [(_chain(20_000), "has 20000 atoms; the limit is 300 heavy atoms"),
     (_chain(20_000).replace("COUNTS ", "COUNT-\nM  V30 S "), "has 20000 atoms"),
     (_chain(600), "has 600 heavy atoms; the limit is 300 heavy atoms"),
     (_record("C" * 400), "has 400 heavy atoms"),
     (_record("CC").replace("  2  1", "  2999"), "is not a readable mol block"),
     (_record("CC").replace("  2  1", "  x  1"), "is not a readable mol block")],
)  # fmt: skip
def test_a_record_of_an_sdf_that_is_too_large_is_refused_and_the_others_are_read(
    huge: str, fault: str, tmp_path: Path
) -> None:
    (path := tmp_path / "a.sdf").write_text(_record("CCO") + huge + _record("CCN"))
    first, refused, last = read_structures(path)
    assert (first.text, refused.text, last.text) == ("CCO", "", "CCN")
    assert refused.fault.startswith("record 2 ")
    assert fault in refused.fault


def _without_last_line(text: str) -> str:
    return text.removesuffix("$$$$\n")


@pytest.mark.parametrize("changed", [str, _without_last_line, lambda text: text + "\n\n"])
def test_an_sdf_holds_the_molecules_that_rdkit_reads_from_it(changed: Callable[[str], str], tmp_path: Path) -> None:
    smiles = ["CCO", "C[C@H](N)C(=O)O", "F/C=C/F", "[NH4+]"]
    (path := tmp_path / "a.sdf").write_text(changed("".join(map(_record, smiles))))
    assert [record.text for record in read_structures(path)] == [Chem.CanonSmiles(text) for text in smiles]


def test_a_title_in_another_encoding_than_utf8_is_read_as_latin1(tmp_path: Path) -> None:
    block = _record("CCO").split("\n", 1)[1]
    (path := tmp_path / "a.sdf").write_bytes(f"Müller 7\n{block}".encode("latin-1"))
    assert next(read_structures(path)).name == "Müller 7"
