"""Finds the molecule that a model names: by SMILES, by number, or by the first digits of its key.

A number is given to each molecule that an episode lists or proposes, in that order. It names the same molecule until
the episode ends, whatever is found later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Protocol

from pydantic import Field

from sciagent.agent.tools.reading import CallError
from sciagent.agent.tools.registry import AgentBench
from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.text import short, shown
from sciagent.errors import InvalidCandidateError

LOOK = 200  # number of best and of latest molecules in which a key is looked up

MAX_SMILES = 400

Reference = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_SMILES,
        description='a SMILES, the number by which a molecule was shown, such as "#1", or 8 digits or more of a key',
    ),
]
_NUMBER = re.compile(r"#(\d{1,6})")
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


class Numbered(Protocol):
    """The part of a tool's context that knows molecules."""

    @property
    def bench(self) -> AgentBench: ...
    @property
    def numbered(self) -> list[str]: ...


def find(reference: str, run: Numbered) -> Molecule:
    """Returns the molecule that the reference names. Raises CallError."""
    bench = run.bench
    if number := _NUMBER.fullmatch(reference):
        return _read(_of_number(int(number[1]), run.numbered))
    if _KEY.fullmatch(reference) and (text := _by_key(reference, bench)) is not None:
        return _read(text)
    if reference.startswith("#"):
        raise CallError(f'{shown(reference)} is no number; write "#1" for the first molecule shown, "#2" for the next')
    return _read(plain_smiles(reference))


def number_of(text: str, numbered: list[str]) -> int:
    """Returns the number of a molecule, from 1; a molecule that has none gets the next."""
    if text not in numbered:
        numbered.append(text)
    return numbered.index(text) + 1


def _of_number(number: int, numbered: Sequence[str]) -> str:
    if not 1 <= number <= len(numbered):
        have = f"the last so far is #{len(numbered)}" if numbered else "nothing has a number yet; give a SMILES"
        raise CallError(f"there is no #{number}; {have}")
    return numbered[number - 1]


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
            'write a valid SMILES of one molecule, or "#1" for the first one shown'
        ) from None
