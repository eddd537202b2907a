"""Rows of answers: verified ones, those with a goal or a hint from hindsight, pairs, and labelled ones.

The probability that one answer is worth more than another, from the verified values and their uncertainties.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, groupby
from random import Random
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from sciagent.domain.objectives import Objective, utility
from sciagent.domain.quantities import Censoring
from sciagent.rewards.contract import Settlement
from sciagent.training.columns import EPISODE, JUDGED, TURN, Cells, TableColumn, best_of, chat, turn_cells
from sciagent.training.hindsight import CandidateVerdict, NoHint, NotRelabelled, hint_of, relabelled_prompt, verdicts
from sciagent.training.reading import AnsweredTurn, RecordedEpisode, TrainingCampaign
from sciagent.training.splits import ScaffoldLimit

DRAWS = 512
"""Values of each property that stand for its distribution: its quantiles (i + 1/2) / DRAWS."""

Utilities = NDArray[np.float64]


def utilities(
    objectives: Sequence[Objective], turn: AnsweredTurn, verdicts: Sequence[CandidateVerdict]
) -> Utilities | None:
    """Returns the utility of the best candidate of a turn as (DRAWS,) equally likely values.

    A turn whose proposals were all refused or known is worth 0. None: a candidate is undecided, the turn proposed
    nothing, or a value has no uncertainty.
    """
    if not turn.proposals:
        return None
    best = np.zeros(DRAWS)
    for verdict in verdicts:
        match verdict.state.settlement:
            case Settlement.REFUSED:
                continue
            case Settlement.ANSWERED:
                drawn = _drawn(objectives, verdict)
                if drawn is None:
                    return None
                best = np.maximum(best, drawn)
            case _:
                return None
    return best


def _drawn(objectives: Sequence[Objective], verdict: CandidateVerdict) -> Utilities | None:
    """Returns (DRAWS,) utilities of a candidate whose values are normal with their standard uncertainties."""
    quantiles = [NormalDist().inv_cdf((i + 0.5) / DRAWS) for i in range(DRAWS)]
    values: dict[str, list[float]] = {}
    for objective in objectives:
        quantity = verdict.values.get(objective.property)
        if quantity is None or quantity.uncertainty is None or quantity.censoring is not Censoring.NONE:
            return None
        order = quantiles.copy()
        Random(f"{verdict.key} {objective.property}").shuffle(order)  # errors of two properties are independent
        values[objective.property] = [quantity.value + quantity.uncertainty * each for each in order]
    rows = (utility(objectives, {name: drawn[i] for name, drawn in values.items()}) for i in range(DRAWS))
    return np.array([0.0 if each is None else each for each in rows])


def p_better(one: Utilities, other: Utilities) -> float:
    """Returns the probability that a value of `one` is above a value of `other`; equal values count one half.

    Both are independent; every value of one is compared with every value of the other.
    """
    ordered = np.sort(other)
    below = np.searchsorted(ordered, one, side="left")
    up_to = np.searchsorted(ordered, one, side="right")
    return float((below + up_to).mean() / (2 * len(ordered)))


UNDECIDED = "turns: no candidate is decided yet"
UNDECIDED_LEFT = "turns: a candidate is not decided yet"
NOTHING_NEW = "turns: proposed nothing new"
NO_PROPOSAL = "turns: proposed nothing"
COMPLETION = TableColumn("completion", "messages", "the answer of the model")
SFT = (*EPISODE, *TURN, COMPLETION, *JUDGED)
HINDSIGHT = (
    *SFT,
    TableColumn("how", "text", "relabelled: the prompt states the goal that was achieved; hinted: `hint` says more"),
    TableColumn("hint", "text", "what the verdict teaches, for a teacher that sees it; null for relabelled rows"),
    TableColumn(
        "prompt_ids", "wholes", "of hinted rows: token ids of the prompt without the hint, as the model saw them"
    ),
    TableColumn("answer_ids", "wholes", "(n,) token ids of the answer, as they were sampled"),
    TableColumn(
        "answer_mask", "truths", "(n,) whether the token may be trained: not forced, its distribution is known"
    ),
    TableColumn("answer_drawn", "text", "JSON: the temperature and the schema under which the answer was drawn"),
)
PREFERENCE = (
    *EPISODE,
    *TURN,
    TableColumn("chosen", "messages", "the better answer; candidates, payoff and scaffold are its own"),
    TableColumn("rejected", "messages", "the other answer to the same prompt"),
    TableColumn("rejected_episode", "whole", "number of the episode of the other answer"),
    TableColumn("rejected_turn", "whole", "number of the turn of the other answer"),
    TableColumn("p_better", "number", "probability that the chosen answer is worth more, by the verified values"),
    *JUDGED,
)
UNPAIRED = (
    *EPISODE,
    *TURN,
    COMPLETION,
    TableColumn("label", "truth", "true: verified as good; false: worth less, as all its candidates are decided"),
    *JUDGED,
)


@dataclass
class Selection:
    """The turns that become rows, and the numbers of those left out, by reason."""

    at_least: float = 0.5
    """Smallest payoff of a verified turn, in hits or utility."""
    p_better: float = 0.9
    """A pair needs a higher probability than this."""
    per_scaffold: int = 4
    left_out: Counter[str] = field(default_factory=Counter)

    def drop(self, why: str) -> None:
        self.left_out[why] += 1


class JudgedTurn:
    """A turn with the verdicts on its new candidates."""

    def __init__(self, turn: AnsweredTurn, known: Mapping[int, CandidateVerdict]) -> None:
        self.turn = turn
        self.verdicts = [known[id_] for id_ in turn.new]
        self.best = best_of(self.verdicts)

    @property
    def task(self) -> str:
        return self.turn.episode.task

    @property
    def cells(self) -> Cells:
        return turn_cells(self.turn, self.verdicts)

    @property
    def completion(self) -> list[Cells]:
        return chat([self.turn.answer])

    def good(self, at_least: float) -> bool:
        """Returns whether the terminal rung verified the best candidate with this payoff or more."""
        if self.best is None or self.best.state.settlement is not Settlement.ANSWERED:
            return False
        return (self.best.payoff or 0) >= at_least

    def shortcoming(self, at_least: float) -> str:
        """Returns why the best candidate is not verified as good; it is decided."""
        is_enough = self.best is not None and (self.best.payoff or 0) >= at_least
        return "turns: thrown out by the ladder" if is_enough else f"turns: worth less than {at_least:g}"


def judged(connection: Connection, campaign: TrainingCampaign, episode: RecordedEpisode) -> list[JudgedTurn]:
    """Returns the turns of an episode with the verdicts on their candidates."""
    turns = list(campaign.turns(connection, episode))
    ids = sorted({id_ for turn in turns for id_ in turn.new})
    known = verdicts(campaign.built, connection, ids, campaign.as_of)
    return [JudgedTurn(turn, known) for turn in turns]


def verified(turns: list[JudgedTurn], selection: Selection, limit: ScaffoldLimit) -> Iterator[Mapping[str, Any]]:
    """Yields the turns whose best candidate was verified as good."""
    for each in turns:
        if not each.verdicts:
            selection.drop(NOTHING_NEW)
        elif each.best is None:
            selection.drop(UNDECIDED)
        elif not each.good(selection.at_least):
            selection.drop(each.shortcoming(selection.at_least))
        elif (why := limit.takes(each.task, each.best)) is not None:
            selection.drop(f"turns: {why}")
        else:
            yield each.cells | {"completion": each.completion}


def labelled(turns: list[JudgedTurn], selection: Selection, limit: ScaffoldLimit) -> Iterator[Mapping[str, Any]]:
    """Yields the turns that were verified as good, and those that are known to be worth less.

    A turn whose proposals were all refused or known before is worth less. If a candidate waits for an answer, the turn
    may still turn out to be good, and is left out. The rows of a scaffold are limited for each label, so that many
    misses leave its hits in.
    """
    for each in turns:
        good = each.good(selection.at_least)
        if not each.turn.proposals:
            selection.drop(NO_PROPOSAL)
        elif not good and any(verdict.payoff is None for verdict in each.verdicts):
            selection.drop(UNDECIDED_LEFT)
        elif each.best is not None and (why := limit.takes(f"{each.task} {good}", each.best)) is not None:
            selection.drop(f"turns: {why}")
        else:
            yield each.cells | {"completion": each.completion, "label": good}


def hindsight(
    campaign: TrainingCampaign, turns: list[JudgedTurn], selection: Selection, limit: ScaffoldLimit
) -> Iterator[Mapping[str, Any]]:
    """Yields the turns that failed: with the goal that they did achieve, and with a hint."""
    for each in turns:
        if each.best is not None and (each.best.payoff or 0) >= selection.at_least:
            selection.drop("turns: did not fail")
            continue
        if any(verdict.payoff is None for verdict in each.verdicts):
            selection.drop(UNDECIDED if each.best is None else UNDECIDED_LEFT)
            continue
        hint = hint_of(campaign.built, each.turn, each.best)
        if isinstance(hint, NoHint):
            selection.drop(f"hints: {hint}")
        elif (why := _limited(limit, each, hint)) is not None:
            selection.drop(f"hints: {why}")
        else:
            yield each.cells | {"completion": each.completion, "how": "hinted", "hint": hint} | _sampled(each.turn)
        if each.best is None or each.best.state.settlement is not Settlement.ANSWERED:
            selection.drop("goals: no value at the terminal rung")
            continue
        prompt = relabelled_prompt(campaign.built, each.turn, each.best)
        if isinstance(prompt, NotRelabelled):
            selection.drop(f"goals: {prompt}")
        elif (why := limit.takes(each.task, each.best)) is not None:
            selection.drop(f"goals: {why}")
        else:
            yield each.cells | {"prompt": chat(prompt), "completion": each.completion, "how": "relabelled"}


def taught(campaign: TrainingCampaign, turns: list[JudgedTurn], selection: Selection) -> Iterator[Mapping[str, Any]]:
    """Yields the turns of episodes without the proposer's skills, with their texts as the hint for a teacher."""
    skills = [skill for _, spec in campaign.built.spec.proposers for skill in getattr(spec, "skills", ())]
    hint = "\n\n".join(skill.prompt_text for skill in skills)
    named = ", ".join(skill.label for skill in skills)
    for each in turns:
        if not skills:
            selection.drop("turns: the proposer has no skills")
        elif each.turn.episode.skill is not None:
            selection.drop("turns: sampled with the skills; the student has to be without")
        else:
            cells = {"completion": each.completion, "how": "hinted", "hint": hint, "skill": named}
            yield each.cells | cells | _sampled(each.turn)


def _sampled(turn: AnsweredTurn) -> Cells:
    """Returns the cells of the tokens of an answer; none if the server returned no tokens."""
    if turn.sampled is None:
        return {}
    prompt, answer, mask, drawn = turn.sampled
    drawn_as = json.dumps(drawn, ensure_ascii=False)
    return {"prompt_ids": prompt, "answer_ids": answer, "answer_mask": mask, "answer_drawn": drawn_as}


def _limited(limit: ScaffoldLimit, turn: JudgedTurn, hint: str) -> str | None:
    """Counts a hint by the scaffold that it is about, or by its text; returns None, or why it is left out.

    Hints without tokens are counted apart, since they would otherwise take the places of those that `train hindsight`
    can use.
    """
    kind = "hint" if turn.turn.sampled is not None else "hint without tokens"
    return limit.takes_text(turn.task, hint, kind) if turn.best is None else limit.takes(turn.task, turn.best, kind)


def pairs(
    campaign: TrainingCampaign, turns: list[JudgedTurn], selection: Selection, limit: ScaffoldLimit
) -> Iterator[Mapping[str, Any]]:
    """Yields pairs of answers to one prompt. turns: of episodes that may share prompts."""
    by_state = sorted(turns, key=lambda each: each.turn.state)
    for _, same in groupby(by_state, key=lambda each: each.turn.state):
        members = list(same)
        if len(members) == 1:
            selection.drop("turns: no other answer to the same prompt")
            continue
        ranked = [utilities(campaign.built.objectives, each.turn, each.verdicts) for each in members]
        for first, second in combinations(range(len(members)), 2):
            one = ranked[first]
            other = ranked[second]
            if one is None or other is None:
                selection.drop("pairs: an answer that is not decided, proposes nothing, or lacks an uncertainty")
                continue
            p = p_better(one, other)
            chosen, rejected = (members[first], members[second]) if p > 0.5 else (members[second], members[first])
            if max(p, 1 - p) <= selection.p_better or chosen.best is None:
                selection.drop(f"pairs: better with a probability of at most {selection.p_better:g}")
            elif (why := limit.takes(chosen.task, chosen.best)) is not None:
                selection.drop(f"pairs: {why}")
            else:
                yield _pair(chosen, rejected, max(p, 1 - p))


def _pair(chosen: JudgedTurn, rejected: JudgedTurn, p: float) -> Cells:
    other: Cells = {"rejected": rejected.completion, "rejected_turn": rejected.turn.number}
    other |= {"rejected_episode": rejected.turn.episode.number, "p_better": p}
    return chosen.cells | other | {"chosen": chosen.completion}
