"""The solvents that ALPB and GBSA are parametrised for in GFN1-xTB and GFN2-xTB, under a common name each.

Free energies of solvation are those of 1 mol/L of ideal gas going to 1 mol/L of solution at 298.15 K (tblite's solution
state `gsolv`), which is what hydration data bases give too. The other convention, 1 bar of gas to 1 mol/L, lies
kT ln 24.79 = 0.0825 eV (1.90 kcal/mol) above it; `xtb` calls that `bar1M`.

Sources: ALPB and GBSA in xtb: Ehlert, Stahn, Spicher, Grimme, J. Chem. Theory Comput. 17, 4250 (2021). States:
https://tblite.readthedocs.io/en/latest/spec/solvation.html. Which solvents: tblite 0.8.0, each tried;
all of them agree with xtb 6.5.1 within 1e-7 hartree for formaldehyde. GBSA has the same parameters for benzene and
toluene.
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
# tblite's name where it differs
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
    """A solvent by a model."""

    solvent: str
    model: Model = "alpb"

    def arguments(self) -> tuple[str, str, str]:
        """Interaction, solvent and solution state as tblite's calculator takes them."""
        return f"{self.model}-solvation", _TBLITE.get(self.solvent, self.solvent), STATE


def unparametrised(method: str, model: str, solvent: str) -> str | None:
    """Why there are no parameters, with what there is, or None. IPEA1-xTB takes those of GFN1-xTB."""
    known = SOLVENTS if model == "alpb" else sorted(GBSA["GFN2-xTB" if method == "GFN2-xTB" else "GFN1-xTB"])
    if solvent in known:
        return None
    return f'{model.upper()} has no parameters for "{solvent}" in {method}; it has: {", ".join(known)}'
