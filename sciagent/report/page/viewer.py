"""Episodes as a reader sees them: what the model was told, thought, called and saw, turn by turn, and what became of
what it proposed. Texts are cut and drawings counted, so that a page stays a page however long a model talked."""

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
TURNS = 40  # of one episode
PROPOSALS = 200  # of one episode
MAX_TEXT = 3000  # characters of one thing that was said
ROOM = 900_000  # characters of all episodes of a report


@dataclass
class Page:
    """What a page still holds. text: characters; drawings: structures. turns: of one episode; longest: characters of
    one thing that was said."""

    text: int = ROOM
    drawings: int = 80
    turns: int = TURNS
    longest: int = MAX_TEXT

    def cut(self, text: str, limit: int | None = None) -> str:
        limit = limit or self.longest
        shown = text if len(text) <= limit else f"{text[:limit]} … ({len(text)} characters)"
        self.text -= len(shown)
        return shown


@dataclass(frozen=True)
class ShownPrediction:
    """One property: said beforehand with its error, and what a paid rung answered, with the score of it, if one has."""

    label: str
    said: str
    answered: str


@dataclass(frozen=True)
class Made:
    """One proposal. became, kind: as a card of the best has them; kind is `fallen` for what was not taken."""

    text: str
    status: str
    became: str
    kind: str
    operation: str
    rationale: str
    drawing: str
    foretold: list[ShownPrediction]


@dataclass(frozen=True)
class Call:
    name: str
    arguments: str
    ok: bool
    seen: str


@dataclass(frozen=True)
class ShownTurn:
    """told: what it saw that answers no call. written: the answer's text where it is itself the call. tokens: of
    prompt and answer; forced: share of the sampled ones that a grammar left no choice for, None without tokens."""

    number: int
    policy: str
    at: datetime
    thinking: str
    content: str
    written: str
    calls: list[Call]
    told: list[str]
    made: list[Made]
    prompt_tokens: int | None
    output_tokens: int | None
    seconds: float | None
    core_seconds: float
    trainable: bool
    forced: float | None


@dataclass(frozen=True)
class Told:
    """An episode. limits: in words, what it might have used; turns_left_out: those that are not shown."""

    begun: Begun
    outcome: EpisodeOutcome
    why: str
    limits: str
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
        """Tokens of the prompts and answers that are shown."""
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
    """of: how many episodes the campaign has."""

    of: int
    episodes: list[Told]


def selection(connection: Connection, row: CampaignRow) -> Selection:
    """For the report: those behind the best candidates and the latest, by number, the latest first. What the page has
    no room for is left out, the oldest first."""
    there = ask.count(connection, row)
    if not there:
        return Selection(0, [])
    most = LATEST + BEST
    chosen = [*ask.behind_the_best(connection, row, BEST), *ask.latest(connection, row, most)]
    room, found = Page(), []
    for told in _told(connection, row, list({one.id: one for one in chosen}.values())[:most], room):
        found.append(told)
        if room.text < 0:
            break
    return Selection(there, sorted(found, key=lambda one: -one.number))


def every(connection: Connection, row: CampaignRow, n: int = 20) -> Iterator[Told]:
    """All episodes in order; n are held at a time, and each has a page's room of its own."""
    after = -1
    while some := ask.page(connection, row, after, n):
        for one in some:
            yield from _told(connection, row, [one], Page(drawings=PROPOSALS, turns=5 * TURNS, longest=7 * MAX_TEXT))
        after = some[-1].number


def _told(connection: Connection, row: CampaignRow, some: Sequence[Begun], room: Page) -> Iterator[Told]:
    ladder = rungs(connection, row.id)
    outcomes = ask.outcomes(connection, row, [one.id for one in some])
    for one in some:
        yield _episode(connection, row, ladder, one, outcomes.get(one.id, EpisodeOutcome(0, 0, 0)), room)


def _episode(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], one: Begun, outcome: EpisodeOutcome, room: Page
) -> Told:
    turns = ask.turns(connection, one.id, room.turns)
    proposed = ask.proposals(connection, [turn["id"] for turn in turns], PROPOSALS)
    ids = [p.candidate_id for p in proposed if p.candidate_id is not None]
    there = report_candidates.members(connection, row, ids)
    answers = _answers(connection, ladder, proposed)
    made: dict[int, list[Made]] = {}
    for p in proposed:
        member = None if p.candidate_id is None else there.get(p.candidate_id)
        made.setdefault(p.turn_id, []).append(_made(p, member, ladder, answers, room))
    opening = one.settings.get("opening")
    return Told(
        one,
        outcome,
        room.cut(str(one.settings.get("ended") or ""), 300),
        _limits(one.settings),
        [(str(m.get("role", "")), room.cut(str(m.get("content", "")), 2 * room.longest)) for m in _mappings(opening)],
        [_turn(turn, made.get(turn["id"], []), room) for turn in turns],
    )


def _limits(settings: Mapping[str, Any]) -> str:
    named = (("turns", "turns"), ("tokens", "sampled tokens"), ("context", "tokens of context"))
    return ", ".join(f"{settings[key]} {label}" for key, label in named if isinstance(settings.get(key), int))


def _turn(turn: Any, made: list[Made], room: Page) -> ShownTurn:
    message, used = turn["message"] or {}, turn["sampling"] or {}
    content = str(message.get("content") or "")
    calls, told = _calls(_mappings(turn["calls"]), _mappings(turn["observations"]), room)
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
        told,
        made,
        used.get("prompt_tokens"),
        used.get("output_tokens"),
        used.get("seconds"),
        float((turn["cost"] or {}).get("core_seconds", 0.0)),
        bool(turn["output_ids"]),
        sum(map(bool, flags)) / len(flags) if flags else None,
    )


def _calls(
    calls: Sequence[Mapping[str, Any]], observations: Sequence[Mapping[str, Any]], room: Page
) -> tuple[list[Call], list[str]]:
    """Each call with what it was answered, where there is one answer a call; the other observations apart."""
    seen = [room.cut(str(o["content"] if "content" in o else json.dumps(o, ensure_ascii=False))) for o in observations]
    paired = len(seen) == len(calls)
    made = [
        Call(
            room.cut(str(one.get("tool") or ""), 200),
            room.cut(_readable(one.get("arguments"))),
            bool(one.get("ok", True)),
            seen[i] if paired else "",
        )
        for i, one in enumerate(calls)
    ]
    return made, [] if paired else seen


def _readable(arguments: Any) -> str:
    """What a call was sent with; an object on lines of its own."""
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
        lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in given.items()]
    except (ValueError, AttributeError, RecursionError):
        return str(arguments or "")
    return "\n".join(lines)


def _made(
    p: Proposed,
    member: Ranked | None,
    ladder: Sequence[RungRow],
    answers: dict[tuple[int, str], tuple[float, str]],
    room: Page,
) -> Made:
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
    return Made(
        room.cut(p.text, 300),
        p.status,
        room.cut(became, 300),
        what,
        words(p.operation or ""),
        room.cut(p.rationale or "", 600),
        drawing,
        [_foretold(p, name, said, answers) for name, said in _said(p).items()],
    )


def _said(p: Proposed) -> dict[str, tuple[float, float]]:
    return {name: said for name, said in read(p.predicted).items() if name in properties()}


def _foretold(
    p: Proposed, name: str, said: tuple[float, float], answers: dict[tuple[int, str], tuple[float, str]]
) -> ShownPrediction:
    unit = properties()[name].unit
    tail = "" if unit == "1" else f" {unit_sign(unit)}"
    answered = "not answered yet" if p.status == "new" else ""
    if p.candidate_id is not None and (found := answers.get((p.candidate_id, name))) is not None:
        answer, rung = found
        answered = f"{rung} answered {answer:.4g}{tail} (CRPS {crps(*said, answer):.2g}{tail})"
    return ShownPrediction(words(name), f"{said[0]:.4g} ± {said[1]:.2g}{tail}", answered)


def _answers(
    connection: Connection, ladder: Sequence[RungRow], proposed: Sequence[Proposed]
) -> dict[tuple[int, str], tuple[float, str]]:
    """By candidate and property that was foretold: the value of the highest paid rung, and the rung's name."""
    ids = list({p.candidate_id for p in proposed if p.candidate_id is not None and _said(p)})
    found: dict[tuple[int, str], tuple[float, str]] = {}
    for rung in ladder if ids else ():
        if rung.tier == Tier.FAST:
            continue
        values = pooled.values_of(connection, ids, rung.verifier, rung.verifier_version, rung.settings_hash)
        for id_, mine in values.items():
            found.update({(id_, name): (quantity.value, rung.name) for name, quantity in (mine or {}).items()})
    return found


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
