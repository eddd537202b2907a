"""Motifs of explosives: polynitro compounds, nitrate esters, azides, peroxides, diazonium, chains of nitrogen.

A molecule is refused for what its groups weigh against the rest of it, so that dyes with one nitro group, sartans,
zidovudine and artemisinin pass. Sources are rules of thumb that chemists publish for safe handling; they are no test
of sensitivity.
"""

from __future__ import annotations

from typing import Any

from sciagent.domain.outcomes import Reason
from sciagent_verifiers.fast.hazards.drawing import Drawing
from sciagent_verifiers.fast.hazards.rule import Rule

_UN = "UN Manual of Tests and Criteria, Rev. 7, Appendix 6, table A6.1 (groups indicating explosive properties)"
_SIX = "Bräse, Gil, Knepper, Zimmermann, Angew. Chem. Int. Ed. 44, 5188 (2005): (N_C + N_O) / N_N >= 3"
_GHS_PEROXIDE = "GHS Rev. 10, chapter 2.15: available oxygen of organic peroxides"
_BALANCE = "Lothrop, Handrick, Chem. Rev. 44, 419 (1949)"

_NN, _NO, _OO = "[#7]~[#7]", "[#7]~[#8]", "[#8X2]-[#8X2]"
_NITRO = "[#7;X3](~[#8;X1,H1])~[#8;X1,H1]"  # and its aci form
AZIDE_LIMIT = 3.0  # heavy atoms other than nitrogen for each nitrogen of azide or diazo groups
DIAZO_LIMIT = 3.0
CHAIN_LIMIT = 1.5
PEROXIDE_LIMIT = 6.0  # percent by mass; artemisinin has 5.7, dibenzoyl peroxide 6.6
BALANCE_LIMIT = -60.0  # percent by mass; trinitrotoluene has -74 (and three nitro groups), dinitrobenzene -95
NITRATE_LIMIT = -100.0  # percent by mass
NITROGEN_LIMIT = 70.0  # percent by mass; 3-amino-1,2,4-triazole has 67, 5-aminotetrazole 82


def _dilution(drawing: Drawing, energetic: int) -> float:
    """Number of carbon, oxygen, silicon, sulfur and phosphorus atoms per energetic nitrogen."""
    return sum(drawing.counts.get(s, 0) for s in ("C", "O", "Si", "S", "P")) / max(energetic, 1)


def _azide_crowded(drawing: Drawing) -> bool:
    return _dilution(drawing, drawing.atoms("[#7;X1,X2]~[#7X2]~[#7X1]")) < AZIDE_LIMIT


def _diazo_crowded(drawing: Drawing) -> bool:
    return _dilution(drawing, drawing.atoms("[#6]=[#7X2+]=[#7X1-]") * 2 // 3) < DIAZO_LIMIT


def _chain_crowded(drawing: Drawing) -> bool:
    return _dilution(drawing, drawing.atoms("[#7]~[#7]~[#7]~[#7]")) < CHAIN_LIMIT


def _active_oxygen(drawing: Drawing) -> bool:
    """Whether the available oxygen, 16 g/mol for each O-O bond, is above the limit."""
    bonds = drawing.count("[#8X2]-[#8X2]")
    return float(1600 * bonds / drawing.exact_mass) >= PEROXIDE_LIMIT


def _rich_in_oxygen(drawing: Drawing) -> bool:
    balance = drawing.oxygen_balance
    return balance is not None and balance >= BALANCE_LIMIT


def _dinitrophenol(drawing: Drawing) -> bool:
    return drawing.formula in ("C6N2O5", "C6N2O6") and drawing.count(_NITRO) == 2


def _nitrate_crowded(drawing: Drawing) -> bool:
    if drawing.count(f"[#6]-[#8]-{_NITRO}") > 1:
        return True
    balance = drawing.oxygen_balance
    return balance is not None and balance >= NITRATE_LIMIT


def _rich_in_nitrogen(drawing: Drawing) -> bool:
    """Whether a carbon compound has four nitrogen atoms or more and at least 70 % nitrogen by mass."""
    n = drawing.counts.get("N", 0)
    return n >= 4 and "C" in drawing.counts and 1400.3 * n / drawing.exact_mass >= NITROGEN_LIMIT


def _rule(name: str, source: str, reason: str, *smarts: str, **more: Any) -> Rule:
    return Rule(name, Reason.EXPLOSIVE, reason, source, smarts, **more)


RULES: tuple[Rule, ...] = (
    _rule("polynitro", _UN, "three or more nitro groups", _NITRO, at_least=3, first=_NO, needs={"N": 3, "O": 6}),
    _rule(
        "geminal-nitro", _UN, "two nitro groups on one atom", f"[#6,#7](~{_NITRO})~{_NITRO}", first=_NO,
        needs={"N": 2, "O": 4}
    ),
    _rule(
        "dinitramine", _UN, "two or more N-nitro groups",
        f"[#7]~{_NITRO}", at_least=2, first=_NN, needs={"N": 4, "O": 4},
    ),
    _rule(
        "nitrate-ester", _UN, "a nitrate ester that is not much diluted by the rest of the molecule",
        f"[#6]-[#8]-{_NITRO}", first=_NO, needs={"N": 1, "O": 3}, test=_nitrate_crowded,
    ),
    _rule(
        "oxygen-balance", _BALANCE, "nitro groups and an oxygen balance of -60 % or more",
        f"[#6,#7,#8]~{_NITRO}", "[#7]1~[#8]~[#7](~[#8X1])~[#6]~[#6]~1", first=_NO, needs={"N": 1, "O": 2},
        test=_rich_in_oxygen,
        without=("[CH3]-[#7X3](~[#8X1])~[#8X1]",),  # nitromethane, the solvent
    ),
    _rule(
        "dinitrophenol", "UN Recommendations on the Transport of Dangerous Goods, UN 0076 and 0078",
        "a dinitrophenol or dinitroresorcinol", "[#6]1~[#6]~[#6]~[#6]~[#6]~[#6]~1", first=_NO,
        needs={"N": 2, "O": 5}, max_heavy=14, test=_dinitrophenol,
    ),
    _rule(
        "azide", _SIX, "an azide with fewer than three carbon or oxygen atoms for each azide nitrogen",
        "[#7;X1,X2]~[#7X2]~[#7X1]", first=_NN, needs={"N": 3}, test=_azide_crowded,
    ),
    _rule(
        "small-diazo", _SIX, "a diazo compound with fewer than three carbon or oxygen atoms for each diazo nitrogen",
        "[#6]=[#7X2+]=[#7X1-]", first=_NN, needs={"N": 2, "C": 1}, test=_diazo_crowded,
    ),
    _rule(
        "diazonium", _UN, "a diazonium ion", "[#6X3;!$([#6]=[#7])]-[#7X2+]#[#7X1]", "[CX4]-[#7X2+]#[#7X1]",
        first=_NN, needs={"N": 2, "C": 1},
    ),
    _rule(
        "nitrogen-chain", _UN, "four or more nitrogen atoms in a chain or ring with little else",
        "[#7]~[#7]~[#7]~[#7]", first=_NN, needs={"N": 4}, test=_chain_crowded,
    ),
    _rule(
        "high-nitrogen", _UN, "70 % nitrogen by mass or more, with unsaturated bonds between nitrogen atoms",
        "[#7]=,:,#[#7]", first=_NN, needs={"N": 4, "C": 1}, test=_rich_in_nitrogen,
    ),
    _rule(
        "polyperoxide", _UN, "two or more peroxide bonds",
        "[#8X2]-[#8X2]", at_least=2, first=_OO, needs={"O": 3},
    ),
    _rule(
        "peroxide", _GHS_PEROXIDE, "an organic peroxide with 6 % available oxygen or more",
        "[!#1;!#8]-[#8X2]-[#8X2]", first=_OO, needs={"O": 2}, test=_active_oxygen,
    ),
    _rule("oxygen-chain", _UN, "three oxygen atoms in a row", "[#8X2]-[#8X2]-[#8X2]", first=_OO, needs={"O": 3}),
    _rule(
        "dihaloamine", _UN, "two halogen atoms on one nitrogen",
        "[#7](-[F,Cl,Br,I])-[F,Cl,Br,I]", needs={"X": 2, "N": 1},
    ),
    _rule(
        "hypohalite", _UN, "a halogen bonded to the oxygen of an organic group",
        "[#6]-[#8X2]-[F,ClX1,BrX1,IX1]", needs={"X": 1, "O": 1},
    ),
    _rule("perchlorate-ester", _UN, "an ester of perchloric or chloric acid", "[#6]-[#8]-[Cl;X3,X4]", needs={"Cl": 1}),
    _rule(
        "fulminate", _UN, "a fulminate",
        "[#6;X1,H1]#[#7+]-[#8]", "[#8]-[#7]~[#6X1]", first=_NO, needs={"C": 1, "N": 1, "O": 1},
    ),
    _rule(
        "heavy-metal-acetylide", _UN, "an acetylide of silver, mercury or gold", "[Ag,Hg,Au]-C#C",
        needs={"M": 1, "C": 2},
    ),
    _rule(
        "haloacetylene", _UN, "a small alkyne with chlorine or bromine on it", "[F,Cl,Br]-C#C", needs={"X": 1, "C": 2},
        max_heavy=6,
    ),
    _rule(
        "nitrogen-metal", _UN, "silver or mercury on nitrogen of an azide or fulminate",
        "[Ag,Hg,Pb]-[#7]~[#7]~[#7]", first=_NN, needs={"M": 1, "N": 3},
    ),
)  # fmt: skip
