"""The solvents for which ALPB and GBSA have parameters in GFN1-xTB and GFN2-xTB, by their common names.

A free energy of solvation is that of the transfer from 1 mol/L of ideal gas to 1 mol/L of solution at 298.15 K
(tblite's solution state `gsolv`), as in hydration databases. The convention from 1 bar of gas to 1 mol/L, `bar1M` in
`xtb`, gives values that are kT ln 24.79 = 0.0825 eV (1.90 kcal/mol) higher.

Sources: ALPB and GBSA in xtb: Ehlert, Stahn, Spicher, Grimme, J. Chem. Theory Comput. 17, 4250 (2021). States:
https://tblite.readthedocs.io/en/latest/spec/solvation.html. Each solvent was tested with tblite 0.8.0; formaldehyde
agrees with xtb 6.5.1 within 1e-7 hartree. GBSA has the same parameters for benzene and toluene.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Solvent = Literal[
    "acetone", "acetonitrile", "aniline", "benzaldehyde", "benzene", "carbon disulfide", "chloroform",
    "dichloromethane", "diethyl ether", "dimethyl sulfoxide", "dimethylformamide", "dioxane", "ethanol",
    "ethyl acetate", "furan", "hexadecane", "hexane", "methanol", "nitromethane", "octanol", "phenol",
    "tetrahydrofuran", "toluene", "water", "wet octanol",
]  # fmt: skip
SOLVENTS: tuple[str, ...] = get_args(Solvent)
Model = Literal["alpb", "gbsa"]

STATE = "gsolv"
# tblite's name of a solvent, where it differs from the common name
_TBLITE = {
    "carbon disulfide": "cs2",
    "chloroform": "chcl3",
    "dichloromethane": "ch2cl2",
    "diethyl ether": "ether",
    "dimethyl sulfoxide": "dmso",
    "dimethylformamide": "dmf",
    "ethyl acetate": "ethylacetate",
    "furan": "furane",
    "tetrahydrofuran": "thf",
    "wet octanol": "woctanol",
}
_GBSA_BOTH = frozenset({
    "acetone", "acetonitrile", "carbon disulfide", "chloroform", "dichloromethane", "diethyl ether",
    "dimethyl sulfoxide", "methanol", "tetrahydrofuran", "toluene", "water",
})  # fmt: skip
GBSA: dict[str, frozenset[str]] = {
    "GFN1-xTB": _GBSA_BOTH | {"benzene"},
    "GFN2-xTB": _GBSA_BOTH | {"benzene", "dimethylformamide", "hexane"},
}


@dataclass(frozen=True)
class Solvation:
    """A solvent and the implicit model that describes it."""

    solvent: str
    model: Model = "alpb"

    def arguments(self) -> tuple[str, str, str]:
        """Returns interaction, solvent and solution state in the spelling of tblite's calculator."""
        return f"{self.model}-solvation", _TBLITE.get(self.solvent, self.solvent), STATE


def unparametrised(method: str, model: str, solvent: str) -> str | None:
    """Returns why the solvent has no parameters, with a list of those that do, or None. IPEA1-xTB uses GFN1-xTB's."""
    known = SOLVENTS if model == "alpb" else sorted(GBSA["GFN2-xTB" if method == "GFN2-xTB" else "GFN1-xTB"])
    if solvent in known:
        return None
    return f'{model.upper()} has no parameters for "{solvent}" in {method}; it has: {", ".join(known)}'
