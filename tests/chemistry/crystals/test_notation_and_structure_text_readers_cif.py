"""CIF text of strangers is bounded, and nothing in it is evaluated."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sciagent.chemistry.crystals.notation_and_structure_text_readers import cif_blocks, crystal_from_cif, read_crystal
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError

HEAD = (
    "data_x\n_cell_length_a {a}\n_cell_length_b {a}\n_cell_length_c {a}\n"
    "_cell_angle_alpha 90\n_cell_angle_beta 90\n_cell_angle_gamma 90\n"
)
ATOMS = "loop_\n_atom_site_label\n_atom_site_type_symbol\n_atom_site_fract_x\n_atom_site_fract_y\n_atom_site_fract_z\n"
OCCUPIED = ATOMS.replace("_atom_site_fract_x", "_atom_site_occupancy\n_atom_site_fract_x")
OPERATIONS = "loop_\n_symmetry_equiv_pos_as_xyz\n"
SALT = HEAD.format(a=5.64) + "_symmetry_space_group_name_H-M 'F m -3 m'\n" + ATOMS + "Na Na 0 0 0\nCl Cl .5 .5 .5\n"

BOMBS = {
    "a billion sites": HEAD.format(a=1000) + ATOMS + "".join(f"Na Na {i / 3000} 0 0\n" for i in range(3000)),
    "many operations": HEAD.format(a=50) + OPERATIONS + "x,y,z\n" * 100_000 + ATOMS + "Na Na 0 0 0\n",
    "atoms times operations": HEAD.format(a=50)
    + OPERATIONS
    + "".join(f"x+{i}/192,y,z\n" for i in range(192))
    + ATOMS
    + "".join(f"Na Na {i / 500} {i / 700} 0\n" for i in range(400)),
    "blank lines": HEAD.format(a=5) + "\n \t" * 200_000 + ATOMS + "Na Na 0 0 0\nNa",
    "quotes": HEAD.format(a=5) + "'" * 400_000 + "\n" + ATOMS + "Na Na 0 0 0\n",
    "quotes in lines": HEAD.format(a=5) + ("'" * 190 + "a" * 3800 + "\n") * 200 + ATOMS + "Na Na 0 0 0\n",
    "a huge number": HEAD.format(a="1e309") + ATOMS + "Na Na 0 0 0\n",
    "no number": HEAD.format(a="nan") + ATOMS + "Na Na nan 0 0\n",
    "a flat cell": HEAD.format(a=5).replace("gamma 90", "gamma 0.0001") + ATOMS + "Na Na 0 0 0\n",
    "a thin cell": HEAD.format(a=900).replace("c 900", "c 0.01") + ATOMS + "Na Na 0 0 0\n",
    "a division by zero": HEAD.format(a=5) + OPERATIONS + "1/0+x,y,z\n" + ATOMS + "Na Na 0 0 0\n",
    "digits": HEAD.format(a="9" * 4000) + ATOMS + "Na Na 0 0 0\n",
    "no element": HEAD.format(a=5) + ATOMS + "Na Xx 0 0 0\n",
    "occupancies": HEAD.format(a=5) + OCCUPIED + "Na Na 0.5 0 0 0\n",
    "half a line": SALT[:-9],
    "nothing": "data_x\n",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_garbage_is_refused_within_seconds(name: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidCandidateError):
        read_crystal(BOMBS[name])
    assert time.process_time() - started < 8


@pytest.mark.parametrize(
    "code", ["__import__('pathlib').Path({path!r}).touch()", "().__class__.__base__.__subclasses__()", "exec('x')"]
)
def test_no_text_is_evaluated(tmp_path: Path, code: str) -> None:
    """Symmetry operations and transformations as code, as in CVE-2024-23346."""
    code = code.format(path=str(tmp_path / "ran"))
    magnetic = f'_space_group_magn.transform_BNS_Pp_abc "a,b,[d for d in [{code}]]+c;0,0,0"\n'
    magnetic += "_space_group_magn.number_BNS 62.448\n_space_group_magn.name_BNS \"P n' m a'\"\n"
    for text in (
        SALT.replace("data_x\n", "data_x\n" + magnetic),
        HEAD.format(a=5) + OPERATIONS + f'"{code},y,z"\n' + ATOMS + "Na Na 0 0 0\n",
        HEAD.format(a=code) + ATOMS + "Na Na 0 0 0\n",
        SALT.replace("Na Na 0 0 0", f'Na Na "{code}" 0 0'),
    ):
        try:
            read_crystal(text)
        except InvalidCandidateError:
            pass
    assert not (tmp_path / "ran").exists()


def test_symmetry_by_name_and_by_operations_is_applied() -> None:
    assert crystal_from_cif(SALT).formula == "NaCl"
    assert crystal_from_cif(SALT).n_atoms == 2
    symmetric = crystal_from_shorthand("spinel: Mg Al O").structure.to(fmt="cif", symprec=0.01)
    assert crystal_from_cif(symmetric).n_atoms == 14


def test_the_block_with_atoms_is_found_among_others() -> None:
    text = "data_global\n_journal_name 'X'\n;\ndata_in_a_text_field\n;\n" + SALT + "data_more\n_a 1\n"
    assert [name for name, _ in cif_blocks(text.splitlines())] == ["x"]
    assert crystal_from_cif(text).formula == "NaCl"
    with pytest.raises(InvalidCandidateError, match="2 structures") as caught:
        crystal_from_cif(SALT + SALT.replace("data_x", "data_y"))
    assert caught.value.reason is Reason.UNPARSABLE


def test_embedded_reflections_do_not_count() -> None:
    field = "_refln_text\n;\n" + "1 2 3 4.5 6.7\n" * 100_000 + ";\n"
    block = next(iter(cif_blocks((SALT + field).splitlines())))[1]
    assert len(block) < 1000


@pytest.mark.parametrize(("written", "read"), [("0.33337000", 0.33337), ("0.3333", 1 / 3), ("0.3333(2)", 1 / 3)])
def test_only_short_coordinates_are_set_to_special_values(written: str, read: float) -> None:
    text = HEAD.format(a=6) + ATOMS + f"Na Na 0 0 0\nCl Cl {written} 0.1 0.2\n"
    structure = crystal_from_cif(text).structure
    assert structure.get_distance(0, 1) == pytest.approx(6 * (read**2 + 0.1**2 + 0.2**2) ** 0.5, abs=1e-6)
