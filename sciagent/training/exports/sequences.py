"""Splits rows of token ids into a prompt and a response, for trainers that compute probabilities themselves.

Such trainers take the probability of a token among all tokens, at the temperature at which it was drawn. They cannot
make a grammar again, so tokens that were sampled under one get no gradient here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from sciagent.agent.trace import CONTEXT
from sciagent.training.exports.source import DatasetFolder
from sciagent.training.splits import Split

GRAMMAR = "turns: sampled under a grammar, which other trainers cannot make again"
MIXED = "turns: sampled at another temperature than the first turn of their row"
NO_GRADIENT = "rows: no token that a policy gradient may use"
SAMPLING = ("episode", "turn", "sampling")
Temperatures = Mapping[tuple[int, int], float | None]
"""Temperatures by episode and turn; None under a grammar."""


@dataclass(frozen=True)
class TokenSequence:
    """A row of token ids as a prompt and a response. Every number of a token has the length of the response."""

    row: Mapping[str, Any]
    """The row of the data set."""
    prompt_ids: list[int]
    """(p,) the ids before the first sampled token."""
    response_ids: list[int]
    """(r,) the other ids: what was sampled, and what tools answered in between."""
    mask: list[int]
    """(r,) 1 where a policy gradient may use the token."""
    behaviour: list[float]
    """(r,) log-probability in the distribution that the token was drawn from; 0 where it was not sampled."""
    advantages: list[float]
    """(r,) 0 where the mask is 0."""
    temperature: float
    """At which the tokens of the mask were drawn."""
    last: bool
    """Whether no later row of the episode follows."""

    @property
    def group(self) -> str:
        """The siblings of an episode have the same group, others none."""
        own = f"{self.row['campaign']}/episode {self.row['episode']}"
        return own if self.row["group"] is None else f"{self.row['campaign']}/group {self.row['group']}"

    @cached_property
    def rewards(self) -> list[float] | None:
        """(r,) the reward of the episode at the last token of its last row; None while it is undecided."""
        outcome = self.row["outcome"]
        if outcome is None:
            return None
        return [0.0] * (len(self.response_ids) - 1) + [outcome if self.last else 0.0]


def sequences(source: DatasetFolder, split: Split, left_out: Counter[str]) -> Iterator[TokenSequence]:
    """Yields the sequences with at least one token for a policy gradient, those of an episode one after the other.

    left_out: takes the numbers of turns and rows that are left out, by reason.
    """
    rows = source.rows(split)
    for campaign, of_campaign in groupby(rows, key=lambda row: row["campaign"]):
        temperatures = {
            (row["episode"], row["turn"]): _temperature(json.loads(row["sampling"] or "{}"))
            for row in source.table(campaign, "trajectories", SAMPLING)
        }
        for _, episode in groupby(of_campaign, key=lambda row: row["episode"]):
            found = [each for row in episode if (each := _sequence(row, temperatures, left_out)) is not None]
            for place, each in enumerate(found):
                yield replace(each, last=place == len(found) - 1)


def _temperature(sampling: Mapping[str, Any]) -> float | None:
    """Returns the temperature at which a turn was sampled; None under a grammar."""
    return None if sampling.get("grammar") else float(sampling["temperature"])


def _sequence(row: Mapping[str, Any], temperatures: Temperatures, left_out: Counter[str]) -> TokenSequence | None:
    """Returns the sequence of a row as the last one of its episode; None if it has no token for a policy gradient."""
    turns, temperature = _used(row, temperatures, left_out)
    if temperature is None:
        left_out[NO_GRADIENT] += 1
        return None
    start = next(place for place, turn in enumerate(row["turns"]) if turn != CONTEXT)
    mask = [
        int(gradient and turn in turns)
        for gradient, turn in zip(row["gradient"][start:], row["turns"][start:], strict=True)
    ]
    return TokenSequence(
        row,
        row["ids"][:start],
        row["ids"][start:],
        mask,
        [0.0 if drawn is None else drawn for drawn in row["behaviour"][start:]],
        [worth if kept else 0.0 for worth, kept in zip(row["advantages"][start:], mask, strict=True)],
        temperature,
        last=True,
    )


def _used(
    row: Mapping[str, Any], temperatures: Temperatures, left_out: Counter[str]
) -> tuple[frozenset[int], float | None]:
    """Returns the turns of a row that are trained, and their temperature; None without one."""
    wanted = dict.fromkeys(turn for turn, used in zip(row["turns"], row["gradient"], strict=True) if used)
    found = {turn: temperatures[row["episode"], turn] for turn in wanted}
    plain = {turn: temperature for turn, temperature in found.items() if temperature is not None}
    left_out[GRAMMAR] += len(found) - len(plain)
    temperature = next(iter(plain.values()), None)
    used = frozenset(turn for turn, own in plain.items() if own == temperature)
    left_out[MIXED] += len(plain) - len(used)
    return used, temperature
