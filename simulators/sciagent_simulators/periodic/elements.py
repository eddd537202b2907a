"""The elements for which GPAW has PAW data, and those whose shells are open.

The data of both are the same where both have them: GPAW 22.8 of Debian (gpaw-setups 0.9.20000) lacks the lanthanides.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

_TABLE = (
    "H:1 He:2 Li:1 Be:2 B:3 C:4 N:5 O:6 F:7 Ne:8 Na:7 Mg:10 Al:3 Si:4 P:5 S:6 Cl:7 Ar:8 K:9 Ca:10 Sc:11 Ti:12 V:13 "
    "Cr:6 Mn:15 Fe:8 Co:9 Ni:16 Cu:11 Zn:12 Ga:3 Ge:4 As:5 Se:6 Br:7 Kr:8 Rb:9 Sr:10 Y:11 Zr:12 Nb:13 Mo:14 Ru:16 "
    "Rh:15 Pd:16 Ag:17 Cd:12 In:13 Sn:14 Sb:15 Te:6 I:7 Xe:8 Cs:9 Ba:10 La:11 Ce:12 Pr:13 Nd:14 Pm:15 Sm:16 Eu:17 "
    "Gd:18 Tb:19 Dy:20 Ho:21 Er:22 Tm:23 Yb:24 Lu:25 Hf:12 Ta:13 W:14 Re:13 Os:14 Ir:15 Pt:16 Au:11 Hg:18 Tl:13 "
    "Pb:14 Bi:15 Rn:8"
)
VALENCE: Mapping[str, int] = {symbol: int(n) for symbol, _, n in (word.partition(":") for word in _TABLE.split())}
"""{element: valence electrons, with semicore states}."""
SEMICORE: Mapping[str, int] = {
    **{"Cr": 14, "Fe": 16, "Co": 17, "Ni": 18, "Cu": 19, "Zn": 20, "Ga": 13, "Ge": 14},
    **{"Rh": 17, "Pd": 18, "Ag": 19, "Cd": 20},
    **{"Re": 15, "Os": 16, "Ir": 17, "Pt": 18, "Au": 19, "Hg": 20},
}
"""{element: valence electrons with one more shell than the shipped data have}. GPAW's own generator has parameters."""
D_GROUPS = {
    **{symbol: 3 for symbol in ("Sc", "Y")},
    **{symbol: 4 for symbol in ("Ti", "Zr", "Hf")},
    **{symbol: 5 for symbol in ("V", "Nb", "Ta")},
    **{symbol: 6 for symbol in ("Cr", "Mo", "W")},
    **{symbol: 7 for symbol in ("Mn", "Tc", "Re")},
    **{symbol: 8 for symbol in ("Fe", "Ru", "Os")},
    **{symbol: 9 for symbol in ("Co", "Rh", "Ir")},
    **{symbol: 10 for symbol in ("Ni", "Pd", "Pt")},
    **{symbol: 11 for symbol in ("Cu", "Ag", "Au")},
}
"""{element of the d block: electrons beyond its noble gas, without a filled f shell}. Zinc's group never opens it."""
LANTHANIDES = ("La", "Ce", "Pr", "Nd", "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu")
CLOSED = 1e-3


def in_first_release(symbol: str) -> bool:
    """Returns whether GPAW 22.8 has data for the element."""
    return symbol in VALENCE and symbol not in LANTHANIDES


def is_open(symbol: str, oxidation: float) -> bool:
    """Returns whether an atom in this oxidation state has a partly filled d or f shell."""
    if symbol in LANTHANIDES:
        electrons, full = LANTHANIDES.index(symbol) + 3 - oxidation, 14
    elif symbol in D_GROUPS:
        electrons, full = D_GROUPS[symbol] - oxidation, 10
    else:
        return False
    return CLOSED < electrons < full - CLOSED


@lru_cache(maxsize=4096)
def open_shells(formula: str) -> tuple[str, ...]:
    """Returns the elements with open d or f shells in the oxidation states that the formula suggests.

    Without such states, as in elements and alloys, atoms count as neutral: most metals of the d block are open.
    """
    from pymatgen.core import Composition

    composition = Composition(formula)
    symbols = [element.symbol for element in composition]
    if not any(symbol in D_GROUPS or symbol in LANTHANIDES for symbol in symbols):
        return ()
    guesses = composition.oxi_state_guesses() if len(symbols) > 1 else ()
    states = guesses[0] if guesses else {}
    return tuple(symbol for symbol in symbols if is_open(symbol, float(states.get(symbol, 0.0))))
