"""The turns and the rewards of a campaign as Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.report.export.parquet import ArrowRows, table_metadata
from sciagent.store.learning import rewards
from sciagent.training.columns import EPISODE, TableColumn, episode_cells, schema
from sciagent.training.reading import TrainingCampaign

TOKENS = ("prompt_ids", "output_ids", "logprobs", "behaviour", "forced")
AS_JSON = ("message", "calls", "observations", "sampling", "cost")
AS_THEY_ARE = ("kept", "template_hash", "untrainable", "watermark", "asked_watermark")
TRAJECTORIES = (
    *EPISODE,
    TableColumn("turn", "whole", "number of the turn in its episode, from 0"),
    TableColumn("turn_policy", "text", "name and version of the model that answered in this turn"),
    TableColumn("opening", "text", "JSON: the first messages of the episode; only in its first turn"),
    TableColumn("message", "text", "JSON: the parsed answer"),
    TableColumn("calls", "text", "JSON: the calls of tools that were carried out"),
    TableColumn("observations", "text", "JSON: what the tools answered"),
    TableColumn("sampling", "text", "JSON: temperature, seed and other settings of sampling"),
    TableColumn("cost", "text", "JSON: cost of the turn by resource"),
    TableColumn("kept", "whole", "number of earlier tokens with which the prompt begins; prompt_ids follow them"),
    TableColumn("prompt_ids", "wholes", "token ids of the prompt after the kept ones"),
    TableColumn("output_ids", "wholes", "(n,) token ids of the answer"),
    TableColumn("logprobs", "numbers", "(n,) as the back end gave them, natural logarithms"),
    TableColumn("behaviour", "numbers", "(n,) log-probability in the distribution that the token was drawn from"),
    TableColumn("forced", "truths", "(n,) whether a grammar left no choice"),
    TableColumn("template_hash", "text", "SHA-256 of the chat template"),
    TableColumn("untrainable", "text", "why no policy gradient may use the turn; null if one may"),
    TableColumn("watermark", "whole", "of the evidence when the turn was written"),
    TableColumn("asked_watermark", "whole", "of the evidence when the model was asked"),
    TableColumn("at", "text", "UTC, ISO 8601"),
)
REWARDS = (
    *EPISODE,
    TableColumn("reward_version", "whole", "version of the rewards"),
    TableColumn("turn", "whole", "number of the turn; null for the outcome of the episode"),
    TableColumn("reward", "number", "in hits or utility; null if undecided"),
    TableColumn("return", "number", "sum of the rewards from this turn on"),
    TableColumn("advantage", "number", "null if undecided, or without siblings"),
    TableColumn("terms", "text", "JSON: the parts of the reward by name"),
    TableColumn("candidates", "text", "JSON: the candidates with value, cost and whether they are settled"),
)
TABLE_GROUP = 500  # turns of a row group


def trajectory_rows(connection: Connection, campaign: TrainingCampaign) -> ArrowRows:
    """Returns a row per turn of a model."""
    metadata = table_metadata(campaign.built.row, "trajectories")
    return ArrowRows(schema(TRAJECTORIES, metadata), _turns(connection, campaign), TABLE_GROUP)


def _turns(connection: Connection, campaign: TrainingCampaign) -> Iterator[Mapping[str, Any]]:
    for row in campaign.rows(connection):
        episode = campaign.episode(connection, row)
        said = [{"role": message.role, "content": message.content} for message in episode.opening]
        opening: str | None = _json(said)
        for turn in campaign.raw_turns(connection, episode):
            cells = {name: turn[name] for name in (*TOKENS, *AS_THEY_ARE)}
            cells |= {name: None if turn[name] is None else _json(turn[name]) for name in AS_JSON}
            cells |= {"turn": turn["number"], "opening": opening, "at": turn["at"].isoformat()}
            yield episode_cells(episode) | cells | {"turn_policy": turn["policy_version"]}
            opening = None


def reward_rows(connection: Connection, campaign: TrainingCampaign, version: int) -> ArrowRows:
    """Returns a row per rewarded turn, and one for the outcome of each episode."""
    return ArrowRows(
        schema(REWARDS, table_metadata(campaign.built.row, "rewards")),
        _rewards(connection, campaign, version),
        TABLE_GROUP,
    )


def _rewards(connection: Connection, campaign: TrainingCampaign, version: int) -> Iterator[Mapping[str, Any]]:
    for row in campaign.rows(connection):
        episode = campaign.episode(connection, row)
        numbers = {turn["id"]: turn["number"] for turn in campaign.raw_turns(connection, episode)}
        for reward in rewards.of_version(connection, version, [episode.id]):
            if reward.turn_id is not None and reward.turn_id not in numbers:
                continue  # a turn after the watermark
            yield episode_cells(episode) | {
                "reward_version": version,
                "turn": None if reward.turn_id is None else numbers[reward.turn_id],
                "reward": reward.value,
                "return": reward.to_go,
                "advantage": reward.advantage,
                "terms": _json(reward.terms),
                "candidates": _json(list(reward.candidates)),
            }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
