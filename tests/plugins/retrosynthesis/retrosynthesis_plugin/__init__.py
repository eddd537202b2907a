"""Route finders as a third party would write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sciagent.verification.route_finder_plugins_and_route_checks import Reaction, Route, Stock


class Recap:
    """One reaction of all RECAP leaves at once, with hydrogen where they were joined."""

    name = "recap"
    version = "3"
    defaults: Mapping[str, Any] = {"largest": 6}

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.largest = {**self.defaults, **settings}["largest"]
        if not isinstance(self.largest, int):
            raise ValueError("largest is a whole number")

    def find(self, smiles: str, stock: Stock) -> Route | None:
        from rdkit import Chem
        from rdkit.Chem import Recap as recap

        leaves = recap.RecapDecompose(Chem.MolFromSmiles(smiles)).GetLeaves()
        pieces = tuple(Chem.CanonSmiles(leaf.replace("*", "[H]")) for leaf in sorted(leaves))
        if not 1 < len(pieces) <= self.largest or not all(piece in stock for piece in pieces):
            return None
        return Route((Reaction(smiles, pieces, "RECAP"),))


class Liar(Recap):
    """Starts from what nobody sells."""

    name = "liar"

    def find(self, smiles: str, stock: Stock) -> Route | None:
        return Route((Reaction(smiles, ("C1CC1C1CC1", "C"), "hope"),))


class Endless(Recap):
    """Never comes back."""

    name = "endless"

    def find(self, smiles: str, stock: Stock) -> Route | None:
        while True:
            pass


class Nameless:
    """Not a route finder at all."""
