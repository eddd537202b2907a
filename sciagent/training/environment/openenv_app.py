"""An environment for clients of OpenEnv: `reset` opens an episode, `step` takes a turn.

It needs the package `openenv`, in an environment without sciagent's extra `llm`: they need different versions of mcp.
"""

from __future__ import annotations

from typing import Any

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment as OpenEnvEnvironment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from pydantic import Field

from sciagent.errors import EpisodeError
from sciagent.training.environment.environment import Environment, LadderEpisode


class LadderAction(Action):
    """One answer of a policy: a tool call, or a whole assistant's message."""

    tool: str | None = Field(None, description="Name of the tool to call.")
    arguments: dict[str, Any] = Field(default_factory=dict, description="Arguments of the call.")
    message: dict[str, Any] | None = Field(
        None, description="An assistant's message in OpenAI's format, instead of `tool`; it may hold several calls."
    )
    usage: dict[str, int] | None = Field(
        None, description="`prompt_tokens` and `completion_tokens` of the answer, which are charged."
    )


class LadderObservation(Observation):
    """The observation after a step. `reward` is None while the ladder has not decided."""

    messages: list[dict[str, Any]] = Field(default_factory=list, description="Messages in OpenAI's format.")
    tools: list[dict[str, Any]] = Field(default_factory=list, description="Schemas of the tools; after a reset.")
    ended: str | None = Field(None, description="Why the episode has ended.")


class LadderState(State):
    """The episode by the evidence so far. `episode_id` is its number in the campaign."""

    campaign: str = Field("", description="Name of the campaign.")
    outcome: float | None = Field(None, description="Reward of the episode; null while it is undecided.")
    rewards: list[float | None] = Field(default_factory=list, description="Rewards of its turns.")


class OpenEnvLadder(OpenEnvEnvironment[LadderAction, LadderObservation, LadderState]):
    """The session of one client, which has one open episode at a time."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, environment: Environment) -> None:
        super().__init__()
        self._environment = environment
        self._episode: LadderEpisode | None = None

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> LadderObservation:
        """Ends the session's open episode, and opens the next one.

        episode_id: is not used, since the campaign numbers its episodes. kwargs: `task`, `group`, `siblings`, `policy`
        and `purpose`. Raises EpisodeError.
        """
        self.close()
        self._episode = self._environment.open(seed=seed, **kwargs)
        opened = self._episode.opened
        return LadderObservation(
            messages=[dict(message) for message in opened.messages], tools=[dict(tool) for tool in opened.tools]
        )

    def step(self, action: LadderAction, timeout_s: float | None = None, **kwargs: Any) -> LadderObservation:
        """Takes a turn. timeout_s: is not used, since a turn that was sent is always carried out. Raises
        EpisodeError."""
        episode = self._opened()
        if action.message is not None:
            reply = episode.turn(action.message, action.usage)
        elif action.tool is not None:
            reply = episode.call(action.tool, action.arguments)
        else:
            raise EpisodeError(400, "an action needs `tool` with `arguments`, or `message`")
        return LadderObservation(
            messages=[dict(each) for each in reply.messages], reward=reply.reward, done=reply.done, ended=reply.ended
        )

    @property
    def state(self) -> LadderState:
        """The episode with its rewards by the evidence so far."""
        if self._episode is None:
            return LadderState(campaign=self._environment.campaign)
        rewarded = self._environment.rewards(self._episode.number)
        return LadderState(
            episode_id=str(rewarded.episode),
            step_count=len(rewarded.turns),
            campaign=self._environment.campaign,
            outcome=rewarded.outcome,
            rewards=[turn.reward for turn in rewarded.turns],
        )

    def get_metadata(self) -> EnvironmentMetadata:
        goal = self._environment.tasks()[0].goal
        return EnvironmentMetadata(name=self._environment.campaign, description=goal, version="1")

    def close(self) -> None:
        """Ends the episode, if one is open."""
        if self._episode is not None:
            self._environment.leave(self._episode.number)
            self._episode = None

    def _opened(self) -> LadderEpisode:
        """Returns the open episode. Raises EpisodeError without one."""
        if self._episode is None:
            raise EpisodeError(409, "no episode is open; call reset first")
        return self._episode


def openenv_application(environment: Environment) -> Any:
    """Returns OpenEnv's ASGI application over an environment; each session has episodes of its own."""

    def session() -> OpenEnvLadder:
        return OpenEnvLadder(environment)

    return create_app(
        session,
        LadderAction,
        LadderObservation,
        env_name=environment.campaign,
        max_concurrent_envs=environment.most,
        state_cls=LadderState,
    )
