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

from sciagent.chemistry.standardise import rdkit_messages
from sciagent.verification.retrosynthesis import Reaction, Route, Stock

_NUCLEOPHILES = frozenset({3, 5, 9, 10, 11})  # O, N, n, lactam N, S; the reactant has hydrogen at the cut bond
_HALIDES = ("Br", "Cl", "I")
_ELECTROPHILES: dict[int, tuple[str, ...]] = {
    1: ("O", "Cl"),  # acyl: acid, acid chloride
    4: (*_HALIDES, "O"),  # alkyl
    6: ("O", "Cl"),
    8: (*_HALIDES, "O"),
    12: ("Cl",),  # sulfonyl chloride
    13: (*_HALIDES, "O"),
    14: (*_HALIDES, "F"),  # heteroaryl
    15: (*_HALIDES, "O"),
    16: (*_HALIDES, "F"),  # aryl
}
_BORON = frozenset({14, 16})  # aryl only: aryl boronic acids are sold
_COUPLED = frozenset({6, 8, 13, 14, 15, 16})
_NUMBERS = {"O": 8, "F": 9, "Cl": 17, "Br": 35, "I": 53, "B": 5}


@dataclass
class _Search:
    """The state of one search: the cuts left and the answers cached so far."""

    stock: Stock
    left: int
    bought: dict[str, bool] = field(default_factory=dict)
    solved: dict[tuple[str, int], tuple[Reaction, ...] | None] = field(default_factory=dict)

    def has(self, smiles: str) -> bool:
        if smiles not in self.bought:
            self.bought[smiles] = smiles in self.stock
        return self.bought[smiles]


class BricsRoutes:
    """A route finder. settings: `max_steps` (1 to 5, over all branches), `max_cuts` (largest number of cuts tried)."""

    name: ClassVar[str] = "brics"
    version: ClassVar[str] = "1"
    defaults: ClassVar[Mapping[str, Any]] = {"max_steps": 3, "max_cuts": 200}

    def __init__(self, settings: Mapping[str, Any]) -> None:
        whole = {**self.defaults, **settings}
        for name, (low, high) in {"max_steps": (1, 5), "max_cuts": (1, 10_000)}.items():
            value = whole.pop(name)
            if type(value) is not int or not low <= value <= high:
                raise ValueError(f"{name} is a whole number from {low} to {high}")
            setattr(self, name, value)
        if whole:
            raise ValueError(f"unknown: {', '.join(sorted(whole))}; takes: {', '.join(self.defaults)}")

    max_steps: int
    max_cuts: int

    def find(self, smiles: str, stock: Stock) -> Route | None:
        """Returns the first route with the fewest steps within the limits, or None."""
        search = _Search(stock, self.max_cuts)
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
            search.solved[smiles, steps] = next(self._routes(smiles, steps, search), None)
        return search.solved[smiles, steps]

    def _routes(self, smiles: str, steps: int, search: _Search) -> Iterator[tuple[Reaction, ...]]:
        for reaction in disconnections(smiles):
            search.left -= 1
            if search.left < 0:
                return
            missing = sorted({reactant for reactant in reaction.reactants if not search.has(reactant)})
            if not missing:
                yield (reaction,)
            elif len(missing) == 1 and steps > 1:
                if rest := self._solve(missing[0], steps - 1, search):
                    yield (reaction, *rest)
            elif len(missing) == 2:
                for both in self._pairs(missing[0], missing[1], steps - 1, search):
                    yield (reaction, *both)

    def _pairs(self, first: str, second: str, steps: int, search: _Search) -> Iterator[tuple[Reaction, ...]]:
        """Yields reactions that make both molecules, at most `steps` in total, without a product that is made twice."""
        for share in range(1, steps):
            route = self._solve(first, share, search)
            other = self._solve(second, steps - share, search) if route else None
            if route and other and not {r.product for r in route} & {r.product for r in other}:
                yield (*route, *other)


def disconnections(smiles: str) -> Iterator[Reaction]:
    """Yields all couplings that make the molecule in one step, in the order of its atoms."""
    from rdkit import Chem
    from rdkit.Chem import BRICS

    find: Any = BRICS.FindBRICSBonds
    mol = Chem.MolFromSmiles(smiles)
    for (begin, end), (first, second) in sorted(find(mol)):
        bond = mol.GetBondBetweenAtoms(begin, end)
        cut = Chem.FragmentOnBonds(mol, [bond.GetIdx()], dummyLabels=[(0, 0)])
        pieces = Chem.GetMolFrags(cut, asMols=True, sanitizeFrags=False)
        where: list[tuple[int, ...]] = list(Chem.GetMolFrags(cut))
        if len(pieces) != 2:
            continue
        left, right = pieces if begin in where[0] else pieces[::-1]
        for left_group, right_group, name in _groups(int(first), int(second)):
            reactants = _with_group(left, left_group), _with_group(right, right_group)
            if None not in reactants:
                yield Reaction(smiles, tuple(str(r) for r in reactants), name)


def _groups(first: int, second: int) -> Iterator[tuple[str, str, str]]:
    """Yields the group at each end before the coupling, and the coupling's name. `H`: hydrogen."""
    for nucleophile, electrophile, swap in ((first, second, False), (second, first, True)):
        if nucleophile in _NUCLEOPHILES and electrophile in _ELECTROPHILES:
            for group in _ELECTROPHILES[electrophile]:
                pair = (group, "H") if swap else ("H", group)
                yield (*pair, _called(nucleophile, electrophile))
        if nucleophile in _BORON and electrophile in _COUPLED:
            for group in ("Cl",) if electrophile == 6 else _HALIDES:
                pair = (group, "B") if swap else ("B", group)
                yield (*pair, "Suzuki coupling")


def _called(nucleophile: int, electrophile: int) -> str:
    if electrophile in (1, 6):
        return "esterification" if nucleophile == 3 else "acylation"
    if electrophile == 12:
        return "sulfonylation"
    return "arylation" if electrophile in (14, 16) else "alkylation"


def _with_group(piece: Any, group: str) -> str | None:
    """Returns the SMILES of the piece with the group at the cut bond, or None if it is no valid molecule."""
    from rdkit import Chem

    mol = Chem.RWMol(piece)
    [end] = [atom for atom in mol.GetAtoms() if atom.GetAtomicNum() == 0]
    if group == "H":
        [neighbour] = end.GetNeighbors()
        if neighbour.GetIsAromatic() or neighbour.GetNoImplicit():
            neighbour.SetNumExplicitHs(neighbour.GetNumExplicitHs() + 1)
        mol.RemoveAtom(end.GetIdx())
    else:
        end.SetAtomicNum(_NUMBERS[group])
        end.SetNoImplicit(False)
        if group == "B":
            for _ in range(2):
                mol.AddBond(end.GetIdx(), mol.AddAtom(Chem.Atom(8)), Chem.BondType.SINGLE)
    try:
        Chem.SanitizeMol(mol)
    except Chem.MolSanitizeException:
        return None
    return str(Chem.MolToSmiles(mol))
