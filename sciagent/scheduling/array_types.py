"""Names for the array types of schedulers and laws, by their elements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
RowIndices = NDArray[np.intp]
"""Positions of rows in another array."""
