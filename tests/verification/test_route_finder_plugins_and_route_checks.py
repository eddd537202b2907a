"""A route is believed when it makes the target and starts from stock, and not before."""

from __future__ import annotations

import pytest

from sciagent.verification.route_finder_plugins_and_route_checks import Reaction, Route, checked

STOCK = frozenset({"CC(=O)O", "CN", "CCO"})
AMIDE = Reaction("CNC(C)=O", ("CC(=O)O", "CN"))


def test_a_route_from_stock_is_taken() -> None:
    assert checked(Route((AMIDE,)), "CC(=O)NC", STOCK) == Route((AMIDE,))
    assert checked(Route(), "CN", STOCK) == Route()
    assert checked(None, "CN", STOCK) is None


@pytest.mark.parametrize(
    ("route", "message"),
    [
        (Route(), "starts from CNC"),  # no reaction, and the target cannot be bought
        (Route((Reaction("CNC(C)=O", ("CC(=O)Cl", "CN")),)), r"starts from CC\(=O\)Cl, which is not in stock"),
        (Route((AMIDE, Reaction("CCOC(C)=O", ("CC(=O)O", "CCO")))), "which nothing needs"),
        (Route((AMIDE, AMIDE)), "twice"),
        (Route((Reaction("CNC(C)=O", ("C#N",)), Reaction("C#N", ("CNC(C)=O",)))), "circle"),
        (Route((Reaction("CNC(C)=O", ()),)), "of nothing"),
        (Route((Reaction("CNC(C)=O", ("CC(=O)O", "what")),)), "no SMILES"),
        (Route((AMIDE,) * 101), "at most 100"),
        ([AMIDE], "not list"),
        (Route(("CN",)), "not Route"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_route_is_said_to_be_none(route: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked(route, "CNC(C)=O", STOCK)
