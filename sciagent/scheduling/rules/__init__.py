"""The schedulers that a campaign can name: rules that climb the ladder rung by rung, and `priced`.

Each rule is a module with the settings of its YAML key and the rule itself. A new one gets an entry in `SCHEDULERS`.
"""

from __future__ import annotations

from sciagent.scheduling.rules.exhaustive import ExhaustiveSpec
from sciagent.scheduling.rules.halving import HalvingSpec
from sciagent.scheduling.rules.lottery import LotterySpec
from sciagent.scheduling.rules.priced_settings import PricedSpec
from sciagent.scheduling.rules.random import RandomSpec
from sciagent.scheduling.rules.rank_by_one_rung import BestRungSpec
from sciagent.scheduling.rules.rule_and_settings_bases import SchedulerSpec
from sciagent.scheduling.rules.thresholds import ThresholdsSpec

SCHEDULERS: tuple[type[SchedulerSpec], ...] = (
    PricedSpec,
    ThresholdsSpec,
    ExhaustiveSpec,
    RandomSpec,
    HalvingSpec,
    BestRungSpec,
    LotterySpec,
)
"""The schedulers that a campaign file can name, in the order of the reference."""


def scheduler_class(kind: object) -> type[SchedulerSpec] | None:
    """Returns the class of the scheduler of this kind; None if there is none."""
    return next((scheduler for scheduler in SCHEDULERS if scheduler.name() == kind), None)
