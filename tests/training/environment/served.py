"""Campaigns, rewards and played episodes, which the tests of environments share."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.training.environment.environment import LadderEpisode
from sciagent.training.rollouts.open_and_resume_groups import EpisodeReply
from tests.training.rollouts.rolled import TEXT

FAST = TEXT
PAID = TEXT.replace(
    "goal:", "  - {rung: xtb, verifier: xtb.singlepoint, settings: {geometry: {conformers: 1}}}\ngoal:"
).replace("{property: logp, window: [1, 2]}", "{property: homo_lumo_gap, window: [3, 12], unit: eV}")
PAID = PAID.replace("llm_tokens: 1000000", "llm_tokens: 1000000, core_seconds: 10000")
REWARDS = RewardSpec(prices={"core_seconds": 1e-4, "llm_tokens": 1e-6}, unsettled="settled")
Call = tuple[str, dict[str, Any]]
# without a look for proxies: it goes through the environment variables, which an import in another thread may change
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def proposing(*smiles: str) -> list[Call]:
    return [("propose", {"smiles": each}) for each in smiles]


def played(episode: LadderEpisode, calls: Sequence[Call]) -> list[EpisodeReply]:
    return [episode.call(name, arguments) for name, arguments in calls]


def texts(replies: Sequence[EpisodeReply]) -> list[str]:
    return [str(message["content"]) for reply in replies for message in reply.messages]


def trajectories(ledger: Ledger) -> dict[int, tuple[str, str | None]]:
    """{number of an episode: state of its group, why it ended}."""
    j, g = t.trajectory.c, t.rollout_group.c
    query = sa.select(j.number, g.state, j.ended_why).select_from(
        t.trajectory.join(t.rollout_group, g.id == j.group_id)
    )
    with ledger.read() as connection:
        return {number: (state, why) for number, state, why in connection.execute(query)}


def turns(ledger: Ledger) -> list[Any]:
    """The turns of all episodes that belong to a group, as rows."""
    j, u = t.trajectory.c, t.turn.c
    query = sa.select(t.turn, j.number.label("episode"), j.purpose).select_from(t.turn.join(t.trajectory))
    with ledger.read() as connection:
        return list(connection.execute(query.where(j.group_id.is_not(None)).order_by(u.id)).mappings())


class Client:
    """A client of an environment over HTTP, with nothing but the standard library."""

    def __init__(self, url: str, **headers: str) -> None:
        self.url, self.headers = url, headers

    def __call__(
        self, path: str, body: object = None, *, raw: bytes | None = None, method: str | None = None
    ) -> tuple[int, Any]:
        """Returns the status and the reply. body: is posted as JSON; None: asks by GET."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"} if data is not None else {}
        request = urllib.request.Request(self.url + path, data, kind | self.headers, method=method)
        try:
            with DIRECT.open(request, timeout=60) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def answer(self, path: str, method: str = "GET") -> tuple[int, dict[str, str]]:
        """Returns the status and the headers, by their names in small letters."""
        with DIRECT.open(urllib.request.Request(self.url + path, headers=self.headers, method=method)) as reply:
            return reply.status, {name.lower(): value for name, value in reply.headers.items()}
