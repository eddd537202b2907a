"""Counts submissions that the cluster refuses and elements that fail at their start, and decides when to give up.

sbatch may refuse an array, or an element may fail before it has taken its job: a wrong partition or account,
no interpreter on the node, no connection from the node to the ledger. The jobs are queued again and no loss is counted,
since the jobs are not the cause. The cause may be temporary, such as a limit on queued jobs or a broken node, so each
step submits again, with a warning for the campaigns concerned. Several failures in a row, while no element runs in the
cluster, become a fault that a person has to correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sciagent.domain.jobs.states import JobState
from sciagent.execution.slurm.partition_choice import ResourceRequest
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, offers

REFUSALS = 5


@dataclass(frozen=True)
class RefusedArray:
    """An array that sbatch refused."""

    request: ResourceRequest
    job_ids: tuple[int, ...]
    why: str
    """sbatch's message."""


class SubmitFailures:
    """The failures of one controller. fault: message on what a person has to correct; None while retries may help."""

    def __init__(self, ledger: Ledger, site: str, queues: Sequence[str]) -> None:
        self._ledger, self._site, self._queues = ledger, site, tuple(queues)
        self._refused = 0  # rounds in a row
        self._never_started = 0  # elements in a row
        self._failure_text = ""
        self.fault: str | None = None

    def element_never_started(self, job_id: int, text: str) -> None:
        """Note an element that failed before it took its job. text: the last line that it printed."""
        self._never_started, self._failure_text = self._never_started + 1, text
        self._warn([([job_id], f"Slurm: elements fail on their node before they take a job: {text}")])

    def element_ran(self, job_id: int) -> None:
        """Note an element that took its job."""
        if self._never_started:
            self._warn([([job_id], None)])
        self._never_started = 0

    def note(self, refused: Sequence[RefusedArray], taken: Sequence[int], in_cluster: bool) -> None:
        """Note one round of submissions. taken: ids of jobs that Slurm accepted. in_cluster: whether an element of this
        site waited or ran there before."""
        self._refused = self._refused + 1 if refused and not taken and not in_cluster else 0
        self.fault = None
        if self._refused >= REFUSALS:
            request, why = refused[0].request, refused[0].why
            self.fault = (
                f"Slurm refused {self._refused} times what was asked of partition {request.partition.name} "
                f"({request.minutes} minutes, {request.memory_mb} MB, {request.cores} cores): {why}; "
                f"correct the profile of {self._site}, or ask whoever runs the cluster; sciagent slurm check says more"
            )
        if self._never_started >= REFUSALS and not self._at_work():
            self.fault = (
                f"{self._never_started} elements in a row failed on their node before they took a job: "
                f"{self._failure_text}; correct the profile of {self._site}, or what it names: python, modules, "
                "environment"
            )
        news: list[tuple[Sequence[int], str | None]] = [] if self._never_started else [(taken, None)]
        for refusal in refused:
            partition = refusal.request.partition.name
            news.append((refusal.job_ids, f"Slurm refuses jobs of partition {partition}: {refusal.why}"))
        if taken or refused:
            self._warn(news)

    def _at_work(self) -> bool:
        with self._ledger.read() as connection:
            return jobs.any_in_state(connection, JobState.RUNNING, queues=self._queues)

    def _warn(self, news: Iterable[tuple[Sequence[int], str | None]]) -> None:
        """Record warnings for campaigns. news: (job ids, warning; None clears it); a campaign's last entry counts."""
        with self._ledger.begin() as connection:
            by_campaign = dict[int, str | None]()
            for job_ids, warning in news:
                by_campaign |= dict.fromkeys(offers.rungs_of(connection, job_ids).values(), warning)
            for campaign_id, warning in by_campaign.items():
                campaigns.set_slurm_warning(connection, campaign_id, warning)
