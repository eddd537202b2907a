"""Proposers of other packages: the entry point group `sciagent.proposers`.

An entry point names a class that is called with a `ProposerTask`. The seeds of the campaign file are proposed first;
then each turn asks for candidates.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from sciagent.agent.proposers.list_proposers import Screen
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.objectives import Objective
from sciagent.domain.proposer_interfaces import MeasuredCandidate, ProposalIn, ScriptBench, Turn
from sciagent.errors import CampaignError, UnknownNameError, UsageError

GROUP = "sciagent.proposers"


@dataclass(frozen=True)
class ProposerTask:
    """What a campaign asks a proposer for."""

    objectives: Sequence[Objective]
    limits: Any
    """Bounds on new candidates, as the checks of the ladder have them: of molecules `EditLimits`."""
    file: Path | None
    settings: Mapping[str, Any]


class CampaignView(Protocol):
    """The results of a campaign so far, as a proposer sees them."""

    def measured(self) -> list[MeasuredCandidate]:
        """Returns the candidates that have a worth, best first."""

    def known(self, candidate: Candidate) -> bool:
        """Returns whether the candidate is in the campaign already."""

    def missed_gate(self, candidate: Candidate) -> str | None:
        """Returns in one line which gate that needs no engine the candidate misses; None if it misses none."""


class CampaignProposer(Protocol):
    """The class of an entry point. It is made anew for each run of a campaign, and has to read from `campaign` what it
    learnt before a stop."""

    def __init__(self, task: ProposerTask) -> None:
        """Raises UsageError for settings or a file that it cannot use."""

    def ask(self, campaign: CampaignView, n: int, rng: random.Random) -> Sequence[ProposalIn]:
        """Returns at most n candidates; none if there are no more. The same results and random numbers give the same
        candidates."""


def names() -> tuple[str, ...]:
    """Returns the names of the installed proposers, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def provider(name: str) -> str:
    """Returns `package version` of the distribution that offers an installed proposer."""
    for point in entry_points(group=GROUP, name=name):
        if point.dist is not None:
            return f"{point.dist.name} {point.dist.version}"
    return "unknown"


def proposer_class(name: str) -> type[CampaignProposer]:
    """Returns the class of an installed proposer. Raises UnknownNameError, or UsageError if it does not load."""
    # one installation may be listed twice, if its folder is twice on the path
    points = list({point.value: point for point in entry_points(group=GROUP, name=name)}.values())
    if not points:
        raise UnknownNameError("proposer", name, names())
    if len(points) > 1:
        raise UsageError(f'two installed packages offer a proposer named "{name}"; uninstall one')
    try:
        found: type[CampaignProposer] = points[0].load()
    except Exception as error:  # whatever the package raises
        raise UsageError(f'the proposer "{name}" does not load: {type(error).__name__}: {error}') from error
    if not callable(getattr(found, "ask", None)):
        raise UsageError(f'the proposer "{name}" is {found!r}, which has no method `ask`')
    return found


class PluginProposer:
    """Proposes the seeds of the campaign, then what the class of a plug-in answers."""

    total: int | None = None

    def __init__(self, name: str, task: ProposerTask, seeds: Screen) -> None:
        self.name = name
        self._seeds = seeds
        self._proposer = proposer_class(name)(task)

    def turn(self, workbench: ScriptBench, turn: Turn, limit: int) -> Mapping[str, Any] | None:
        """Proposes the next seeds, or what the plug-in answers. Returns None if it has no more candidates."""
        if not turn.cursor.get("begun"):
            cursor = self._seeds.turn(workbench, turn, limit)
            if cursor is not None:
                return cursor
        proposals = self._ask(workbench, turn, limit)
        if not proposals:
            return None
        workbench.propose(proposals)
        return {"begun": True}

    def _ask(self, campaign: CampaignView, turn: Turn, limit: int) -> list[ProposalIn]:
        """Returns what the plug-in answers. Raises CampaignError for whatever the package raises, and for an answer
        that is no proposal."""
        try:
            proposals = list(self._proposer.ask(campaign, limit, random.Random(turn.seed)))[:limit]
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
            raise CampaignError(f'the proposer "{self.name}" failed in turn {turn.number}: {fault}') from error
        for answered in proposals:
            if not isinstance(answered, ProposalIn):
                raise CampaignError(f'the proposer "{self.name}" answered {answered!r:.80}, which is no ProposalIn')
        return proposals
