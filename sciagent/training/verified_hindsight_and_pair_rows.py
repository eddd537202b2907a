"""Rows of answers for data sets: verified answers, answers with a goal or a hint from hindsight, pairs and labels.

`verified`, `hindsight`, `pairs`, `taught` and `labelled` each yield the rows of one kind of data set, from the turns
that `judged` returns. `utilities` and `p_better` give the probability that one answer is worth more than another.
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

from sciagent.agent.skills import Skill
from sciagent.domain.objectives import Objective, utility
from sciagent.domain.quantities import Censoring
from sciagent.rewards.reward_term_contract import Settlement
from sciagent.training.dataset_columns import EPISODE, JUDGED, TURN, Cells, TableColumn, best_of, chat, turn_cells
from sciagent.training.hindsight_goals_and_hints import (
    CandidateVerdict,
    NoHint,
    NotRelabelled,
    hint_of,
    relabelled_prompt,
    verdicts,
)
from sciagent.training.read_turns import AnsweredTurn, RecordedEpisode, TrainingCampaign
from sciagent.training.task_splits_and_scaffold_limit import ScaffoldLimit

DRAWS = 512
"""Number of values that stand for the distribution of a property: its quantiles at (i + 1/2) / DRAWS."""

Utilities = NDArray[np.float64]


def utilities(
    objectives: Sequence[Objective], turn: AnsweredTurn, verdicts: Sequence[CandidateVerdict]
) -> Utilities | None:
    """Returns the utility of the best candidate of a turn as (DRAWS,) equally likely values.

    A turn whose proposals were all refused or known is worth 0. Returns None if a candidate is undecided, the turn
    proposed nothing, a filter dropped a proposal, or a value has no uncertainty.
    """
    if not turn.proposals or turn.was_filtered:
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
    """Returns (DRAWS,) utilities of a candidate whose values are normally distributed with their standard
    uncertainties; None if a value has no uncertainty or is only a limit."""
    quantiles = [NormalDist().inv_cdf((i + 0.5) / DRAWS) for i in range(DRAWS)]
    values: dict[str, list[float]] = {}
    for objective in objectives:
        quantity = verdict.values.get(objective.property)
        if quantity is None or quantity.uncertainty is None or quantity.censoring is not Censoring.NONE:
            return None
        # in another order for each property, since the errors of two properties are independent
        shuffled = quantiles.copy()
        Random(f"{verdict.key} {objective.property}").shuffle(shuffled)
        values[objective.property] = [quantity.value + quantity.uncertainty * quantile for quantile in shuffled]
    drawn_utilities = []
    for i in range(DRAWS):
        drawn_utility = utility(objectives, {name: drawn[i] for name, drawn in values.items()})
        drawn_utilities.append(0.0 if drawn_utility is None else drawn_utility)
    return np.array(drawn_utilities)


def p_better(one: Utilities, other: Utilities) -> float:
    """Returns the probability that a value of `one` is above a value of `other`; equal values count one half.

    Both are independent; every value of one is compared with every value of the other.
    """
    ordered = np.sort(other)
    n_below = np.searchsorted(ordered, one, side="left")
    n_below_or_equal = np.searchsorted(ordered, one, side="right")
    return float((n_below + n_below_or_equal).mean() / (2 * len(ordered)))


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
    """The rules by which turns become rows, and the numbers of turns that were left out, by reason."""

    at_least: float = 0.5
    """Smallest payoff of a verified turn, in hits or utility."""
    p_better: float = 0.9
    """A pair is kept if the chosen answer is better with a higher probability than this."""
    per_scaffold: int = 4
    """Largest number of rows of one scaffold and goal."""
    left_out: Counter[str] = field(default_factory=Counter)
    """{reason: number of turns, hints, goals or pairs}."""

    def drop(self, why: str) -> None:
        self.left_out[why] += 1


class JudgedTurn:
    """A turn with the verdicts on its new candidates. `best` is the best decided one; None if none is decided."""

    def __init__(self, turn: AnsweredTurn, known: Mapping[int, CandidateVerdict]) -> None:
        self.turn = turn
        self.verdicts = [known[id_] for id_ in turn.new]
        self.best = best_of(self.verdicts)

    @property
    def task(self) -> str:
        return self.turn.episode.task

    @property
    def has_undecided(self) -> bool:
        """Whether a candidate has no verdict yet, or a filter kept a proposal from having one."""
        return self.turn.was_filtered or any(verdict.payoff is None for verdict in self.verdicts)

    @property
    def cells(self) -> Cells:
        return turn_cells(self.turn, self.verdicts)

    @property
    def completion(self) -> list[Cells]:
        return chat([self.turn.answer])

    def is_good(self, at_least: float) -> bool:
        """Returns whether the terminal rung verified the best candidate with this payoff or more."""
        if self.best is None or self.best.state.settlement is not Settlement.ANSWERED:
            return False
        return (self.best.payoff or 0) >= at_least

    def shortcoming(self, at_least: float) -> str:
        """Returns why the turn's best candidate, which is decided, is not verified as good."""
        has_payoff = self.best is not None and (self.best.payoff or 0) >= at_least
        return "turns: thrown out by the ladder" if has_payoff else f"turns: worth less than {at_least:g}"


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
        elif not each.is_good(selection.at_least):
            selection.drop(each.shortcoming(selection.at_least))
        else:
            refusal = limit.count_or_refuse(each.task, each.best)
            if refusal is not None:
                selection.drop(f"turns: {refusal}")
            else:
                yield each.cells | {"completion": each.completion}


def labelled(turns: list[JudgedTurn], selection: Selection, limit: ScaffoldLimit) -> Iterator[Mapping[str, Any]]:
    """Yields the turns that were verified as good, and those that are known to be worth less.

    A turn whose proposals were all refused or known before is worth less. If a candidate waits for an answer, the turn
    may still turn out to be good, and is left out. The rows of a scaffold are limited for each label, so that its hits
    stay even if it has many misses.
    """
    for each in turns:
        is_good = each.is_good(selection.at_least)
        if not each.turn.proposals:
            selection.drop(NO_PROPOSAL)
            continue
        if not is_good and each.has_undecided:
            selection.drop(UNDECIDED_LEFT)
            continue
        if each.best is not None:
            refusal = limit.count_or_refuse(f"{each.task} {is_good}", each.best)
            if refusal is not None:
                selection.drop(f"turns: {refusal}")
                continue
        yield each.cells | {"completion": each.completion, "label": is_good}


def hindsight(
    campaign: TrainingCampaign, turns: list[JudgedTurn], selection: Selection, limit: ScaffoldLimit
) -> Iterator[Mapping[str, Any]]:
    """Yields up to two rows for each turn that failed: one with a hint, one with the goal that the turn did achieve."""
    for each in turns:
        if each.best is not None and (each.best.payoff or 0) >= selection.at_least:
            selection.drop("turns: did not fail")
            continue
        if each.has_undecided:
            selection.drop(UNDECIDED if each.best is None else UNDECIDED_LEFT)
            continue
        hint = hint_of(campaign.built, each.turn, each.best)
        refusal = hint if isinstance(hint, NoHint) else _count_or_refuse_hint(limit, each, hint)
        if refusal is not None:
            selection.drop(f"hints: {refusal}")
        else:
            cells = {"completion": each.completion, "how": "hinted", "hint": hint}
            yield each.cells | cells | _token_cells(each.turn)
        if each.best is None or each.best.state.settlement is not Settlement.ANSWERED:
            selection.drop("goals: no value at the terminal rung")
            continue
        prompt = relabelled_prompt(campaign.built, each.turn, each.best)
        if isinstance(prompt, NotRelabelled):
            selection.drop(f"goals: {prompt}")
            continue
        refusal = limit.count_or_refuse(each.task, each.best)
        if refusal is not None:
            selection.drop(f"goals: {refusal}")
        else:
            yield each.cells | {"prompt": chat(prompt), "completion": each.completion, "how": "relabelled"}


def taught(campaign: TrainingCampaign, turns: list[JudgedTurn], selection: Selection) -> Iterator[Mapping[str, Any]]:
    """Yields the turns of episodes without the proposer's skills, with the skills' texts as the hint for a teacher."""
    skills: list[Skill] = []
    for _, proposer in campaign.built.spec.proposers:
        skills += getattr(proposer, "skills", ())
    hint = "\n\n".join(skill.prompt_text for skill in skills)
    skill_names = ", ".join(skill.label for skill in skills)
    for each in turns:
        if not skills:
            selection.drop("turns: the proposer has no skills")
        elif each.turn.episode.skill is not None:
            selection.drop("turns: sampled with the skills; the student has to be without")
        else:
            cells = {"completion": each.completion, "how": "hinted", "hint": hint, "skill": skill_names}
            yield each.cells | cells | _token_cells(each.turn)


def _token_cells(turn: AnsweredTurn) -> Cells:
    """Returns the cells of the tokens of an answer; no cells if the server returned no tokens."""
    if turn.sampled is None:
        return {}
    prompt, answer, mask, sampling = turn.sampled
    sampling_text = json.dumps(sampling, ensure_ascii=False)
    return {"prompt_ids": prompt, "answer_ids": answer, "answer_mask": mask, "answer_drawn": sampling_text}


def _count_or_refuse_hint(limit: ScaffoldLimit, turn: JudgedTurn, hint: str) -> str | None:
    """Counts a hint by the scaffold of the turn's best candidate, or by its text if there is none; returns None, or why
    the hint is left out.

    Hints without tokens are counted apart: `train hindsight` cannot use them, so they must not displace others.
    """
    kind = "hint" if turn.turn.sampled is not None else "hint without tokens"
    if turn.best is None:
        return limit.count_text_or_refuse(turn.task, hint, kind)
    return limit.count_or_refuse(turn.task, turn.best, kind)


def pairs(
    campaign: TrainingCampaign, turns: list[JudgedTurn], selection: Selection, limit: ScaffoldLimit
) -> Iterator[Mapping[str, Any]]:
    """Yields pairs of answers to one prompt. turns: of episodes that may share prompts."""
    by_state = sorted(turns, key=lambda each: each.turn.state)  # turns in one state have the same prompt
    for _, group in groupby(by_state, key=lambda each: each.turn.state):
        same_prompt = list(group)
        if len(same_prompt) == 1:
            selection.drop("turns: no other answer to the same prompt")
            continue
        with_utilities = []
        for each in same_prompt:
            with_utilities.append((each, utilities(campaign.built.objectives, each.turn, each.verdicts)))
        for (first, first_utilities), (second, second_utilities) in combinations(with_utilities, 2):
            if first_utilities is None or second_utilities is None:
                selection.drop("pairs: an answer that is not decided, proposes nothing, or lacks an uncertainty")
                continue
            p_first = p_better(first_utilities, second_utilities)
            if p_first > 0.5:
                chosen = first
                rejected = second
                p_chosen = p_first
            else:
                chosen = second
                rejected = first
                p_chosen = 1 - p_first
            if p_chosen <= selection.p_better or chosen.best is None:
                selection.drop(f"pairs: better with a probability of at most {selection.p_better:g}")
                continue
            refusal = limit.count_or_refuse(chosen.task, chosen.best)
            if refusal is not None:
                selection.drop(f"pairs: {refusal}")
                continue
            yield _pair(chosen, rejected, p_chosen)


def _pair(chosen: JudgedTurn, rejected: JudgedTurn, p: float) -> Cells:
    """Returns the row of a pair. p: probability that the chosen answer is worth more."""
    pair_cells: Cells = {
        "chosen": chosen.completion,
        "rejected": rejected.completion,
        "rejected_turn": rejected.turn.number,
        "rejected_episode": rejected.turn.episode.number,
        "p_better": p,
    }
    return chosen.cells | pair_cells
