"""What sbatch refuses, and when a person has to mend it.

A refusal may pass: a limit on jobs that wait, a partition that is down for an hour. So it is tried again at each look,
and said in the events of the campaigns it holds up. It is for a person once the same was refused several times in the
same words while nothing of ours is in the cluster, for then nothing changes by waiting for our own jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sciagent.execution.slurm.fit import Request
from sciagent.store import offers, troubles
from sciagent.store.ledger import Ledger

REFUSALS = 5


@dataclass(frozen=True)
class Refused:
    """An array that sbatch did not take. why: its words."""

    request: Request
    job_ids: tuple[int, ...]
    why: str


class Refusals:
    """Of one follower. fault: what a person has to mend, in words; None while there is hope."""

    def __init__(self, ledger: Ledger, site: str) -> None:
        self._ledger, self._site = ledger, site
        self._counts: dict[str, tuple[str, int]] = {}  # by partition: the words, and how often in a row
        self.fault: str | None = None

    def note(self, refused: Sequence[Refused], taken: Sequence[int], in_cluster: bool) -> None:
        """What became of one look. taken: jobs that wait in the cluster now; in_cluster: whether anything of ours
        waited or ran there before."""
        before, self._counts, self.fault = self._counts, {}, None
        for one in refused:
            words, n = before.get(one.request.partition.name, ("", 0))
            n = n + 1 if words == one.why else 1
            self._counts[one.request.partition.name] = one.why, n
            if n >= REFUSALS and not taken and not in_cluster:
                self.fault = self._in_words(one, n)
        if refused or taken:
            self._tell(refused, taken)

    def _in_words(self, one: Refused, n: int) -> str:
        asked = f"{one.request.minutes} minutes, {one.request.memory_mb} MB, {one.request.cores} cores"
        return (
            f"Slurm refused {n} times what was asked of partition {one.request.partition.name} ({asked}): {one.why}; "
            f"mend the profile of {self._site}, or ask whoever runs the cluster; sciagent slurm check says more"
        )

    def _tell(self, refused: Sequence[Refused], taken: Sequence[int]) -> None:
        """The campaigns whose jobs these are; of one, what was refused counts more than what was taken."""
        with self._ledger.begin() as connection:
            said = dict[int, str | None].fromkeys(offers.rungs_of(connection, taken).values())
            for one in refused:
                why = f"Slurm refuses jobs of partition {one.request.partition.name}: {one.why}"
                said |= dict.fromkeys(offers.rungs_of(connection, one.job_ids).values(), why)
            for campaign_id, trouble in said.items():
                troubles.note(connection, campaign_id, trouble)
