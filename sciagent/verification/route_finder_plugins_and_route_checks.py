"""The interface of retrosynthesis plug-ins: classes in the entry point group `sciagent.retrosynthesis`.

A route finder gets a SMILES and the purchasable molecules, and returns a route or None. It runs in the process of the
verification, under the host's limits on time and memory. Its route is checked before use.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, ClassVar, Protocol

from sciagent.errors import UnknownNameError, UsageError
from sciagent.verification.verifier_registry import installed

GROUP = "sciagent.retrosynthesis"
MAX_REACTIONS = 100

Stock = Container[str]
"""The purchasable molecules: `"CCO" in stock`."""


@dataclass(frozen=True)
class Reaction:
    """One forward step. product, reactants: SMILES. name: the name of the reaction, for display."""

    product: str
    reactants: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True)
class Route:
    """Reactions that make the target from stock, in any order; empty if the target can be bought."""

    reactions: tuple[Reaction, ...] = ()

    @property
    def steps(self) -> int:
        """The number of reactions in all branches."""
        return len(self.reactions)


class RouteFinder(Protocol):
    """The protocol of a plug-in's class. Increase `version` when the class finds other routes for the same settings.

    settings: all settings by name: from the campaign file, and where it states none, from `defaults`. They identify the
    evidence. The class raises ValueError if they are invalid. It must return equal routes for equal questions.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]]

    def __init__(self, settings: Mapping[str, Any]) -> None: ...

    def find(self, smiles: str, stock: Stock) -> Route | None: ...


@cache
def route_finder(name: str) -> type[RouteFinder]:
    """Returns the class of a route finder. Raises UnknownNameError, or UsageError if its package does not load."""
    points = installed(GROUP, "route finder")
    if name not in points:
        raise UnknownNameError("route finder", name, points)
    loaded: Any
    try:
        loaded = points[name].load()
    except (ImportError, AttributeError) as error:
        raise UsageError(f'route finder "{name}" ({points[name].value}) does not load: {error}') from error
    missing = [attribute for attribute in ("name", "version", "defaults", "find") if not hasattr(loaded, attribute)]
    if not isinstance(loaded, type) or missing or getattr(loaded, "name", None) != name:
        raise UsageError(f'route finder "{name}": {points[name].value} is no RouteFinder of that name')
    chosen: type[RouteFinder] = loaded
    return chosen


def checked(route: object, target: str, stock: Stock) -> Route | None:
    """Returns the route if it makes the target from molecules in stock.

    Raises ValueError, with the fault, for an invalid route.
    """
    if route is None:
        return None
    if not isinstance(route, Route) or not all(isinstance(reaction, Reaction) for reaction in route.reactions):
        raise ValueError(f"a route finder says a Route or None, not {type(route).__name__}")
    if len(route.reactions) > MAX_REACTIONS:
        raise ValueError(f"a route of {len(route.reactions)} reactions; at most {MAX_REACTIONS}")
    needed = {_canonical(target)}
    reactants_of = _reactants_by_product(route)
    for reactants in reactants_of.values():
        needed |= reactants
    made = reactants_of.keys()
    unused = made - needed
    if unused:
        raise ValueError(f"the route makes {min(unused)}, which nothing needs")
    for smiles in sorted(needed - made):
        if smiles not in stock:
            raise ValueError(f"the route starts from {smiles}, which is not in stock")
    return route


def _reactants_by_product(route: Route) -> dict[str, set[str]]:
    """Returns the canonical SMILES of the reactants by product. Raises ValueError for a reaction without reactants, a
    molecule that is made twice, and a route in a circle."""
    reactants_of: dict[str, set[str]] = {}
    for reaction in route.reactions:
        product = _canonical(reaction.product)
        reactants_of[product] = {_canonical(reactant) for reactant in reaction.reactants}
    if any(not reaction.reactants for reaction in route.reactions):
        raise ValueError("a reaction of nothing")
    if len(reactants_of) < len(route.reactions):
        raise ValueError("the route makes a molecule twice")
    try:
        TopologicalSorter(reactants_of).prepare()  # raises CycleError for a circle
    except CycleError:
        raise ValueError("the route goes in a circle") from None
    return reactants_of


def _canonical(smiles: str) -> str:
    """Returns the canonical SMILES. Raises ValueError for a text that is no SMILES."""
    from rdkit import Chem

    from sciagent.chemistry.rdkit_messages import rdkit_messages

    with rdkit_messages():
        mol = Chem.MolFromSmiles(smiles) if isinstance(smiles, str) else None
    if mol is None:
        raise ValueError(f"{ascii(smiles)[:80]} in the route is no SMILES")
    return str(Chem.MolToSmiles(mol))
