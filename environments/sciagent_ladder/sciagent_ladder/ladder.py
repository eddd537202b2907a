"""Tasks, episodes and rewards of a running `sciagent environment serve`.

The environment offers the tools, carries out the calls and computes the rewards. This module asks the model, through an
endpoint of `verifiers` that records the calls, and sends its answers to the environment.
"""

import os
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import verifiers.v1 as vf
from verifiers.v1.env import RunSlot

URL = "http://127.0.0.1:8090"
SECONDS = 600.0  # longest time that a turn or the model may take
MAX_NAME = 200  # characters of a policy's name that the environment accepts


class LadderData(vf.TaskData):
    """One task of the environment."""

    url: str
    task: int
    """Number of the task, which determines its seed."""
    wait: float
    token_var: str
    group: str | None = None
    """Name of the group whose episodes begin alike; None: the episode is alone."""
    siblings: int = 1


class LadderConfig(vf.TasksetConfig):
    """The address of the environment, and which of its tasks are taken."""

    url: str = URL
    """Address of `sciagent environment serve`."""
    tasks: int = 1
    """Number of tasks; each has a seed of its own."""
    wait: float = 0.0
    """Longest time, in seconds, that the end of an episode waits for a decided reward."""
    token_var: str = "SCIAGENT_ENVIRONMENT_TOKEN"
    """Environment variable that holds the environment's token."""


class LadderTask(vf.Task[LadderData]):
    """A task whose reward is computed by the environment."""

    @property
    def key(self) -> str:
        """The task's name; its group differs from run to run."""
        return self.data.name or self.hash

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Ends the episode, and keeps its rewards by turn with the trace."""
        if "episode" not in trace.info:
            raise vf.TaskError("no episode was opened: see the error of the harness")
        async with ladder(self.data) as client:
            path = f"/episodes/{trace.info['episode']}/end?wait={self.data.wait}"
            trace.info["rewards"] = await reply(client.post(path, json={}, timeout=self.data.wait + SECONDS))

    @vf.reward
    async def ladder(self, trace: vf.Trace) -> float:
        """Returns the outcome of the episode; an undecided one is an error and not 0."""
        outcome = trace.info["rewards"]["outcome"]
        if outcome is None:
            number = trace.info["episode"]
            raise vf.TaskError(f"episode {number} is undecided: the ladder has not answered on all of it yet")
        return float(outcome)

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        """Returns the number of turns of the episode."""
        return float(len(trace.info["rewards"]["turns"]))

    @vf.metric
    async def proposed(self, trace: vf.Trace) -> float:
        """Returns the number of new candidates of the episode."""
        return float(sum(len(turn["candidates"]) for turn in trace.info["rewards"]["turns"]))


class LadderTaskset(vf.Taskset[LadderTask, LadderConfig]):
    """The tasks of an environment: one goal, each with a seed of its own."""

    def load(self) -> Iterator[LadderTask]:
        config = self.config
        shared = {"url": config.url, "wait": config.wait, "token_var": config.token_var}
        with httpx.Client(base_url=config.url, headers=headers(config.token_var), timeout=30) as client:
            listed = content(client.get("/tasks", params={"n": config.tasks}))
        for task in listed["tasks"]:
            name = f"{listed['campaign']}#{task['task']}"
            yield LadderTask(LadderData(name=name, prompt=task["goal"], task=task["task"], **shared), config.task)


class LadderHarnessConfig(vf.HarnessConfig):
    """The settings of the harness: none of its own."""


class LadderHarness(vf.Harness[LadderHarnessConfig]):
    """Asks the model with the environment's messages and tools, and sends its answers to the environment."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Plays an episode until the environment or a limit of verifiers ends it."""
        assert isinstance(data, LadderData)
        policy = ctx.model[:MAX_NAME]
        wish = {"task": data.task, "policy": policy, "group": data.group, "siblings": data.siblings}
        to_model = {"base_url": endpoint, "headers": {"Authorization": f"Bearer {secret}"}, "timeout": SECONDS}
        async with ladder(data) as client, httpx.AsyncClient(**to_model) as model:
            opened = await reply(client.post("/episodes", json=wish))
            trace.info["episode"] = opened["episode"]
            messages = list(opened["messages"])
            done = False
            while not done:
                asked = {"model": ctx.model, "messages": messages, "tools": opened["tools"]}
                answered = await model.post("chat/completions", json=asked)
                if trace.stop_condition is not None:  # a limit of verifiers ended the episode instead of an answer
                    break
                answer = content(answered)
                message = answer["choices"][0]["message"]
                number = len(trace.calls) - 1  # of the call that verifiers has just recorded
                turn = {"message": message, "usage": used(answer), "turn": number}
                said = await reply(client.post(f"/episodes/{opened['episode']}/turns", json=turn))
                messages += [message, *said["messages"]]
                done = said["done"]
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class LadderEnvConfig(vf.EnvConfig):
    """The environment's one agent. Its harness runs in the process of verifiers, so it needs no sandbox."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class LadderEnv(vf.Env[LadderEnvConfig]):
    """Plays each task by one agent; the rollouts of a task are siblings, which begin alike."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        await agents.agent.run(task)

    def slots(self, task: vf.Task, n: int = 1) -> list[RunSlot]:
        """Plans n rollouts of a task as one group of the environment."""
        group = f"{task.data.name} {uuid.uuid4().hex[:8]}" if n > 1 else None
        return super().slots(task.with_data(group=group, siblings=n), n)


def ladder(data: LadderData) -> httpx.AsyncClient:
    """Returns a client of the environment."""
    return httpx.AsyncClient(base_url=data.url, headers=headers(data.token_var), timeout=SECONDS)


def headers(token_var: str) -> dict[str, str]:
    """Returns the header with the environment's token, if there is one."""
    token = os.environ.get(token_var)
    return {"Authorization": f"Bearer {token}"} if token else {}


async def reply(request: Any) -> dict[str, Any]:
    """Returns the JSON reply to a request. Raises TaskError with what the environment says."""
    return content(await request)


def content(response: httpx.Response) -> dict[str, Any]:
    """Returns the JSON content of a response. Raises TaskError for a refusal."""
    if response.is_error:
        raise vf.TaskError(f"{response.request.url}: {response.status_code} {response.text[:500]}")
    return dict(response.json())


def used(answer: Mapping[str, Any]) -> dict[str, int] | None:
    """Returns the tokens of a completion; None if its server does not say."""
    usage = answer.get("usage") or {}
    counts = {name: usage.get(name) for name in ("prompt_tokens", "completion_tokens")}
    return counts if all(isinstance(count, int) for count in counts.values()) else None
