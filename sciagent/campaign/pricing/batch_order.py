"""The order in which the purchases of a batch go out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.candidate_pool import Purchase

TOGETHER = 10.0  # seconds of all workers within which it does not matter who is first


def side_by_side(batch: list[Purchase], seconds: NDArray[np.float64]) -> list[Purchase]:
    """The purchases of a batch that go out within the same few seconds in the order of the candidates' rows, and the
    rest most urgent first. One transaction then writes on few pages of the ledger; in the order of urgency it would
    write on nearly all.

    seconds: (k,) how long a job of each rung keeps all workers busy; infinite where nobody knows, and such a job keeps
    its place.
    """
    rung, of = np.array([(one.rung, one.of) for one in batch], dtype=np.intp).reshape(-1, 2).T
    lasts = np.where(np.isfinite(seconds), seconds, TOGETHER)
    spans = np.floor(lasts[rung].cumsum() / TOGETHER)
    return [batch[place] for place in np.lexsort((of, spans)).tolist()]
