"""Finds the molecule that a model names: by SMILES, by rank, or by the first digits of its key."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from sciagent.agent.tools.reading import CallError
from sciagent.agent.tools.registry import AgentBench
from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.text import short, shown
from sciagent.errors import InvalidCandidateError

LOOK = 200  # number of best and of latest molecules in which a rank or key is looked up

MAX_SMILES = 400

Reference = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_SMILES,
        description='a SMILES, a rank in `best` such as "#1", or the first 8 digits or more of a key',
    ),
]
_RANK = re.compile(r"#(\d{1,6})")
_KEY = re.compile(r"[0-9a-f]{8,64}")
_NOT_SMILES = re.compile(r"[^A-Za-z0-9@+\-\[\]()=#$/\\%.:*~]")


def plain_smiles(text: str) -> str:
    """Returns the text if it contains only characters of SMILES. Raises CallError."""
    if odd := _NOT_SMILES.search(text):
        raise CallError(
            f"{shown(odd[0])} at position {odd.start() + 1} of {shown(text)} is not used in SMILES; "
            "write one molecule such as Cc1ccncc1, without blanks or quotes"
        )
    return text


def find(reference: str, bench: AgentBench) -> Molecule:
    """Returns the molecule that the reference names. Raises CallError."""
    if rank := _RANK.fullmatch(reference):
        return _ranked(int(rank[1]), bench)
    if _KEY.fullmatch(reference) and (text := _by_key(reference, bench)) is not None:
        return _read(text)
    if reference.startswith("#"):
        raise CallError(f'{shown(reference)} is no rank; write "#1" for the best molecule, "#2" for the next')
    return _read(plain_smiles(reference))


def _ranked(rank: int, bench: AgentBench) -> Molecule:
    best = bench.best(min(rank, LOOK)) if rank else []
    if not 1 <= rank <= len(best):
        have = f"the last of {len(best)} is #{len(best)}" if best else "nothing is ranked yet; give a SMILES"
        raise CallError(
            f"there is no #{rank}; ranks begin with #1, as `best` lists them" + (f"; {have}" if rank else "")
        )
    return _read(best[rank - 1].text)


def _by_key(digits: str, bench: AgentBench) -> str | None:
    """Returns the molecule whose key begins with these digits, or None: `c1ccccc1`, also hexadecimal, is benzene."""
    matches = {molecule.key: molecule.text for molecule in bench.best(LOOK) if molecule.key.startswith(digits)}
    for past in bench.recent(LOOK):
        if past["key"] and past["key"].startswith(digits):
            matches.setdefault(past["key"], past["text"])
    if len(matches) > 1:
        keys = ", ".join(sorted(matches)[:3])
        raise CallError(f"{len(matches)} keys begin with {digits}; write more digits of one: {keys}")
    return next(iter(matches.values()), None)


def _read(text: str) -> Molecule:
    try:
        return parse_molecule(text)
    except InvalidCandidateError as error:
        if _KEY.fullmatch(text):
            raise CallError(
                f"no key among the best and the latest {LOOK} begins with {text}; give the molecule's SMILES"
            ) from None
        raise CallError(
            f"{shown(text)} is no molecule ({error.reason}: {short(error.detail, 160)}); "
            'write a valid SMILES of one molecule, or "#1" for the best so far'
        ) from None
