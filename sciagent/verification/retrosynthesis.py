"""The place of retrosynthesis plug-ins: classes under the entry point group `sciagent.retrosynthesis`.

It gets a SMILES and what can be bought, and says a route or None. It runs in the process of the verification, so the
host's limits on time and memory are its limits, and what it says is checked before it is believed.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, ClassVar, Protocol

from sciagent.errors import UnknownNameError, UsageError
from sciagent.verification.registry import installed

GROUP = "sciagent.retrosynthesis"
MAX_REACTIONS = 100


Stock = Container[str]
"""What can be bought: `"CCO" in stock`."""


@dataclass(frozen=True)
class Reaction:
    """One forward step. product, reactants: SMILES. name: of the reaction, for people."""

    product: str
    reactants: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True)
class Route:
    """Reactions that make the target from stock, in any order; none if the target itself can be bought."""

    reactions: tuple[Reaction, ...] = ()

    @property
    def steps(self) -> int:
        """How many reactions, those of all branches together."""
        return len(self.reactions)


class RouteFinder(Protocol):
    """What a plug-in offers. Raise `version` when it finds other routes for the same settings.

    settings: by name, as the campaign file gives them; raise ValueError for what is wrong with them. `defaults` fills
    in the rest, so that they are part of what identifies a result. Must give the same answer to the same question.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]]

    def __init__(self, settings: Mapping[str, Any]) -> None: ...

    def find(self, smiles: str, stock: Stock) -> Route | None: ...


@cache
def route_finder(name: str) -> type[RouteFinder]:
    """The class behind a name. Raises UnknownNameError, or UsageError when its package does not load."""
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
    """The route, if it is valid: it makes the target, and everything it starts from can be bought.

    Raises ValueError, saying what is wrong with it.
    """
    if route is None:
        return None
    if not isinstance(route, Route) or not all(isinstance(reaction, Reaction) for reaction in route.reactions):
        raise ValueError(f"a route finder says a Route or None, not {type(route).__name__}")
    if len(route.reactions) > MAX_REACTIONS:
        raise ValueError(f"a route of {len(route.reactions)} reactions; at most {MAX_REACTIONS}")
    needs = {_canonical(reaction.product): {*map(_canonical, reaction.reactants)} for reaction in route.reactions}
    made, wanted = needs.keys(), {_canonical(target)}.union(*needs.values())
    if unused := made - wanted:
        raise ValueError(f"the route makes {min(unused)}, which nothing needs")
    if any(not reaction.reactants for reaction in route.reactions):
        raise ValueError("a reaction of nothing")
    if len(needs) < len(route.reactions):
        raise ValueError("the route makes a molecule twice")
    try:
        TopologicalSorter(needs).prepare()
    except CycleError:
        raise ValueError("the route goes in a circle") from None
    for smiles in sorted(wanted - made):
        if smiles not in stock:
            raise ValueError(f"the route starts from {smiles}, which is not in stock")
    return route


def _canonical(smiles: str) -> str:
    from rdkit import Chem

    from sciagent.chemistry.rdkit_log import rdkit_messages

    with rdkit_messages():
        mol = Chem.MolFromSmiles(smiles) if isinstance(smiles, str) else None
    if mol is None:
        raise ValueError(f"{ascii(smiles)[:80]} in the route is no SMILES")
    return str(Chem.MolToSmiles(mol))
