"""Libraries that are counted and read by number: a scaffold with lists of R-groups, a reaction with lists of reactants.

Combination `i` takes one block of each list; the last list changes fastest, so the order is that of nested loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import prod
from typing import Any, Protocol

from sciagent.chemistry.molecule import MAX_CHARACTERS
from sciagent.chemistry.molecule_files import MAX_NAME
from sciagent.chemistry.rdkit_messages import rdkit_messages
from sciagent.domain.safe_text_and_durations import cut
from sciagent.errors import UsageError

MAX_COUNTED = 5000
"""Largest number of combinations of a reaction whose products are counted."""
MAX_PRODUCTS = 1000
"""Largest number of products of one combination, before equal ones are joined."""


@dataclass(frozen=True)
class Block:
    """An R-group or a reactant."""

    smiles: str
    name: str = ""
    """The name that its products carry; empty: its SMILES."""

    @property
    def label(self) -> str:
        return self.name or self.smiles


def block(text: str) -> Block:
    """Returns the block of a text `SMILES` or `SMILES name`."""
    smiles, _, name = text.strip().partition(" ")
    return Block(smiles, name.strip())


class Combinations(Protocol):
    """A library of products."""

    @property
    def size(self) -> int:
        """Number of combinations."""

    @property
    def n_products(self) -> int | None:
        """Number of products; None if it is not known before they are made."""

    def products(self, number: int) -> Sequence[str]:
        """Returns the products of a combination as SMILES. number: from 0 to `size` - 1."""

    def names(self, number: int) -> Mapping[str, str]:
        """Returns the names of the blocks of a combination, by the column that keeps them. With several blocks, the
        first entry is the name of their product."""


class _Lists:
    """Lists of blocks, from which combinations are taken by number."""

    def __init__(self, lists: Mapping[str, Sequence[Block]], separator: str) -> None:
        """lists: by the column under which a product carries the name of its block. separator: the text between the
        names of the blocks in the name of a product."""
        self._lists = lists
        self._separator = separator

    @property
    def size(self) -> int:
        return prod(len(blocks) for blocks in self._lists.values())

    def names(self, number: int) -> dict[str, str]:
        """Returns the names of the blocks of a combination, as `Combinations.names`."""
        labels = [chosen.label for chosen in self.chosen(number)]
        names = {}
        if len(labels) > 1:
            names["name"] = self._separator.join(labels)
        names.update(zip(self._lists, labels, strict=True))
        return {field: cut(name, MAX_NAME) for field, name in names.items()}

    def chosen(self, number: int) -> list[Block]:
        """Returns the blocks of a combination, in the order of the lists."""
        last_first = []
        for blocks in reversed(list(self._lists.values())):  # the last list changes fastest
            number, place = divmod(number, len(blocks))
            last_first.append(blocks[place])
        return last_first[::-1]


class ScaffoldLibrary(_Lists):
    """A scaffold whose attachment points `[*:1]`, `[*:2]`, … each take every group of a list.

    groups: by the number of the attachment point. A number that the scaffold has twice takes the same group twice. A
    group binds by its `*`, or by its first atom if it has none; `[H]` is hydrogen. Raises UsageError for a scaffold or
    a group that cannot be used, and for numbers that differ.
    """

    def __init__(self, scaffold: str, groups: Mapping[int, Sequence[Block]]) -> None:
        check_scaffold(scaffold, groups)
        self._scaffold = molecule_of(scaffold)
        self._numbers = sorted(groups)
        blocks = chain.from_iterable(groups[number] for number in self._numbers)
        self._groups = {block.smiles: group_of(block.smiles) for block in blocks}
        super().__init__({f"R{number}": groups[number] for number in self._numbers}, separator=", ")

    @property
    def n_products(self) -> int:
        return self.size

    def products(self, number: int) -> list[str]:
        """Returns the product; an empty text if the atoms cannot be joined, so that the combination is not lost."""
        from rdkit import Chem

        groups = [self._groups[chosen.smiles] for chosen in self.chosen(number)]
        group_of_point = dict(zip(self._numbers, groups, strict=True))
        scaffold = Chem.RWMol(self._scaffold)
        points = [atom for atom in scaffold.GetAtoms() if not atom.GetAtomicNum()]
        fragments = []
        for label, point in enumerate(points, start=1):  # `molzip` joins atoms with equal labels
            group = Chem.Mol(group_of_point[point.GetAtomMapNum()])
            _dummy(group).SetAtomMapNum(label)
            point.SetAtomMapNum(label)
            fragments.append(group)
        joined = scaffold.GetMol()
        for group in fragments:
            joined = Chem.CombineMols(joined, group)
        with rdkit_messages():
            try:
                product = Chem.molzip(joined)
                Chem.SanitizeMol(product)
                return [Chem.MolToSmiles(Chem.RemoveHs(product))]
            except (ValueError, RuntimeError):
                return [""]


class ReactionLibrary(_Lists):
    """A reaction by RDKit's SMARTS, whose reactant templates each take every reactant of a list.

    reactants: by the number of the template, from 1. A combination that reacts at several places has several products,
    in the order of their SMILES. Reactants that lack the template's groups are left out (`left_out`). Raises UsageError
    for a reaction or a reactant that cannot be used, and for a list without any that reacts.
    """

    def __init__(self, reaction: str, reactants: Mapping[int, Sequence[Block]]) -> None:
        self._reaction = check_reaction(reaction, reactants)
        templates = sorted(reactants)
        blocks = chain.from_iterable(reactants[number] for number in templates)
        self._molecules = {block.smiles: molecule_of(block.smiles) for block in blocks}
        self.left_out: dict[str, list[Block]] = {}
        """Reactants that lack the group of their template, by the name of the list."""
        lists = {}
        for number in templates:
            template = self._reaction.GetReactantTemplate(number - 1)
            reacting = []
            for reactant in reactants[number]:
                if self._molecules[reactant.smiles].HasSubstructMatch(template):
                    reacting.append(reactant)
            if not reacting:
                raise UsageError(f"no reactant {number} has the group that the reaction needs there")
            lists[f"reactant {number}"] = reacting
            self.left_out[f"reactant {number}"] = [
                reactant for reactant in reactants[number] if reactant not in reacting
            ]
        super().__init__(lists, separator=" + ")

    @cached_property
    def n_products(self) -> int | None:
        if self.size > MAX_COUNTED:
            return None
        return sum(len(self.products(number)) for number in range(self.size))

    def products(self, number: int) -> list[str]:
        """Returns the products of a combination as SMILES, sorted."""
        from rdkit import Chem

        smiles_of_products = set()
        molecules = tuple(self._molecules[chosen.smiles] for chosen in self.chosen(number))
        with rdkit_messages():
            for (product,) in self._reaction.RunReactants(molecules, maxProducts=MAX_PRODUCTS):
                try:
                    Chem.SanitizeMol(product)
                    written = Chem.MolToSmiles(product)
                    smiles_of_products.add(Chem.MolToSmiles(Chem.MolFromSmiles(written)))
                except (ValueError, RuntimeError, TypeError):  # TypeError: the SMILES that was written cannot be read
                    continue
        return sorted(smiles_of_products)


def check_scaffold(scaffold: str, numbers: Iterable[int]) -> None:
    """Raises UsageError unless the scaffold has attachment points `[*:1]`, … with one bond each and these numbers."""
    dummies = [atom for atom in molecule_of(scaffold).GetAtoms() if not atom.GetAtomicNum()]
    if not dummies or not all(atom.GetAtomMapNum() and atom.GetDegree() == 1 for atom in dummies):
        raise UsageError(f'"{scaffold}" needs attachment points with one bond and a number, such as [*:1]')
    points = {atom.GetAtomMapNum() for atom in dummies}
    numbers = set(numbers)
    if points != numbers:
        raise UsageError(f"the scaffold has the points {_listed(points)}, and groups are given for {_listed(numbers)}")


def check_reaction(smarts: str, numbers: Iterable[int]) -> Any:
    """Returns the reaction. Raises UsageError if it is none, or takes other reactants than these numbers."""
    reaction = reaction_of(smarts)
    places = set(range(1, reaction.GetNumReactantTemplates() + 1))
    numbers = set(numbers)
    if places != numbers:
        raise UsageError(f"the reaction takes reactants {_listed(places)}, and lists are given for {_listed(numbers)}")
    return reaction


def _listed(numbers: Iterable[int]) -> str:
    """Returns the numbers in ascending order as text, or `none`."""
    return ", ".join(map(str, sorted(numbers))) or "none"


def reaction_of(smarts: str) -> Any:
    """Returns the reaction. Raises UsageError if the SMARTS is none, or has not exactly one product."""
    from rdkit.Chem import rdChemReactions

    with rdkit_messages():
        try:
            reaction = rdChemReactions.ReactionFromSmarts(smarts)
            reaction.Initialize()
            _, n_errors = reaction.Validate(silent=True)
        except (ValueError, RuntimeError):
            n_errors = 1
    if n_errors:
        raise UsageError(f'"{smarts}" is no reaction SMARTS, such as [C:1](=[O:2])[OH].[N;H2:3]>>[C:1](=[O:2])[N:3]')
    if reaction.GetNumProductTemplates() != 1 or not reaction.GetNumReactantTemplates():
        raise UsageError(f'"{smarts}" must have reactants and exactly one product')
    return reaction


def molecule_of(smiles: str) -> Any:
    """Returns the molecule. Raises UsageError for a text that is too long or no SMILES."""
    from rdkit import Chem

    if len(smiles) > MAX_CHARACTERS:
        raise UsageError(f'"{smiles[:40]}…" has {len(smiles)} characters; the limit of a SMILES is {MAX_CHARACTERS}')
    with rdkit_messages():
        mol = Chem.MolFromSmiles(smiles)
    if mol is None or not mol.GetNumAtoms():
        raise UsageError(f'"{smiles}" is no SMILES')
    return mol


def group_of(smiles: str) -> Any:
    """Returns a group with exactly one dummy atom, where it binds. Raises UsageError."""
    from rdkit import Chem

    mol = molecule_of(smiles)
    dummies = [atom for atom in mol.GetAtoms() if not atom.GetAtomicNum()]
    if len(dummies) > 1 or any(atom.GetDegree() != 1 for atom in dummies):
        raise UsageError(f'the group "{smiles}" needs exactly one *, with one bond')
    if dummies:
        return mol
    bound = Chem.RWMol(mol)
    dummy = bound.AddAtom(Chem.Atom(0))
    bound.AddBond(0, dummy, Chem.BondType.SINGLE)  # to the first atom
    return bound.GetMol()


def _dummy(group: Any) -> Any:
    """Returns the dummy atom of a group of `group_of`."""
    [dummy] = [atom for atom in group.GetAtoms() if not atom.GetAtomicNum()]
    return dummy
