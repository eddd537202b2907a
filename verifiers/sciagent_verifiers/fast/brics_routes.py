"""A route finder that cuts BRICS bonds until every piece can be bought.

It answers quickly whether common couplings make the molecule from stock: amides, esters, sulfonamides, ethers and
amines by alkylation or arylation, Suzuki couplings. One BRICS bond is cut at a time, and both ends get the functional
groups of the coupling. Each piece must be in stock or is cut again.

A route is not a synthesis plan. The finder forms no rings and ignores selectivity, protecting groups, conditions and
interfering functional groups; it has no alkene couplings (BRICS type 7). A planner with learned reaction templates can
use the same entry point.

Source of the bonds: Degen, Wegscheid-Gerlach, Zaliani, Rarey, ChemMedChem 3, 1503 (2008), doi 10.1002/cmdc.200800178.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sciagent.chemistry.rdkit_messages import rdkit_messages
from sciagent.verification.route_finder_plugins_and_route_checks import Reaction, Route, Stock

# The numbers are BRICS types: the kinds of atom at the ends of a bond.
_NUCLEOPHILES = frozenset({3, 5, 9, 10, 11})  # O, N, n, lactam N, S; the reactant has hydrogen at the cut bond
_HALIDES = ("Br", "Cl", "I")
_ELECTROPHILES: dict[int, tuple[str, ...]] = {
    1: ("O", "Cl"),  # acyl: acid, acid chloride
    4: (*_HALIDES, "O"),  # alkyl
    6: ("O", "Cl"),  # acyl
    8: (*_HALIDES, "O"),  # alkyl
    12: ("Cl",),  # sulfonyl chloride
    13: (*_HALIDES, "O"),  # alkyl in a ring
    14: (*_HALIDES, "F"),  # heteroaryl
    15: (*_HALIDES, "O"),  # alkyl in a ring
    16: (*_HALIDES, "F"),  # aryl
}
"""{BRICS type of an electrophile: groups that its reactant may have at the cut bond}."""
_BORONIC = frozenset({14, 16})  # the end with boron in a Suzuki coupling; aryl only, since aryl boronic acids are sold
_SUZUKI_PARTNERS = frozenset({6, 8, 13, 14, 15, 16})  # the end with a halogen in a Suzuki coupling
_ATOMIC_NUMBERS = {"O": 8, "F": 9, "Cl": 17, "Br": 35, "I": 53, "B": 5}


@dataclass
class _Search:
    """The state of one search: the cuts left and the answers cached so far."""

    stock: Stock
    remaining_cuts: int
    is_in_stock: dict[str, bool] = field(default_factory=dict)
    """{SMILES: whether the stock has it}."""
    solved: dict[tuple[str, int], tuple[Reaction, ...] | None] = field(default_factory=dict)
    """{(SMILES, largest number of steps): reactions that make it, or None if there are none}."""

    def has(self, smiles: str) -> bool:
        """Returns whether the molecule is in stock."""
        if smiles not in self.is_in_stock:
            self.is_in_stock[smiles] = smiles in self.stock
        return self.is_in_stock[smiles]


class BricsRoutes:
    """A route finder. settings: `max_steps` (1 to 5, over all branches), `max_cuts` (largest number of cuts tried)."""

    name: ClassVar[str] = "brics"
    version: ClassVar[str] = "1"
    defaults: ClassVar[Mapping[str, Any]] = {"max_steps": 3, "max_cuts": 200}

    max_steps: int
    max_cuts: int

    def __init__(self, settings: Mapping[str, Any]) -> None:
        values = {**self.defaults, **settings}
        for name, (low, high) in {"max_steps": (1, 5), "max_cuts": (1, 10_000)}.items():
            value = values.pop(name)
            if type(value) is not int or not low <= value <= high:  # True is an `int`, too
                raise ValueError(f"{name} is a whole number from {low} to {high}")
            setattr(self, name, value)
        unknown = sorted(values)
        if unknown:
            raise ValueError(f"unknown: {', '.join(unknown)}; takes: {', '.join(self.defaults)}")

    def find(self, smiles: str, stock: Stock) -> Route | None:
        """Returns the first route with the fewest steps within the limits, or None."""
        search = _Search(stock, remaining_cuts=self.max_cuts)
        if search.has(smiles):
            return Route()
        with rdkit_messages():
            for steps in range(1, self.max_steps + 1):
                reactions = self._solve(smiles, steps, search)
                if reactions is not None:
                    return Route(reactions)
        return None

    def _solve(self, smiles: str, steps: int, search: _Search) -> tuple[Reaction, ...] | None:
        """Returns at most `steps` reactions that make the molecule, or None."""
        if (smiles, steps) not in search.solved:
            search.solved[smiles, steps] = None  # prevents a route in which the molecule is its own precursor
            first_route = next(self._routes(smiles, steps, search), None)
            search.solved[smiles, steps] = first_route
        return search.solved[smiles, steps]

    def _routes(self, smiles: str, steps: int, search: _Search) -> Iterator[tuple[Reaction, ...]]:
        """Yields routes of at most `steps` reactions that make the molecule from the stock."""
        for reaction in disconnections(smiles):
            search.remaining_cuts -= 1
            if search.remaining_cuts < 0:
                return
            missing = sorted({reactant for reactant in reaction.reactants if not search.has(reactant)})
            if not missing:
                yield (reaction,)
            elif len(missing) == 1 and steps > 1:
                earlier_reactions = self._solve(missing[0], steps - 1, search)
                if earlier_reactions:
                    yield (reaction, *earlier_reactions)
            elif len(missing) == 2:
                for earlier_reactions in self._routes_to_both(missing[0], missing[1], steps - 1, search):
                    yield (reaction, *earlier_reactions)

    def _routes_to_both(self, first: str, second: str, steps: int, search: _Search) -> Iterator[tuple[Reaction, ...]]:
        """Yields reactions that make both molecules, at most `steps` in total, without a product that is made twice."""
        for first_steps in range(1, steps):
            first_route = self._solve(first, first_steps, search)
            if not first_route:
                continue
            second_route = self._solve(second, steps - first_steps, search)
            if not second_route:
                continue
            first_products = {reaction.product for reaction in first_route}
            second_products = {reaction.product for reaction in second_route}
            if not first_products & second_products:
                yield (*first_route, *second_route)


def disconnections(smiles: str) -> Iterator[Reaction]:
    """Yields all couplings that make the molecule in one step, in the order of its atoms."""
    from rdkit import Chem
    from rdkit.Chem import BRICS

    find: Any = BRICS.FindBRICSBonds
    mol = Chem.MolFromSmiles(smiles)
    for (begin, end), (begin_type, end_type) in sorted(find(mol)):
        bond = mol.GetBondBetweenAtoms(begin, end)
        cut = Chem.FragmentOnBonds(mol, [bond.GetIdx()], dummyLabels=[(0, 0)])
        pieces = Chem.GetMolFrags(cut, asMols=True, sanitizeFrags=False)
        piece_atoms: list[tuple[int, ...]] = list(Chem.GetMolFrags(cut))
        if len(pieces) != 2:
            continue
        begin_piece, end_piece = pieces
        if begin not in piece_atoms[0]:
            end_piece, begin_piece = pieces
        for begin_group, end_group, name in _groups(int(begin_type), int(end_type)):
            begin_reactant = _with_group(begin_piece, begin_group)
            end_reactant = _with_group(end_piece, end_group)
            if begin_reactant is not None and end_reactant is not None:
                yield Reaction(smiles, (begin_reactant, end_reactant), name)


def _groups(first: int, second: int) -> Iterator[tuple[str, str, str]]:
    """Yields the group at the first and at the second end before the coupling, and the coupling's name.

    first, second: BRICS types of the two ends. The group `H` is hydrogen, `B` a boronic acid."""
    for nucleophile, electrophile, is_swapped in ((first, second, False), (second, first, True)):
        if nucleophile in _NUCLEOPHILES and electrophile in _ELECTROPHILES:
            name = _coupling_name(nucleophile, electrophile)
            for group in _ELECTROPHILES[electrophile]:
                yield (group, "H", name) if is_swapped else ("H", group, name)
        if nucleophile in _BORONIC and electrophile in _SUZUKI_PARTNERS:
            halogens = ("Cl",) if electrophile == 6 else _HALIDES  # an acyl group couples as its chloride
            for group in halogens:
                yield (group, "B", "Suzuki coupling") if is_swapped else ("B", group, "Suzuki coupling")


def _coupling_name(nucleophile: int, electrophile: int) -> str:
    """Returns the name of the coupling of two BRICS types."""
    if electrophile in (1, 6):
        return "esterification" if nucleophile == 3 else "acylation"
    if electrophile == 12:
        return "sulfonylation"
    return "arylation" if electrophile in (14, 16) else "alkylation"


def _with_group(piece: Any, group: str) -> str | None:
    """Returns the SMILES of the piece with the group at the cut bond, or None if it is no valid molecule."""
    from rdkit import Chem

    mol = Chem.RWMol(piece)
    [end] = [atom for atom in mol.GetAtoms() if atom.GetAtomicNum() == 0]  # the dummy atom at the cut bond
    if group == "H":
        [neighbour] = end.GetNeighbors()
        if neighbour.GetIsAromatic() or neighbour.GetNoImplicit():  # RDKit adds no hydrogen to such an atom
            neighbour.SetNumExplicitHs(neighbour.GetNumExplicitHs() + 1)
        mol.RemoveAtom(end.GetIdx())
    else:
        end.SetAtomicNum(_ATOMIC_NUMBERS[group])
        end.SetNoImplicit(False)
        if group == "B":
            for _ in range(2):
                oxygen = mol.AddAtom(Chem.Atom(_ATOMIC_NUMBERS["O"]))
                mol.AddBond(end.GetIdx(), oxygen, Chem.BondType.SINGLE)
    try:
        Chem.SanitizeMol(mol)
    except Chem.MolSanitizeException:
        return None
    return str(Chem.MolToSmiles(mol))
