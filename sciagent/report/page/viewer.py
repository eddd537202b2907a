"""Episodes for display: the model's messages, calls and observations, turn by turn, and the fate of its proposals.

Texts are cut and drawings counted, so that the size of a page is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.properties import properties
from sciagent.domain.scoring import crps, read
from sciagent.domain.tiers import Tier
from sciagent.report.parts.candidates import depicted, kind, status
from sciagent.report.parts.wording import unit_sign, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, rungs
from sciagent.store.results import pooled
from sciagent.store.views import report_candidates
from sciagent.store.views import report_episodes as ask
from sciagent.store.views.report_candidates import Ranked
from sciagent.store.views.report_episodes import Begun, EpisodeOutcome, Proposed

LATEST = 12  # episodes that a report shows, the last of all
BEST = 8  # and those behind the best candidates
TURNS = 40  # shown of an episode
PROPOSALS = 200  # shown of an episode
MAX_TEXT = 3000  # characters of a message
ROOM = 900_000  # characters of all episodes of a report


@dataclass
class PageRoom:
    """The room that is left on a page."""

    text: int = ROOM
    """Characters."""
    drawings: int = 80
    """Structures."""
    turns: int = TURNS
    """Turns of each episode."""
    longest: int = MAX_TEXT
    """Characters of each message."""

    def cut(self, text: str, limit: int | None = None) -> str:
        limit = limit or self.longest
        shown = text if len(text) <= limit else f"{text[:limit]} … ({len(text)} characters)"
        self.text -= len(shown)
        return shown


@dataclass(frozen=True)
class ShownPrediction:
    """A predicted property of a proposal."""

    label: str
    expected: str
    """The predicted value with its standard deviation."""
    answered: str
    """The value of a paid rung with the score of the prediction, once there is one."""


@dataclass(frozen=True)
class ShownProposal:
    """A proposal of a turn."""

    text: str
    status: str
    became: str
    """The candidate's status, as on the cards of the best."""
    kind: str
    """As on the cards of the best; `fallen` if the proposal was refused."""
    operation: str
    rationale: str
    drawing: str
    predictions: list[ShownPrediction]


@dataclass(frozen=True)
class Call:
    name: str
    arguments: str
    ok: bool
    seen: str


@dataclass(frozen=True)
class ShownTurn:
    """A turn of an episode."""

    number: int
    policy: str
    at: datetime
    thinking: str
    content: str
    written: str
    """The text of the answer, where it is itself the call."""
    calls: list[Call]
    observations: list[str]
    """Observations that cannot be matched to a call."""
    made: list[ShownProposal]
    prompt_tokens: int | None
    output_tokens: int | None
    seconds: float | None
    core_seconds: float
    trainable: bool
    forced: float | None
    """Share of the sampled tokens for which a grammar left no choice; None without tokens."""


@dataclass(frozen=True)
class ShownEpisode:
    """An episode for display."""

    begun: Begun
    outcome: EpisodeOutcome
    why: str
    limits: str
    """Its limits, as a text."""
    opening: list[tuple[str, str]]
    turns: list[ShownTurn] = field(default_factory=list)

    @property
    def number(self) -> int:
        return self.begun.number

    @property
    def turns_left_out(self) -> int:
        return self.outcome.turns - len(self.turns)

    @property
    def tokens(self) -> int:
        """Number of tokens of the shown prompts and answers."""
        return sum((t.prompt_tokens or 0) + (t.output_tokens or 0) for t in self.turns)

    @property
    def seconds(self) -> float:
        return sum(t.seconds or 0.0 for t in self.turns)

    @property
    def trainable(self) -> str:
        n = sum(t.trainable for t in self.turns)
        if n == len(self.turns):
            return "trainable" if n else ""
        return f"{n} of {len(self.turns)} turns trainable" if n else "not trainable: no tokens were returned"


@dataclass(frozen=True)
class Selection:
    """The episodes that a report shows."""

    of: int
    """How many episodes the campaign has."""
    episodes: list[ShownEpisode]


def selection(connection: Connection, row: CampaignRow) -> Selection:
    """The episodes behind the best candidates and the latest ones, latest first.

    Where the page has too little room, the oldest are left out.
    """
    there = ask.count(connection, row)
    if not there:
        return Selection(0, [])
    most = LATEST + BEST
    chosen = [*ask.behind_the_best(connection, row, BEST), *ask.latest(connection, row, most)]
    room, episodes = PageRoom(), []
    for episode in _episodes(connection, row, list({begun.id: begun for begun in chosen}.values())[:most], room):
        episodes.append(episode)
        if room.text < 0:
            break
    return Selection(there, sorted(episodes, key=lambda episode: -episode.number))


def every(connection: Connection, row: CampaignRow, n: int = 20) -> Iterator[ShownEpisode]:
    """All episodes in order, n at a time in memory; each is cut to a page of its own."""
    after = -1
    while page := ask.page(connection, row, after, n):
        for begun in page:
            yield from _episodes(
                connection, row, [begun], PageRoom(drawings=PROPOSALS, turns=5 * TURNS, longest=7 * MAX_TEXT)
            )
        after = page[-1].number


def _episodes(
    connection: Connection, row: CampaignRow, page: Sequence[Begun], room: PageRoom
) -> Iterator[ShownEpisode]:
    ladder = rungs(connection, row.id)
    outcomes = ask.outcomes(connection, row, [begun.id for begun in page])
    for begun in page:
        yield _episode(connection, row, ladder, begun, outcomes.get(begun.id, EpisodeOutcome(0, 0, 0)), room)


def _episode(
    connection: Connection,
    row: CampaignRow,
    ladder: Sequence[RungRow],
    begun: Begun,
    outcome: EpisodeOutcome,
    room: PageRoom,
) -> ShownEpisode:
    turns = ask.turns(connection, begun.id, room.turns)
    proposed = ask.proposals(connection, [turn["id"] for turn in turns], PROPOSALS)
    ids = [p.candidate_id for p in proposed if p.candidate_id is not None]
    there = report_candidates.members(connection, row, ids)
    answers = _answers(connection, ladder, proposed)
    made: dict[int, list[ShownProposal]] = {}
    for p in proposed:
        member = None if p.candidate_id is None else there.get(p.candidate_id)
        made.setdefault(p.turn_id, []).append(_shown_proposal(p, member, ladder, answers, room))
    opening = begun.settings.get("opening")
    return ShownEpisode(
        begun,
        outcome,
        room.cut(str(begun.settings.get("ended") or ""), 300),
        _limits(begun.settings),
        [(str(m.get("role", "")), room.cut(str(m.get("content", "")), 2 * room.longest)) for m in _mappings(opening)],
        [_turn(turn, made.get(turn["id"], []), room) for turn in turns],
    )


def _limits(settings: Mapping[str, Any]) -> str:
    named = (("turns", "turns"), ("tokens", "sampled tokens"), ("context", "tokens of context"))
    return ", ".join(f"{settings[key]} {label}" for key, label in named if isinstance(settings.get(key), int))


def _turn(turn: Any, made: list[ShownProposal], room: PageRoom) -> ShownTurn:
    message, used = turn["message"] or {}, turn["sampling"] or {}
    content = str(message.get("content") or "")
    calls, unpaired = _calls(_mappings(turn["calls"]), _mappings(turn["observations"]), room)
    is_call = bool(calls) and content.lstrip().startswith("{")
    flags = turn["forced"] or []
    return ShownTurn(
        turn["number"],
        str(turn["policy_version"] or ""),
        turn["at"],
        room.cut(str(message.get("thinking") or "")),
        "" if is_call else room.cut(content),
        room.cut(content) if is_call else "",
        calls,
        unpaired,
        made,
        used.get("prompt_tokens"),
        used.get("output_tokens"),
        used.get("seconds"),
        float((turn["cost"] or {}).get("core_seconds", 0.0)),
        bool(turn["output_ids"]),
        sum(map(bool, flags)) / len(flags) if flags else None,
    )


def _calls(
    calls: Sequence[Mapping[str, Any]], observations: Sequence[Mapping[str, Any]], room: PageRoom
) -> tuple[list[Call], list[str]]:
    """The calls with their observations, and the observations that cannot be matched to calls by number."""
    seen = [room.cut(str(o["content"] if "content" in o else json.dumps(o, ensure_ascii=False))) for o in observations]
    paired = len(seen) == len(calls)
    made = [
        Call(
            room.cut(str(call.get("tool") or ""), 200),
            room.cut(_readable(call.get("arguments"))),
            bool(call.get("ok", True)),
            seen[i] if paired else "",
        )
        for i, call in enumerate(calls)
    ]
    return made, [] if paired else seen


def _readable(arguments: Any) -> str:
    """The arguments of a call; for an object, a line per field."""
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
        lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in given.items()]
    except (ValueError, AttributeError, RecursionError):
        return str(arguments or "")
    return "\n".join(lines)


def _shown_proposal(
    p: Proposed,
    member: Ranked | None,
    ladder: Sequence[RungRow],
    answers: dict[tuple[int, str], tuple[float, str]],
    room: PageRoom,
) -> ShownProposal:
    drawing = ""
    if p.status == "new" and member is not None:
        became, what = status(member, ladder), kind(member)
        if room.drawings > 0:
            drawing = depicted(member)
            room.drawings -= 1
    elif p.status == "duplicate":
        became, what = "already in the campaign", "open"
    else:
        became, what = f"turned away: {words(p.reason or 'refused')}", "fallen"
    return ShownProposal(
        room.cut(p.text, 300),
        p.status,
        room.cut(became, 300),
        what,
        words(p.operation or ""),
        room.cut(p.rationale or "", 600),
        drawing,
        [_shown_prediction(p, name, expected, answers) for name, expected in _predictions(p).items()],
    )


def _predictions(p: Proposed) -> dict[str, tuple[float, float]]:
    return {name: expected for name, expected in read(p.predicted).items() if name in properties()}


def _shown_prediction(
    p: Proposed, name: str, expected: tuple[float, float], answers: dict[tuple[int, str], tuple[float, str]]
) -> ShownPrediction:
    unit = properties()[name].unit
    tail = "" if unit == "1" else f" {unit_sign(unit)}"
    answered = "not answered yet" if p.status == "new" else ""
    if p.candidate_id is not None and (highest := answers.get((p.candidate_id, name))) is not None:
        answer, rung = highest
        answered = f"{rung} answered {answer:.4g}{tail} (CRPS {crps(*expected, answer):.2g}{tail})"
    return ShownPrediction(words(name), f"{expected[0]:.4g} ± {expected[1]:.2g}{tail}", answered)


def _answers(
    connection: Connection, ladder: Sequence[RungRow], proposed: Sequence[Proposed]
) -> dict[tuple[int, str], tuple[float, str]]:
    """{(candidate id, predicted property): (value at the highest paid rung, the rung's name)}."""
    ids = list({p.candidate_id for p in proposed if p.candidate_id is not None and _predictions(p)})
    by_property: dict[tuple[int, str], tuple[float, str]] = {}
    for rung in ladder if ids else ():
        if rung.tier == Tier.FAST:
            continue
        values = pooled.values_of(connection, ids, rung.verifier, rung.verifier_version, rung.settings_hash)
        for id_, mine in values.items():
            by_property.update({(id_, name): (quantity.value, rung.name) for name, quantity in (mine or {}).items()})
    return by_property


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
