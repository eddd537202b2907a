"""Reads the lists of a proposer `enumerate` and makes its library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sciagent.campaign.spec.sources import EnumerateSpec
from sciagent.chemistry.combinations import Block, Combinations, ReactionLibrary, ScaffoldLibrary, block
from sciagent.chemistry.structure_files import read_structures
from sciagent.errors import InputFileError


def library_of(spec: EnumerateSpec, base: Path) -> Combinations:
    """Returns the library of products. base: folder where relative paths start.

    Raises UsageError for a block that cannot be used, and InputFileError for a file that cannot be read, has no blocks,
    or has a record without a structure.
    """
    if spec.scaffold is not None:
        return ScaffoldLibrary(spec.scaffold, _lists(spec.groups, base, spec.column))
    return ReactionLibrary(spec.reaction or "", _lists(spec.reactants, base, spec.column))


def _lists(stated: Mapping[int, str | Sequence[str]], base: Path, column: str) -> dict[int, list[Block]]:
    return {
        number: _read(base / blocks, column) if isinstance(blocks, str) else [block(text) for text in blocks]
        for number, blocks in sorted(stated.items())
    }


def _read(path: Path, column: str) -> list[Block]:
    blocks = []
    for record in read_structures(path, column):
        if not record.text:
            raise InputFileError(f"{path}: {record.fault or f'record {record.number + 1} has no structure'}")
        blocks.append(Block(record.text, record.name))
    if not blocks:
        raise InputFileError(f"{path}: holds no structures")
    return blocks
