"""Episodes for display: the model's messages, calls and observations, turn by turn, and the fate of its proposals.

`selection` returns the episodes of a report, and `every` all episodes, each for a page of its own. The length of texts
and the number of drawings are limited, so that the size of a page is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.proposing.prediction_scores import crps, read_predictions, stated_in
from sciagent.domain.display_units import Units, chosen_unit_of, quantity_in_chosen_unit
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.report.analysis.proposers_and_prediction_scores import in_words
from sciagent.report.parts.best_candidate_cards_and_table import depicted, status
from sciagent.report.parts.wording import after_number, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, rungs
from sciagent.store.views.progress_and_comparisons import kind_of
from sciagent.store.views.report_candidates import RankedCandidate, campaign_members, rung_values
from sciagent.store.views.report_episodes_and_proposers import (
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

MAX_LATEST = 12  # latest episodes that a report shows
MAX_OF_BEST = 8  # episodes of the best candidates that a report also shows
MAX_TURNS = 40  # turns shown of an episode
MAX_PROPOSALS = 200  # proposals shown of an episode
MAX_TEXT = 3000  # characters of a message
MAX_CHARACTERS = 900_000  # characters of all episodes of a report

Answers = dict[tuple[int, str], tuple[float, str]]
"""{(candidate id, predicted property): (value at the highest paid rung, the rung's name)}."""


@dataclass
class PageRoom:
    """The room on a page: what remains of it for texts and drawings, and the limits of an episode."""

    text: int = MAX_CHARACTERS
    """Remaining number of characters."""
    drawings: int = 80
    """Remaining number of drawings; it may fall below 0."""
    turns: int = MAX_TURNS
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
    """SVG; empty for a proposal that is no new candidate."""
    predictions: list[str]
    """Each predicted value with its standard deviation, and the answer of a paid rung once there is one."""


class Call(NamedTuple):
    """A call of a tool with its observation."""

    name: str
    """Name of the tool."""
    arguments: str
    ok: bool
    """Whether the call succeeded."""
    seen: str
    """The observation; empty if it cannot be matched to the call."""


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
    """Proposals of the turn."""

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
        if not flags:
            return None
        n_forced = len([flag for flag in flags if flag])
        return n_forced / len(flags)


class ShownEpisode(NamedTuple):
    """An episode for display."""

    begun: EpisodeStart
    outcome: EpisodeOutcome
    why: str
    """Reason of the end; empty while the episode goes on."""
    limits: str
    """Limits of the episode, as a text."""
    opening: list[tuple[str, str]]
    """(role, text) of each message with which the episode began."""
    turns: list[ShownTurn]

    @property
    def tokens(self) -> int:
        """Number of tokens of the shown prompts and answers."""
        n_prompt_tokens = sum(turn.used.get("prompt_tokens") or 0 for turn in self.turns)
        n_output_tokens = sum(turn.used.get("output_tokens") or 0 for turn in self.turns)
        return n_prompt_tokens + n_output_tokens

    @property
    def seconds(self) -> float:
        """Seconds in which the model was sampled."""
        return sum(turn.used.get("seconds") or 0.0 for turn in self.turns)

    @property
    def trainable(self) -> str:
        """Returns a sentence on the turns that a policy gradient may use."""
        faults = [turn.untrainable for turn in self.turns if turn.untrainable]
        if not faults:
            return "trainable" if self.turns else ""
        n_trainable = len(self.turns) - len(faults)
        if n_trainable:
            return f"{n_trainable} of {len(self.turns)} turns trainable"
        return f"not trainable: {faults[0]}"


def selection(connection: Connection, row: CampaignRow) -> tuple[int, list[ShownEpisode]]:
    """Returns the number of episodes, and the episodes that a report shows, latest first.

    Shown are the episodes of the best candidates and the latest ones, as far as the page has room."""
    max_episodes = MAX_LATEST + MAX_OF_BEST
    chosen = [*episodes_behind_the_best(connection, row, MAX_OF_BEST), *latest_episodes(connection, row, max_episodes)]
    by_id = {begun.id: begun for begun in chosen}  # an episode may be chosen twice
    room = PageRoom()
    shown = list[ShownEpisode]()
    for begun in list(by_id.values())[:max_episodes]:
        if room.text >= 0:
            shown.append(_episode(connection, row, begun, room))
    shown.sort(key=lambda episode: episode.begun.number, reverse=True)
    return episode_count(connection, row), shown


def every(connection: Connection, row: CampaignRow, n: int = 20) -> Iterator[ShownEpisode]:
    """Yields all episodes in order, each cut to the size of its own page. n: number of episodes per query."""
    last_number = -1
    while page := episodes_page(connection, row, last_number, n):
        for begun in page:
            # a page of its own has room for more than the report
            room = PageRoom(drawings=MAX_PROPOSALS, turns=5 * MAX_TURNS, longest=7 * MAX_TEXT)
            yield _episode(connection, row, begun, room)
        last_number = page[-1].number


def _episode(connection: Connection, row: CampaignRow, begun: EpisodeStart, room: PageRoom) -> ShownEpisode:
    """Returns an episode for display, cut to the room that the page has."""
    ladder = rungs(connection, row.id)
    proposed = episode_proposals(connection, begun.id, MAX_PROPOSALS)
    members = campaign_members(connection, row, [p.candidate_id for p in proposed if p.candidate_id])
    answers = _answers(connection, row, ladder, proposed)
    by_turn: dict[int, list[ShownProposal]] = {}
    for proposal in proposed:
        member = None if proposal.candidate_id is None else members.get(proposal.candidate_id)
        predictions = _predictions(proposal, answers, row.units)
        shown = _shown_proposal(proposal, member, ladder, predictions, room)
        by_turn.setdefault(proposal.turn_id, []).append(shown)
    outcome = episode_outcomes(connection, row, [begun.id]).get(begun.id, EpisodeOutcome(turns=0, new=0, hits=0))
    why = room.cut(begun.ended_why, limit=300)
    opening = []
    for message in begun.settings.get("opening") or ():
        text = room.cut(message.get("content"), 2 * room.longest)
        opening.append((str(message.get("role", "")), text))
    turns = [_turn(turn, by_turn.get(turn["id"], []), room) for turn in turn_rows(connection, begun.id, room.turns)]
    return ShownEpisode(begun, outcome, why, _limits_in_words(begun), opening, turns)


def _limits_in_words(begun: EpisodeStart) -> str:
    """Returns the limits that the settings of an episode state, as a text."""
    settings = begun.settings
    labels = {"turns": "turns", "tokens": "sampled tokens", "context": "tokens of context"}
    stated = [f"{settings[key]} {label}" for key, label in labels.items() if isinstance(settings.get(key), int)]
    return ", ".join(stated)


def _turn(turn: sa.RowMapping, proposals: list[ShownProposal], room: PageRoom) -> ShownTurn:
    """Returns a turn for display."""
    message = turn["message"] or {}
    observations = []
    for observation in turn["observations"]:
        has_text = "content" in observation
        text = observation["content"] if has_text else json.dumps(observation, ensure_ascii=False)
        observations.append(room.cut(text))
    are_paired = len(observations) == len(turn["calls"])
    calls = []
    for place, call in enumerate(turn["calls"]):
        name = room.cut(call.get("tool"), 200)
        arguments = room.cut(_readable(call.get("arguments")))
        seen = observations[place] if are_paired else ""
        calls.append(Call(name, arguments, call.get("ok", True), seen))
    thinking = room.cut(message.get("thinking"))
    whole_content = str(message.get("content") or "")
    content = room.cut(whole_content)
    # a model without a format for calls writes a call as the JSON text of its answer
    is_call = bool(calls) and whole_content.lstrip().startswith("{")
    return ShownTurn(
        turn,
        thinking,
        content="" if is_call else content,
        written=content if is_call else "",
        calls=calls,
        observations=[] if are_paired else observations,
        made=proposals,
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
    proposal: EpisodeProposal,
    member: RankedCandidate | None,
    ladder: Sequence[RungRow],
    predictions: list[str],
    room: PageRoom,
) -> ShownProposal:
    """Returns a proposal for display. member: its candidate in the campaign; None for a refused proposal."""
    drawing = ""
    became = f"refused: {words(proposal.reason or 'refused')}"
    kind = "fallen"
    if proposal.status == "duplicate":
        became = "already in the campaign"
        kind = "open"
    elif proposal.status == "filtered":
        became = "not verified: filtered by the law"
    elif proposal.status == "new" and member is not None:
        became = status(member, ladder)
        kind = kind_of(member.standing, member.hit)
        drawing = depicted(member) if room.drawings > 0 else ""
        room.drawings -= 1
    cut = proposal._replace(text=room.cut(proposal.text, 300), rationale=room.cut(proposal.rationale, 600))
    return ShownProposal(cut, room.cut(became, 300), kind, drawing, predictions)


def _predictions(proposal: EpisodeProposal, answers: Answers, units: Units) -> list[str]:
    """Returns each prediction, in the unit that the campaign chose, with the answer to it."""
    texts = []
    for name, (value, error) in read_predictions(proposal.predicted).items():
        if name not in properties():
            continue
        text = in_words(name, value, error, units)
        unit = after_number(chosen_unit_of(name, units))
        value, error = stated_in(name, value, error, units)
        answered = "; not answered yet" if proposal.status == "new" else ""
        answer_and_rung = answers.get((proposal.candidate_id or 0, name))  # no candidate has the id 0
        if answer_and_rung is not None:
            answer, rung = answer_and_rung
            answered = f"; {rung} answered {answer:.4g}{unit} (CRPS {crps(value, error, answer):.2g}{unit})"
        texts.append(f"{text}{answered}")
    return texts


def _answers(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], proposed: Sequence[EpisodeProposal]
) -> Answers:
    """Returns the answers of paid rungs on the candidates with predictions, in the units of the campaign."""
    candidate_ids = list(
        {p.candidate_id for p in proposed if p.candidate_id is not None and read_predictions(p.predicted)}
    )
    answers: Answers = {}
    if not candidate_ids:
        return answers
    paid_rungs = [rung for rung in ladder if rung.tier != Tier.FAST]
    for rung in paid_rungs:
        for candidate_id, values in rung_values(connection, candidate_ids, rung).items():
            for name, quantity in (values or {}).items():
                shown = quantity_in_chosen_unit(name, quantity, row.units)
                answers[candidate_id, name] = (shown.value, rung.name)
    return answers
