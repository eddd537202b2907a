"""Tables of molecules as other programs write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.structure_files import read_structures
from sciagent.errors import InputFileError


@pytest.mark.parametrize(
    ("content", "place"), [(b"smiles,name\rCCO,a\rCC,b\r", "1:1"), (b"smiles,name\nCCO,a\rCC,b\n", "2:1")]
)
def test_a_bare_carriage_return_is_named_at_its_line(content: bytes, place: str, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_bytes(content)
    with pytest.raises(InputFileError, match=rf"old\.csv:{place}: a carriage return without a line feed"):
        list(read_structures(tmp_path / "old.csv"))
