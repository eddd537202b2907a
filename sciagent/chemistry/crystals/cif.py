"""Reads structures in CIF text of strangers: each block is trimmed and counted before pymatgen interprets it.

pymatgen parses symmetry operations by regular expressions and evaluates no text. Its time grows with atoms times
operations, both of which a short text can state, and with the square of some runs of characters; hence the bounds.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping

from sciagent.chemistry.crystal import MAX_SITES, NO_PYMATGEN, Crystal
from sciagent.chemistry.crystals.cell import MAX_CHARACTERS, bounded_crystal
from sciagent.domain.outcomes import Reason
from sciagent.errors import InvalidCandidateError, UsageError

MAX_OPERATIONS = 192
"""Operations of the largest space groups, with the translations of a face-centred cell."""
MAX_IMAGES = 20_000
"""Largest number of atom rows times operations."""
MAX_QUOTES = 4000
"""Largest number of quotation marks in a block; 192 quoted operations have 384."""
MAX_LINE = 4096
"""Longest line, in characters; the standard has 2,048."""
EXACT_DECIMALS = 6
"""Number of decimals from which on coordinates are taken as they are."""
SNAP = 1e-4
"""Distance of a shorter coordinate from a special value, such as 0.3333 from 1/3, at which it is set to it."""
_OPERATIONS = (
    "_symmetry_equiv_pos_as_xyz",
    "_space_group_symop_operation_xyz",
    "_symmetry_equiv_pos_as_xyz_",
    "_space_group_symop_operation_xyz_",
)
_START = re.compile(r"^[ \t]*data_|^[ \t]*_cell_length_a\b", re.MULTILINE | re.IGNORECASE)
_ATOMS = re.compile(r"^[ \t]*_atom_site_fract_x\b", re.MULTILINE | re.IGNORECASE)
_MAGNETIC = re.compile(r"^[ \t]*_(space_group_magn|cell_wave_vector|atom_site_moment)", re.MULTILINE | re.IGNORECASE)


def is_cif(text: str) -> bool:
    """Returns whether the text looks like CIF."""
    return _START.search(text) is not None


def cif_blocks(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields (name, text) of each data block that lists atoms, without blank lines, comments and text fields.

    A text field, such as embedded reflections, becomes a question mark, which is CIF for an unknown value.
    """
    name, kept, size, in_text = "", list[str](), 0, False
    for raw in lines:
        line = raw.rstrip()
        if line.startswith(";"):
            in_text = not in_text
            if in_text:
                kept.append("?")
                size += 2
            elif line[1:].strip():
                kept.append(line[1:].strip())
            continue
        if in_text or not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.lstrip().lower().startswith("data_"):
            if _ATOMS.search(block := "\n".join(kept)):
                yield name, block
            name, kept, size = line.strip()[5:], [], 0
        if size <= MAX_CHARACTERS:  # a longer block is refused by its length, so the rest of it is not needed
            kept.append(line)
            size += len(line) + 1
    if _ATOMS.search(block := "\n".join(kept)):
        yield name, block


def crystal_from_cif(text: str) -> Crystal:
    """Returns the crystal of a CIF with one structure. Raises InvalidCandidateError."""
    blocks = [block for _, block in cif_blocks(text.splitlines())]
    if len(blocks) != 1:
        detail = f"the CIF lists the atoms of {len(blocks)} structures; give one"
        raise InvalidCandidateError(Reason.UNPARSABLE if blocks else Reason.EMPTY, detail)
    block = blocks[0]
    if _MAGNETIC.search(block):
        detail = "a magnetic or modulated CIF; give the nuclear structure"
        raise InvalidCandidateError(Reason.UNPARSABLE, detail)
    if block.count("'") + block.count('"') > MAX_QUOTES or max(map(len, block.splitlines())) > MAX_LINE:
        detail = f"the CIF has a line of over {MAX_LINE} characters, or over {MAX_QUOTES} quotation marks"
        raise InvalidCandidateError(Reason.TOO_LONG, detail)
    return _parsed(block if block.lstrip().lower().startswith("data_") else f"data_x\n{block}")


def _parsed(block: str) -> Crystal:
    try:
        from pymatgen.io.cif import CifFile, CifParser
    except ImportError as error:
        raise UsageError(NO_PYMATGEN) from error

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            (content,) = CifFile.from_str(block).data.values()
            _check_counts(content.data)
            parser = CifParser.from_str(block, check_cif=False, frac_tolerance=_snap(content.data))
            structure = parser.parse_structures(primitive=False, on_error="raise")[0]
        except InvalidCandidateError:
            raise
        except Exception as error:  # pymatgen's parser raises many types without a common base
            detail = f"not a readable CIF: {type(error).__name__}: {error}"
            raise InvalidCandidateError(Reason.UNPARSABLE, " ".join(detail.split())[:300]) from error
        return bounded_crystal(structure)


def _check_counts(data: Mapping[str, object]) -> None:
    """Raises InvalidCandidateError for more atoms or symmetry operations than a crystal of MAX_SITES sites has."""
    rows = _length(data.get("_atom_site_fract_x"))
    operations = max(_length(data.get(tag)) for tag in _OPERATIONS)
    if rows > MAX_SITES or operations > MAX_OPERATIONS or rows * operations > MAX_IMAGES:
        detail = f"{rows} atom rows and {operations} symmetry operations; at most {MAX_SITES} sites"
        raise InvalidCandidateError(Reason.TOO_LARGE, detail)


def _snap(data: Mapping[str, object]) -> float:
    """Returns how near a coordinate has to be to 1/3 or another special value to be set to it.

    It is 0 for coordinates of many decimals, which mean what they say."""
    columns = [data.get(f"_atom_site_fract_{axis}") for axis in "xyz"]
    values = [str(value) for column in columns for value in (column if isinstance(column, list) else [column])]
    decimals = max(len(value.partition("(")[0].partition(".")[2]) for value in values)
    return 0.0 if decimals >= EXACT_DECIMALS else SNAP


def _length(values: object) -> int:
    return len(values) if isinstance(values, list) else 1
