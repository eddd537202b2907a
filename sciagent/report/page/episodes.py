"""Episodes for display: the model's messages, calls and observations, turn by turn, and the fate of its proposals.

The length of texts and the number of drawings are limited, so that the size of a page is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.proposing.prediction_scores import crps, read, stated_in
from sciagent.domain.chosen_units import Units, shown_quantity, unit_of
from sciagent.domain.ladder import Tier
from sciagent.domain.properties import properties
from sciagent.report.analysis.proposers import in_words
from sciagent.report.parts.candidates import depicted, status
from sciagent.report.parts.wording import after_number, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, rungs
from sciagent.store.views.candidates import RankedCandidate, campaign_members, rung_values
from sciagent.store.views.episodes import (
    EpisodeOutcome,
    EpisodeProposal,
    EpisodeStart,
    episode_count,
    episode_outcomes,
    episode_proposals,
    episodes_behind_the_best,
    episodes_page,
    latest_episodes,
    turn_rows,
)
from sciagent.store.views.progress import kind_of

LATEST = 12  # latest episodes that a report shows
BEST = 8  # episodes of the best candidates that a report also shows
TURNS = 40  # turns shown of an episode
PROPOSALS = 200  # proposals shown of an episode
MAX_TEXT = 3000  # characters of a message
ROOM = 900_000  # characters of all episodes of a report

Answers = dict[tuple[int, str], tuple[float, str]]
"""{(candidate id, predicted property): (value at the highest paid rung, the rung's name)}."""


@dataclass
class PageRoom:
    """The remaining room on a page."""

    text: int = ROOM
    """Remaining number of characters."""
    drawings: int = 80
    """Remaining number of drawings."""
    turns: int = TURNS
    """Largest number of turns of each episode."""
    longest: int = MAX_TEXT
    """Largest number of characters of each message."""

    def cut(self, text: Any, limit: int | None = None) -> str:
        """Returns the text, empty for None; a cut text is followed by its full length."""
        whole = str(text or "")
        limit = limit or self.longest
        shown = whole if len(whole) <= limit else f"{whole[:limit]} … ({len(whole)} characters)"
        self.text -= len(shown)
        return shown


class ShownProposal(NamedTuple):
    """A proposal of a turn."""

    proposed: EpisodeProposal
    """The proposal with cut texts."""
    became: str
    """Status of the candidate, as on the cards of the best candidates."""
    kind: str
    """Kind as on the cards of the best candidates; `fallen` for a refused proposal."""
    drawing: str
    predictions: list[str]
    """Each predicted value with its standard deviation, and the answer of a paid rung once there is one."""


class Call(NamedTuple):
    """A call of a tool with its observation."""

    name: str
    arguments: str
    ok: bool
    seen: str


class ShownTurn(NamedTuple):
    """A turn of an episode."""

    turn: sa.RowMapping
    """The turn's row in the ledger."""
    thinking: str
    content: str
    written: str
    """Text of the answer if the text itself is the call."""
    calls: list[Call]
    observations: list[str]
    """Observations that cannot be matched to a call."""
    made: list[ShownProposal]

    @property
    def used(self) -> Mapping[str, Any]:
        """`prompt_tokens`, `output_tokens` and `seconds` of the model, if it was sampled."""
        return self.turn["sampling"] or {}

    @property
    def untrainable(self) -> str | None:
        """Why no policy gradient may use the turn; None if one may."""
        why: str | None = self.turn["untrainable"]
        return why

    @property
    def forced(self) -> float | None:
        """Share of the sampled tokens for which a grammar left no choice; None without tokens."""
        flags = self.turn["forced"]
        return sum(map(bool, flags)) / len(flags) if flags else None


class ShownEpisode(NamedTuple):
    """An episode for display."""

    begun: EpisodeStart
    outcome: EpisodeOutcome
    why: str
    limits: str
    """Limits of the episode, as a text."""
    opening: list[tuple[str, str]]
    turns: list[ShownTurn]

    @property
    def tokens(self) -> int:
        """Number of tokens of the shown prompts and answers."""
        return sum((turn.used.get("prompt_tokens") or 0) + (turn.used.get("output_tokens") or 0) for turn in self.turns)

    @property
    def seconds(self) -> float:
        return sum(t.used.get("seconds") or 0.0 for t in self.turns)

    @property
    def trainable(self) -> str:
        """Returns a sentence on the turns that a policy gradient may use."""
        faults = [turn.untrainable for turn in self.turns if turn.untrainable]
        if not faults:
            return "trainable" if self.turns else ""
        if n := len(self.turns) - len(faults):
            return f"{n} of {len(self.turns)} turns trainable"
        return f"not trainable: {faults[0]}"


def selection(connection: Connection, row: CampaignRow) -> tuple[int, list[ShownEpisode]]:
    """Returns the number of episodes, and the episodes that a report shows, latest first.

    Shown are the episodes of the best candidates and the latest ones, as far as the page has room."""
    chosen = [*episodes_behind_the_best(connection, row, BEST), *latest_episodes(connection, row, LATEST + BEST)]
    room = PageRoom()
    shown = list[ShownEpisode]()
    for begun in list({begun.id: begun for begun in chosen}.values())[: LATEST + BEST]:
        if room.text >= 0:
            shown.append(_episode(connection, row, begun, room))
    return episode_count(connection, row), sorted(shown, key=lambda episode: -episode.begun.number)


def every(connection: Connection, row: CampaignRow, n: int = 20) -> Iterator[ShownEpisode]:
    """Yields all episodes in order, each cut to the size of its own page. n: number of episodes per query."""
    after = -1
    while page := episodes_page(connection, row, after, n):
        for begun in page:
            room = PageRoom(drawings=PROPOSALS, turns=5 * TURNS, longest=7 * MAX_TEXT)
            yield _episode(connection, row, begun, room)
        after = page[-1].number


def _episode(connection: Connection, row: CampaignRow, begun: EpisodeStart, room: PageRoom) -> ShownEpisode:
    ladder = rungs(connection, row.id)
    proposed = episode_proposals(connection, begun.id, PROPOSALS)
    members = campaign_members(connection, row, [p.candidate_id for p in proposed if p.candidate_id])
    answers = _answers(connection, row, ladder, proposed)
    by_turn: dict[int, list[ShownProposal]] = {}
    for p in proposed:
        shown = _shown_proposal(p, members.get(p.candidate_id or 0), ladder, _predictions(p, answers, row.units), room)
        by_turn.setdefault(p.turn_id, []).append(shown)
    limits = (("turns", "turns"), ("tokens", "sampled tokens"), ("context", "tokens of context"))
    settings = begun.settings
    return ShownEpisode(
        begun,
        episode_outcomes(connection, row, [begun.id]).get(begun.id, EpisodeOutcome(0, 0, 0)),
        room.cut(begun.ended_why, 300),
        ", ".join(f"{settings[key]} {label}" for key, label in limits if isinstance(settings.get(key), int)),
        [(str(m.get("role", "")), room.cut(m.get("content"), 2 * room.longest)) for m in settings.get("opening") or ()],
        [_turn(turn, by_turn.get(turn["id"], []), room) for turn in turn_rows(connection, begun.id, room.turns)],
    )


def _turn(turn: sa.RowMapping, proposals: list[ShownProposal], room: PageRoom) -> ShownTurn:
    message = turn["message"] or {}
    content = str(message.get("content") or "")
    texts = (o["content"] if "content" in o else json.dumps(o, ensure_ascii=False) for o in turn["observations"])
    seen = [room.cut(text) for text in texts]
    paired = len(seen) == len(turn["calls"])
    calls = [
        Call(room.cut(call.get("tool"), 200), room.cut(_readable(call.get("arguments"))), call.get("ok", True), answer)
        for call, answer in zip(turn["calls"], seen if paired else repeat(""), strict=False)
    ]
    is_call = bool(calls) and content.lstrip().startswith("{")
    return ShownTurn(
        turn,
        room.cut(message.get("thinking")),
        "" if is_call else room.cut(content),
        room.cut(content) if is_call else "",
        calls,
        [] if paired else seen,
        proposals,
    )


def _readable(arguments: Any) -> str:
    """Returns the arguments of a call as text; for an object, a line per field."""
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
        lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in given.items()]
    except (ValueError, AttributeError, RecursionError):
        return str(arguments or "")
    return "\n".join(lines)


def _shown_proposal(
    p: EpisodeProposal,
    member: RankedCandidate | None,
    ladder: Sequence[RungRow],
    predictions: list[str],
    room: PageRoom,
) -> ShownProposal:
    drawing = ""
    became = f"refused: {words(p.reason or 'refused')}"
    what = "fallen"
    if p.status == "duplicate":
        became = "already in the campaign"
        what = "open"
    elif p.status == "new" and member is not None:
        became = status(member, ladder)
        what = kind_of(member.standing, member.hit)
        drawing = depicted(member) if room.drawings > 0 else ""
        room.drawings -= 1
    cut = p._replace(text=room.cut(p.text, 300), rationale=room.cut(p.rationale, 600))
    return ShownProposal(cut, room.cut(became, 300), what, drawing, predictions)


def _predictions(p: EpisodeProposal, answers: Answers, units: Units) -> list[str]:
    """Returns each prediction, in the unit that the campaign chose, with the answer to it."""
    texts = []
    for name, (value, error) in read(p.predicted).items():
        if name not in properties():
            continue
        text = in_words(name, value, error, units)
        unit = after_number(unit_of(name, units))
        value, error = stated_in(name, value, error, units)
        answered = "; not answered yet" if p.status == "new" else ""
        if (highest := answers.get((p.candidate_id or 0, name))) is not None:
            answer, rung = highest
            answered = f"; {rung} answered {answer:.4g}{unit} (CRPS {crps(value, error, answer):.2g}{unit})"
        texts.append(f"{text}{answered}")
    return texts


def _answers(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], proposed: Sequence[EpisodeProposal]
) -> Answers:
    ids = list({p.candidate_id for p in proposed if p.candidate_id is not None and read(p.predicted)})
    answers: Answers = {}
    for rung in (rung for rung in ladder if ids and rung.tier != Tier.FAST):
        for id_, mine in rung_values(connection, ids, rung).items():
            in_units = {name: shown_quantity(name, quantity, row.units) for name, quantity in (mine or {}).items()}
            answers |= {(id_, name): (quantity.value, rung.name) for name, quantity in in_units.items()}
    return answers
