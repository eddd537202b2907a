"""An evaluation: plans its campaigns, runs those that have not ended, and compares the arms.

`Evaluation` does all this. `Pool` runs its campaigns in this process or in several processes. Each process keeps its
model loaded.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from sciagent.agent import install_and_find_models
from sciagent.agent.install_and_find_models import Model
from sciagent.domain.policy_identity import IN_PROCESS, PolicyIdentity
from sciagent.errors import SciagentError
from sciagent.inputs.environment_variables import user
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import evaluations_and_turn_uses, policies_and_roles
from sciagent.training.evaluation.arm_figures import compared
from sciagent.training.evaluation.campaign_runs import CampaignRuns, PlannedCampaign, fault_of, planned
from sciagent.training.evaluation.evaluation_command_answers import EvaluatedCampaign, EvaluationAnswer
from sciagent.training.evaluation.evaluation_spec import SCRIPTED, ArmSpec, EvaluateSpec
from sciagent.training.evaluation.evaluation_worker import line_of, run_to_answer

Answer = Mapping[str, Any]
"""The answer of a worker on a campaign has `figures`, `fault` or `held`; see `evaluation_worker.run_to_answer`."""
PAUSE_SECONDS = 1.0  # after a campaign that another process runs


class Pool:
    """Workers that run campaigns. `stop` may be called from any thread.

    A single worker is this process. Several workers are processes of their own, so that each counts its own core time.
    A campaign that another evaluation runs is tried again after the others, so that evaluations on one ledger share
    their campaigns.
    """

    def __init__(self, ledger: Ledger, workers: int) -> None:
        self._ledger = ledger
        self._workers = workers
        self._runs = CampaignRuns(ledger)
        self._processes: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self, campaigns: Sequence[PlannedCampaign]) -> Iterator[tuple[PlannedCampaign, EvaluatedCampaign | str]]:
        """Yields each campaign with its figures, or with why it has none, in the order in which they end.

        Campaigns that were stopped are left out.
        """
        n_workers = min(self._workers, len(campaigns))
        results = self._run_here(campaigns) if n_workers < 2 else self._run_in_processes(campaigns, n_workers)
        for campaign, result in results:
            if "figures" in result:
                yield campaign, EvaluatedCampaign.model_validate(result["figures"])
            elif "fault" in result:
                yield campaign, str(result["fault"])

    def stop(self, now: bool = False) -> None:
        """Stops the campaigns that run, and begins no more. now: jobs that run are ended, too."""
        self._stopped.set()
        self._runs.stop(now)
        with self._lock:
            for process in self._processes:
                if process.stdin is not None and not process.stdin.closed:
                    process.stdin.close()

    def _run_here(self, campaigns: Sequence[PlannedCampaign]) -> Iterator[tuple[PlannedCampaign, Answer]]:
        """Runs campaigns in this process, and yields each with its answer."""
        waiting = deque(campaigns)
        try:
            while waiting:
                campaign = waiting.popleft()
                result = run_to_answer(self._runs, campaign)
                if "held" in result and not self._stopped.wait(PAUSE_SECONDS):
                    waiting.append(campaign)
                else:
                    yield campaign, result
        finally:
            self._runs.close()

    def _run_in_processes(
        self, campaigns: Sequence[PlannedCampaign], n_workers: int
    ) -> Iterator[tuple[PlannedCampaign, Answer]]:
        """Runs campaigns in processes, each served by a thread; yields each with the answer of its worker."""
        waiting: queue.SimpleQueue[PlannedCampaign] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[PlannedCampaign, Answer] | None] = queue.SimpleQueue()
        for campaign in campaigns:
            waiting.put(campaign)
        for _ in range(n_workers):
            threading.Thread(target=self._run_with_worker, args=(waiting, done.put), daemon=True).start()
        n_running = n_workers
        while n_running:
            result = done.get()
            if result is None:  # a thread has ended
                n_running -= 1
            else:
                yield result

    def _run_with_worker(
        self, waiting: queue.SimpleQueue[PlannedCampaign], put: Callable[[tuple[PlannedCampaign, Answer] | None], None]
    ) -> None:
        """Hands campaigns to one process, one after the other, until none waits. A process that dies is replaced.

        put: takes each campaign with its answer, and None at the end.
        """
        process: subprocess.Popen[str] | None = None
        try:
            while not self._stopped.is_set():
                campaign = waiting.get_nowait()
                process = process or self._start_worker()
                result = _ask(process, campaign)
                if result is None:
                    status = process.wait()
                    result = {} if self._stopped.is_set() else {"fault": f"its process ended with status {status}"}
                    self._end_worker(process)
                    process = None
                if "held" in result and not self._stopped.wait(PAUSE_SECONDS):
                    waiting.put(campaign)
                else:
                    put((campaign, result))
        except queue.Empty:  # all campaigns are handed out
            pass
        finally:
            if process is not None:
                self._end_worker(process)
            put(None)

    def _start_worker(self) -> subprocess.Popen[str]:
        """Starts a worker. It has a session of its own, so that Ctrl-C reaches only this process, which stops it."""
        command = [sys.executable, "-m", "sciagent.training.evaluation.evaluation_worker"]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
        process = subprocess.Popen(command, **pipes)
        url = self._ledger.url.render_as_string(hide_password=False)
        _tell(process, json.dumps({"url": url, "artifacts": str(self._ledger.artifacts.root)}))
        with self._lock:
            self._processes.add(process)
        return process

    def _end_worker(self, process: subprocess.Popen[str]) -> None:
        """Closes the input of a worker, at which it ends, and waits for its end."""
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


def in_turn(by_arm: Mapping[str, Sequence[PlannedCampaign]], apart: Container[str]) -> list[PlannedCampaign]:
    """Returns the campaigns in the order in which they run. The arms take turns, so that other work on the machine
    slows all of them.

    apart: arms whose campaigns run one after the other at the end, since their model is loaded anew after another's.
    """
    turns = zip_longest(*(campaigns for arm, campaigns in by_arm.items() if arm not in apart))
    alternated = [campaign for turn in turns for campaign in turn if campaign is not None]
    return alternated + [campaign for arm, campaigns in by_arm.items() if arm in apart for campaign in campaigns]


Tell = Callable[[EvaluatedCampaign, int, int], None]
"""Takes a campaign that has ended, the number of ended campaigns, and the number of all."""
STOPPED = "campaigns are left to run"


class Evaluation:
    """One evaluation. `stop` may be called from any thread.

    An arm that cannot be planned has no campaigns; the answer says why.
    """

    def __init__(self, spec: EvaluateSpec, folder: Path, ledger: Ledger, workers: int = 1) -> None:
        """folder: of the file with the evaluation, where relative paths start. workers: number of campaigns at once."""
        self._spec = spec
        self._ledger = ledger
        self._pool = Pool(ledger, workers)
        self._failed: dict[str, list[str]] = {}
        self._models: dict[str, Model] = {}  # by arm
        by_arm: dict[str, list[PlannedCampaign]] = {}
        for arm, stated in spec.arms.items():
            try:
                resolved = self._resolved(arm, stated)
                version = self._models[arm].sha256 if arm in self._models else ""
                by_arm[arm] = list(planned(spec, folder, arm, resolved, version))
            except SciagentError as error:
                self._failed[arm] = [fault_of(error)]
        self._plan = list(chain.from_iterable(by_arm.values()))
        self._order = in_turn(by_arm, self._models)

    def stop(self, now: bool = False) -> None:
        """Stops the campaigns that run; the next run goes on with them. now: jobs that run are ended, too."""
        self._pool.stop(now)

    def run(self, tell: Tell) -> EvaluationAnswer:
        """Runs all campaigns, or goes on with them. An arm that fails does not stop the others."""
        evaluated: list[EvaluatedCampaign] = []
        n_failed = 0
        for campaign, result in self._pool.run(self._order):
            if isinstance(result, str):
                n_failed += 1
                self._failed.setdefault(campaign.arm, []).append(f"{campaign.name}: {result}")
            else:
                evaluated.append(result)
                tell(result, len(evaluated), len(self._plan))
        is_stopped = len(evaluated) + n_failed < len(self._plan)
        return self._answer(evaluated, is_stopped)

    def _resolved(self, arm: str, stated: ArmSpec) -> ArmSpec:
        """Returns the arm with a model's name in place of a policy, and notes the model of this machine that it asks.

        Raises UnknownNameError, or UsageError for a model that is not on this machine or has changed.
        """
        model = self._model(stated)
        if model is None:
            return stated
        self._models[arm] = model
        return ArmSpec(model=model.name, filter=stated.filter) if stated.policy else stated

    def _model(self, stated: ArmSpec) -> Model | None:
        """Returns the model of this machine that an arm asks; None if it asks none."""
        if stated.policy == SCRIPTED:
            return None
        if stated.policy is not None:
            with self._ledger.read() as connection:
                policy = policies_and_roles.resolved(connection, stated.policy)
            return install_and_find_models.of_weights(policy.base_sha256, policy.name)
        proposer = stated.proposer or {}
        asks_local_model = proposer.get("kind") == "llm" and "model" in proposer and proposer.get("endpoint") is None
        name = stated.model
        if not name and asks_local_model:
            name = proposer["model"]
        return None if name is None else install_and_find_models.find(str(name))

    def _answer(self, evaluated: list[EvaluatedCampaign], is_stopped: bool) -> EvaluationAnswer:
        """Returns the answer; a complete evaluation is written into the ledger."""
        order = {campaign.name: place for place, campaign in enumerate(self._plan)}
        evaluated.sort(key=lambda each: order[each.campaign])
        tasks = tuple(dict.fromkeys(campaign.task for campaign in self._plan))
        failed = {arm: tuple(reasons) for arm, reasons in self._failed.items()}
        policy_names = {arm: model.policy for arm, model in self._models.items()}
        arms, differences = compared(evaluated, tasks, self._spec, policy_names, failed)
        answer = EvaluationAnswer(
            arms=arms,
            differences=differences,
            tasks=tasks,
            seeds=self._spec.seeds,
            verifications=self._spec.verifications,
            failed={arm: reasons for arm, reasons in failed.items() if arm not in arms},
            campaigns=tuple(evaluated),
            stopped=STOPPED if is_stopped else None,
        )
        if is_stopped or not arms:
            return answer
        return answer.model_copy(update={"evaluation": self._enter(answer)})

    def _enter(self, answer: EvaluationAnswer) -> int:
        """Writes a complete evaluation, and the policies of its arms, to the ledger; returns its number."""
        answer_json = answer.model_dump(mode="json", exclude={"evaluation"})
        policy_ids: dict[str, int] = {}
        with self._ledger.begin() as connection:
            for arm, model in self._models.items():
                if arm in answer.arms:
                    identity = PolicyIdentity(model.policy, IN_PROCESS, base_sha256=model.sha256)
                    policy_ids[arm] = policies_and_roles.enter(connection, identity)
            return evaluations_and_turn_uses.enter(
                connection, self._spec.model_dump(mode="json"), answer_json, policy_ids, user()
            )
