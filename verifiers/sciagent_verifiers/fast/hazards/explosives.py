"""Conditions under which energetic groups are so dense in a molecule that it is refused as an explosive.

Dyes with a nitro group, sartans, zidovudine and artemisinin pass. The limits are published rules of thumb for safe
handling; they do not predict sensitivity.
"""

from __future__ import annotations

from sciagent_verifiers.fast.hazards.normalised_molecule import Drawing

NITRO = "[#7;X3](~[#8;X1,H1])~[#8;X1,H1]"  # the nitro group and its aci form
AZIDE_LIMIT = 3.0  # ratio of `_dilution`, for azide nitrogen; the next two limits: diazo groups, nitrogen chains
DIAZO_LIMIT = 3.0
CHAIN_LIMIT = 1.5
PEROXIDE_LIMIT = 6.0  # percent by mass; artemisinin has 5.7, dibenzoyl peroxide 6.6
BALANCE_LIMIT = -60.0  # percent by mass; trinitrotoluene has -74 (and three nitro groups), dinitrobenzene -95
NITRATE_LIMIT = -100.0  # percent by mass
NITROGEN_LIMIT = 70.0  # percent by mass; 3-amino-1,2,4-triazole has 67, 5-aminotetrazole 82


def _dilution(drawing: Drawing, energetic: int) -> float:
    """Returns the number of carbon, oxygen, silicon, sulfur and phosphorus atoms per energetic nitrogen."""
    return sum(drawing.counts.get(s, 0) for s in ("C", "O", "Si", "S", "P")) / max(energetic, 1)


def _azide_crowded(drawing: Drawing) -> bool:
    return _dilution(drawing, drawing.atoms("[#7;X1,X2]~[#7X2]~[#7X1]")) < AZIDE_LIMIT


def _diazo_crowded(drawing: Drawing) -> bool:
    return _dilution(drawing, drawing.atoms("[#6]=[#7X2+]=[#7X1-]") * 2 // 3) < DIAZO_LIMIT


def _chain_crowded(drawing: Drawing) -> bool:
    return _dilution(drawing, drawing.atoms("[#7]~[#7]~[#7]~[#7]")) < CHAIN_LIMIT


def _active_oxygen(drawing: Drawing) -> bool:
    """Returns whether the active oxygen, 16 g/mol for each O-O bond, reaches the limit."""
    bonds = drawing.count("[#8X2]-[#8X2]")
    return float(1600 * bonds / drawing.exact_mass) >= PEROXIDE_LIMIT


def _rich_in_oxygen(drawing: Drawing) -> bool:
    balance = drawing.oxygen_balance
    return balance is not None and balance >= BALANCE_LIMIT


def _dinitrophenol(drawing: Drawing) -> bool:
    return drawing.formula in ("C6N2O5", "C6N2O6") and drawing.count(NITRO) == 2


def _nitrate_crowded(drawing: Drawing) -> bool:
    if drawing.count(f"[#6]-[#8]-{NITRO}") > 1:
        return True
    balance = drawing.oxygen_balance
    return balance is not None and balance >= NITRATE_LIMIT


def _rich_in_nitrogen(drawing: Drawing) -> bool:
    """Returns whether a carbon compound has at least four nitrogen atoms and 70 % nitrogen by mass."""
    n = drawing.counts.get("N", 0)
    return n >= 4 and "C" in drawing.counts and 1400.3 * n / drawing.exact_mass >= NITROGEN_LIMIT


CONDITIONS = {
    "nitrate-ester": _nitrate_crowded,
    "oxygen-balance": _rich_in_oxygen,
    "dinitrophenol": _dinitrophenol,
    "azide": _azide_crowded,
    "small-diazo": _diazo_crowded,
    "nitrogen-chain": _chain_crowded,
    "high-nitrogen": _rich_in_nitrogen,
    "peroxide": _active_oxygen,
}
"""The condition of each rule that has one, by the rule's name."""
