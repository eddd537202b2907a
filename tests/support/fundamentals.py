"""Observed fundamental frequencies of molecules in the gas phase, cm^-1 (Shimanouchi, NSRDS-NBS 39, 1972)."""

from __future__ import annotations

WATER = (1595, 3657, 3756)
AMMONIA = (950, 1627, 1627, 3337, 3444, 3444)
BENZENE = (
    410, 410, 606, 606, 673, 703, 849, 849, 975, 975, 992, 995, 1010, 1038, 1038, 1150, 1178, 1178, 1310, 1326, 1486,
    1486, 1596, 1596, 3047, 3047, 3062, 3063, 3063, 3068,
)  # fmt: skip
