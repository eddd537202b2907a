"""The edits of crystals under the names that searches and tools use."""

from sciagent.chemistry.crystals.editing.limits import ANY, CrystalLimits
from sciagent.chemistry.crystals.editing.named import (
    NAMED,
    OPERATIONS,
    SHARES,
    CrystalEdit,
    children,
    choices,
    edited,
    mutate,
)
from sciagent.chemistry.crystals.places import CrystalPlace, sites

__all__ = [
    "ANY",
    "NAMED",
    "OPERATIONS",
    "SHARES",
    "CrystalEdit",
    "CrystalLimits",
    "CrystalPlace",
    "children",
    "choices",
    "edited",
    "mutate",
    "sites",
]
