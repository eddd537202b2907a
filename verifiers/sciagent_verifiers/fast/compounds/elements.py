"""Symbols of elements in the settings of verifiers."""

from __future__ import annotations


def known_elements(symbols: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the symbols. Raises ValueError for one that is no element."""
    from rdkit import Chem

    known = {Chem.GetPeriodicTable().GetElementSymbol(number) for number in range(1, 119)}
    if unknown := [symbol for symbol in symbols if symbol not in known]:
        raise ValueError(f"not an element: {', '.join(unknown)}")
    return symbols
