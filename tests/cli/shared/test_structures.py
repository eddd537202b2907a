"""A structure on the command line is a text or the name of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.cli.shared.structures import structure
from sciagent.errors import UsageError


def test_a_file_stands_for_its_content_and_a_missing_one_is_no_structure(tmp_path: Path) -> None:
    (file := tmp_path / "halite.cif").write_text("data_halite\n")
    assert structure(str(file)) == "data_halite\n"
    assert structure("rocksalt: Na Cl") == "rocksalt: Na Cl"
    assert structure("data_a\n_cell_length_a 5.6\n# from a.cif") == "data_a\n_cell_length_a 5.6\n# from a.cif"
    with pytest.raises(UsageError, match=r'no such file: "halide\.cif"'):
        structure("halide.cif")
