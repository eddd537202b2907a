"""Reads the lists of a proposer `enumerate` and makes its library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.file.proposers import EnumerateSpec
from sciagent.chemistry.combinatorial_libraries import Block, Combinations, ReactionLibrary, ScaffoldLibrary, block
from sciagent.chemistry.molecule_files import read_structures
from sciagent.errors import InputFileError

MAX_SHOWN = 5  # reactants that a message names


def library_of(spec: EnumerateSpec, base: Path) -> Combinations:
    """Returns the library of products. base: folder where relative paths start.

    Raises UsageError for a block that cannot be used, and InputFileError for a file that cannot be read, has no blocks,
    or has a record without a structure.
    """
    if spec.scaffold is not None:
        return ScaffoldLibrary(spec.scaffold, _lists(spec.groups, base, spec.column))
    return ReactionLibrary(spec.reaction or "", _lists(spec.reactants, base, spec.column))


def unused_reactants(spec: CampaignSpec) -> Iterator[str]:
    """Yields a sentence for each list of reactants of which the reaction cannot use some. Raises as `library_of`."""
    for _, chosen in spec.proposers:
        if not isinstance(chosen, EnumerateSpec):
            continue
        library = library_of(chosen, spec.base)
        if not isinstance(library, ReactionLibrary):
            continue
        for name, blocks in library.left_out.items():
            if blocks:
                first = ", ".join(each.label for each in blocks[:MAX_SHOWN])
                more = f" and {len(blocks) - MAX_SHOWN} more" if len(blocks) > MAX_SHOWN else ""
                yield f"{name}: {len(blocks)} left out, without the group that the reaction needs there: {first}{more}"


def _lists(stated: Mapping[int, str | Sequence[str]], base: Path, column: str) -> dict[int, list[Block]]:
    """Returns the blocks of each list, by its number. stated: for each list the name of a file, or texts."""
    lists = {}
    for number, blocks in sorted(stated.items()):
        if isinstance(blocks, str):
            lists[number] = _read(base / blocks, column)
        else:
            lists[number] = [block(text) for text in blocks]
    return lists


def _read(path: Path, column: str) -> list[Block]:
    blocks = []
    for record in read_structures(path, column):
        if not record.text:
            raise InputFileError(f"{path}: {record.fault or f'record {record.number + 1} has no structure'}")
        blocks.append(Block(record.text, record.name))
    if not blocks:
        raise InputFileError(f"{path}: holds no structures")
    return blocks
