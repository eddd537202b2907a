"""Conditions under which energetic groups are so dense in a molecule that it is refused as an explosive.

Dyes with a nitro group, sartans, zidovudine and artemisinin pass. The limits are published rules of thumb for safe
handling; they do not predict sensitivity.
"""

from __future__ import annotations

from collections.abc import Callable

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


def _balanced(drawing: Drawing, limit: float) -> bool:
    """Returns whether the oxygen balance is defined and reaches the limit, percent by mass."""
    return drawing.oxygen_balance is not None and drawing.oxygen_balance >= limit


CONDITIONS: dict[str, Callable[[Drawing], bool]] = {
    "nitrate-ester": lambda d: d.count(f"[#6]-[#8]-{NITRO}") > 1 or _balanced(d, NITRATE_LIMIT),
    "oxygen-balance": lambda d: _balanced(d, BALANCE_LIMIT),
    "dinitrophenol": lambda d: d.formula in ("C6N2O5", "C6N2O6") and d.count(NITRO) == 2,
    "azide": lambda d: _dilution(d, d.atoms("[#7;X1,X2]~[#7X2]~[#7X1]")) < AZIDE_LIMIT,
    "small-diazo": lambda d: _dilution(d, d.atoms("[#6]=[#7X2+]=[#7X1-]") * 2 // 3) < DIAZO_LIMIT,
    "nitrogen-chain": lambda d: _dilution(d, d.atoms("[#7]~[#7]~[#7]~[#7]")) < CHAIN_LIMIT,
    # carbon compounds with at least four nitrogen atoms and 70 % nitrogen by mass
    "high-nitrogen": lambda d: (
        (n := d.counts.get("N", 0)) >= 4 and "C" in d.counts and 1400.3 * n / d.exact_mass >= NITROGEN_LIMIT
    ),
    # active oxygen: 16 g/mol for each O-O bond
    "peroxide": lambda d: 1600 * d.count("[#8X2]-[#8X2]") / d.exact_mass >= PEROXIDE_LIMIT,
}
"""The condition of each rule that has one, by the rule's name."""
