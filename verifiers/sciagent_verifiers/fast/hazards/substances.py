"""Whole structures that are refused: scheduled chemicals without a class, and single poisons and explosives.

Only the first block of the standard InChIKey is kept, with the heavy atoms that are compared before it.
"""

from __future__ import annotations

import csv
from pathlib import Path

from sciagent.domain.outcomes import Reason
from sciagent_verifiers.fast.hazards.rule import Substance

with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as _table:
    _, *_rows = csv.reader(_table)  # name, group, formula, key, reason, source
SUBSTANCES = tuple(Substance(name, Reason(group), *more) for name, group, *more in _rows)
