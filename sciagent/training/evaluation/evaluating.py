"""An evaluation: plans its campaigns, runs those that have not ended, and compares the arms.

Runs campaigns of an evaluation in several processes, each of which keeps its model loaded.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sciagent.agent import models
from sciagent.agent.models import Model
from sciagent.domain.policies import IN_PROCESS, PolicyIdentity
from sciagent.errors import SciagentError
from sciagent.inputs.settings import user
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies, training
from sciagent.training.evaluation.campaign_runs import CampaignRuns, PlannedCampaign, fault_of, planned
from sciagent.training.evaluation.figures import compared
from sciagent.training.evaluation.spec import SCRIPTED, ArmSpec, EvaluatedCampaign, EvaluateSpec, EvaluationAnswer
from sciagent.training.evaluation.worker import answer, line_of

Answer = Mapping[str, Any]
PAUSE = 1.0  # seconds after a campaign was found with another process


class Pool:
    """Workers that run campaigns. `stop` may be called from any thread.

    One worker is this process; more of them are processes of their own, since only then each counts its own core time.
    A campaign that another evaluation runs is asked for again at the end, so that evaluations on one ledger share them.
    """

    def __init__(self, ledger: Ledger, workers: int) -> None:
        self._ledger = ledger
        self._workers = workers
        self._runs = CampaignRuns(ledger)
        self._processes: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self, campaigns: Sequence[PlannedCampaign]) -> Iterator[tuple[PlannedCampaign, EvaluatedCampaign | str]]:
        """Yields each campaign with its figures, or with why it has none, as they come. Those that were stopped are
        left out."""
        n = min(self._workers, len(campaigns))
        done = self._here(campaigns) if n < 2 else self._elsewhere(campaigns, n)
        for campaign, found in done:
            if "figures" in found:
                yield campaign, EvaluatedCampaign.model_validate(found["figures"])
            elif "fault" in found:
                yield campaign, str(found["fault"])

    def stop(self, now: bool = False) -> None:
        """Stops the campaigns that run, and begins no more. now: jobs that run are ended, too."""
        self._stopped.set()
        self._runs.stop(now)
        with self._lock:
            for process in self._processes:
                if process.stdin is not None and not process.stdin.closed:
                    process.stdin.close()

    def _here(self, campaigns: Sequence[PlannedCampaign]) -> Iterator[tuple[PlannedCampaign, Answer]]:
        left = deque(campaigns)
        try:
            while left:
                campaign = left.popleft()
                found = answer(self._runs, campaign)
                if "held" in found and not self._stopped.wait(PAUSE):
                    left.append(campaign)
                else:
                    yield campaign, found
        finally:
            self._runs.close()

    def _elsewhere(self, campaigns: Sequence[PlannedCampaign], n: int) -> Iterator[tuple[PlannedCampaign, Answer]]:
        left: queue.SimpleQueue[PlannedCampaign] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[PlannedCampaign, Answer] | None] = queue.SimpleQueue()
        for campaign in campaigns:
            left.put(campaign)
        threads = [threading.Thread(target=self._serve, args=(left, done.put), daemon=True) for _ in range(n)]
        for thread in threads:
            thread.start()
        running = n
        while running:
            found = done.get()
            if found is None:
                running -= 1
            else:
                yield found

    def _serve(
        self, left: queue.SimpleQueue[PlannedCampaign], put: Callable[[tuple[PlannedCampaign, Answer] | None], None]
    ) -> None:
        """Hands campaigns to one process after another, until none is left. A process that dies is replaced."""
        process: subprocess.Popen[str] | None = None
        try:
            while not self._stopped.is_set():
                planned = left.get_nowait()
                process = process or self._started()
                found = _ask(process, planned)
                if found is None:
                    status = process.wait()
                    found = {} if self._stopped.is_set() else {"fault": f"its process ended with status {status}"}
                    self._ended(process)
                    process = None
                if "held" in found and not self._stopped.wait(PAUSE):
                    left.put(planned)
                else:
                    put((planned, found))
        except queue.Empty:
            pass
        finally:
            if process is not None:
                self._ended(process)
            put(None)

    def _started(self) -> subprocess.Popen[str]:
        """Starts a worker. It has a session of its own, so that Ctrl-C reaches only this process, which stops it."""
        command = [sys.executable, "-m", "sciagent.training.evaluation.worker"]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
        process = subprocess.Popen(command, **pipes)
        url = self._ledger.url.render_as_string(hide_password=False)
        _tell(process, json.dumps({"url": url, "artifacts": str(self._ledger.artifacts.root)}))
        with self._lock:
            self._processes.add(process)
        return process

    def _ended(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._processes.discard(process)
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()
        process.wait()


def _ask(process: subprocess.Popen[str], planned: PlannedCampaign) -> Answer | None:
    """Returns the answer of a worker; None if it has ended."""
    try:
        _tell(process, line_of(planned))
    except (OSError, ValueError):  # its stdin was closed
        return None
    assert process.stdout is not None
    line = process.stdout.readline()
    return json.loads(line) if line else None


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


Tell = Callable[[EvaluatedCampaign, int, int], None]
"""Is told each campaign that has ended, how many have ended, and how many there are."""
STOPPED = "campaigns are left to run"


class Evaluation:
    """One evaluation. `stop` may be called from any thread.

    folder: of the file with the evaluation, where relative paths start. workers: campaigns at the same time.
    """

    def __init__(self, spec: EvaluateSpec, folder: Path, ledger: Ledger, workers: int = 1) -> None:
        self._spec = spec
        self._ledger = ledger
        self._pool = Pool(ledger, workers)
        self._failed: dict[str, list[str]] = {}
        self._models: dict[str, Model] = {}  # by arm
        self._plan: list[PlannedCampaign] = []
        for arm, stated in spec.arms.items():
            try:
                resolved = self._resolved(arm, stated)
                version = self._models[arm].sha256 if arm in self._models else ""
                self._plan += planned(spec, folder, arm, resolved, version)
            except SciagentError as error:
                self._failed[arm] = [fault_of(error)]

    def stop(self, now: bool = False) -> None:
        """Stops the campaigns that run; the next run goes on with them. now: jobs that run are ended, too."""
        self._pool.stop(now)

    def run(self, tell: Tell) -> EvaluationAnswer:
        """Runs all campaigns, or goes on with them. An arm that fails does not stop the others."""
        found: list[EvaluatedCampaign] = []
        faults = 0
        for campaign, result in self._pool.run(self._plan):
            if isinstance(result, str):
                faults += 1
                self._failed.setdefault(campaign.arm, []).append(f"{campaign.name}: {result}")
            else:
                found.append(result)
                tell(result, len(found), len(self._plan))
        return self._answer(found, len(found) + faults < len(self._plan))

    def _resolved(self, arm: str, stated: ArmSpec) -> ArmSpec:
        """Returns an arm whose policy is the name of a model. Keeps the model of an arm with a local one.

        Raises UnknownNameError, or UsageError for a model that is not here or has changed.
        """
        model = self._model(stated)
        if model is None:
            return stated
        self._models[arm] = model
        return ArmSpec(model=model.name) if stated.policy else stated

    def _model(self, stated: ArmSpec) -> Model | None:
        if stated.policy == SCRIPTED:
            return None
        if stated.policy is not None:
            with self._ledger.read() as connection:
                policy = policies.resolved(connection, stated.policy)
            return models.of_weights(policy.base_sha256, policy.name)
        proposer = stated.proposer or {}
        is_local = proposer.get("kind") == "llm" and "model" in proposer and proposer.get("endpoint") is None
        name = stated.model or (proposer["model"] if is_local else None)
        return None if name is None else models.find(str(name))

    def _answer(self, found: list[EvaluatedCampaign], is_stopped: bool) -> EvaluationAnswer:
        order = {campaign.name: place for place, campaign in enumerate(self._plan)}
        found.sort(key=lambda each: order[each.campaign])
        tasks = tuple(dict.fromkeys(campaign.task for campaign in self._plan))
        failed = {arm: tuple(why) for arm, why in self._failed.items()}
        names = {arm: model.policy for arm, model in self._models.items()}
        arms, minus = compared(found, tasks, self._spec, names, failed)
        answer = EvaluationAnswer(
            arms=arms,
            differences=minus,
            tasks=tasks,
            seeds=self._spec.seeds,
            verifications=self._spec.verifications,
            failed={arm: why for arm, why in failed.items() if arm not in arms},
            campaigns=tuple(found),
            stopped=STOPPED if is_stopped else None,
        )
        return answer.model_copy(update={"evaluation": None if is_stopped or not arms else self._entered(answer)})

    def _entered(self, answer: EvaluationAnswer) -> int:
        """Writes a complete evaluation, and the policies of its arms, to the ledger; returns its number."""
        plain = answer.model_dump(mode="json", exclude={"evaluation"})
        with self._ledger.begin() as connection:
            ids = {
                arm: policies.enter(connection, PolicyIdentity(model.policy, IN_PROCESS, model.sha256))
                for arm, model in self._models.items()
                if arm in answer.arms
            }
            return training.enter(connection, self._spec.model_dump(mode="json"), plain, ids, user())
