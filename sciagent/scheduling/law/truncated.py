"""The moments of a truncated normal distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from sciagent.scheduling.arrays import Array

FAR = -30.0  # standard deviations from the mean below which the variance comes from its asymptote


def truncated_moments(mean: Array, sd: Array, bound: Array, side: NDArray[np.int8]) -> tuple[Array, Array]:
    """Returns mean and standard deviation of normal distributions truncated at a bound, (n,) each. side: -1 if the
    value is below its bound, 1 if above.

    With b = (bound - mean) / sd and h = φ(b) / Φ(b), for the part below the bound:

        mean' = mean - sd h        variance' = sd² (1 - b h - h²)

    The part above follows by symmetry. Far below the mean the variance falls as sd² (1 - 6 / b²) / b².
    """
    sign = -side.astype(np.float64)  # mirrored if the value is above its bound, so that the part below is needed
    b = sign * (bound - mean) / sd
    hazard = np.exp(-0.5 * b**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(b))
    share = 1 - b * hazard - hazard**2
    near = np.minimum(b, FAR)
    share = np.where(b < FAR, (1 - 6 / near**2) / near**2, np.clip(share, 0.0, 1.0))
    return mean - sign * sd * hazard, sd * np.sqrt(share)
