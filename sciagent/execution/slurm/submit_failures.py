"""What a cluster does not do for us, and when a person has to mend it.

sbatch may refuse an array, and an element may fail before it has taken any of its jobs: no such partition or account,
no interpreter on the node, no way from there to the ledger. Neither says anything of the jobs, so they wait again and
nothing counts against them. Both may pass: a limit on jobs that wait, a node that is broken. So it is tried again at
each look, and said in the events of the campaigns that are held up. It is for a person once it has happened several
times in a row while nothing of ours goes on there, for then waiting changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sciagent.execution.slurm.partition_choice import Request
from sciagent.store.campaign_state import campaign_warnings
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import external_jobs, offers

REFUSALS = 5


@dataclass(frozen=True)
class Refused:
    """An array that sbatch did not take. why: its words."""

    request: Request
    job_ids: tuple[int, ...]
    why: str


class Refusals:
    """Of one follower. fault: what a person has to mend, in words; None while there is hope."""

    def __init__(self, ledger: Ledger, site: str, queues: Sequence[str]) -> None:
        self._ledger, self._site, self._queues = ledger, site, tuple(queues)
        self._counts: dict[str, tuple[str, int]] = {}  # by partition: the words, and how often in a row
        self._stillborn = 0  # elements in a row
        self._last_words = ""
        self.fault: str | None = None

    def stillborn(self, job_ids: Sequence[int], words: str) -> None:
        """An element failed before it took any of its jobs. words: the last that it printed."""
        self._stillborn, self._last_words = self._stillborn + 1, words
        self._tell([(job_ids, f"Slurm: elements fail on their node before they take a job: {words}")])

    def worked(self, job_ids: Sequence[int]) -> None:
        """An element took the jobs that were meant for it, or some."""
        if self._stillborn:
            self._tell([(job_ids, None)])
        self._stillborn = 0

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
        if self._stillborn >= REFUSALS and not self._at_work():
            self.fault = (
                f"{self._stillborn} elements in a row failed on their node before they took a job: {self._last_words}; "
                f"mend the profile of {self._site}, or what it names: python, modules, environment"
            )
        told = [
            (one.job_ids, f"Slurm refuses jobs of partition {one.request.partition.name}: {one.why}") for one in refused
        ]
        self._tell([*([] if self._stillborn else [(taken, None)]), *told])

    def _in_words(self, one: Refused, n: int) -> str:
        asked = f"{one.request.minutes} minutes, {one.request.memory_mb} MB, {one.request.cores} cores"
        return (
            f"Slurm refused {n} times what was asked of partition {one.request.partition.name} ({asked}): {one.why}; "
            f"mend the profile of {self._site}, or ask whoever runs the cluster; sciagent slurm check says more"
        )

    def _at_work(self) -> bool:
        with self._ledger.read() as connection:
            return external_jobs.at_work(connection, self._queues)

    def _tell(self, news: Iterable[tuple[Sequence[int], str | None]]) -> None:
        """Jobs, and what keeps them from where they are to run; of a campaign the last counts."""
        if not (news := [one for one in news if one[0]]):
            return
        with self._ledger.begin() as connection:
            said = dict[int, str | None]()
            for job_ids, trouble in news:
                said |= dict.fromkeys(offers.rungs_of(connection, job_ids).values(), trouble)
            for campaign_id, trouble in said.items():
                campaign_warnings.note(connection, campaign_id, trouble)
