"""Reads a YAML file of several tables, and compares schedulers over them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sciagent.inputs.yaml_document import read, read_text
from sciagent.inputs.yaml_validation import validated
from sciagent_bench.case_from_csv import parse_rungs, read_case
from sciagent_bench.replay_cases import Case
from sciagent_bench.rungs_of_same_property_and_good_ends import KnownRungs

MARK = "0.9"  # recall whose cost is compared


class TableSpec(BaseModel):
    """A table, and the campaign on it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    table: str
    """File with the answers, relative to the YAML file."""
    id: str | None = None
    """Column of SMILES or formulas."""
    features: tuple[str, ...] = ()
    """Columns of numbers or labels, instead of `id`."""
    rungs: str
    """COLUMN:COST,... from cheap to dear; the last is the truth."""
    same: tuple[str, ...] = ()
    """Rungs that measure the property of the last rung at another level, such as the gap by a cheaper method."""
    alike: tuple[str, ...] = ()
    """Rungs that all measure one property, which is not that of the last rung, each at a level of its own."""
    passes: dict[str, Literal["min", "max"]] = {}
    """Rungs on which a campaign would set a gate with a single limit: whether small values pass it, or large ones."""
    goal: Literal["min", "max"]
    """Whether the truth is to be small or large."""
    top: float = Field(gt=0, lt=1)
    """Share of the answers that are hits."""

    def case(self, folder: Path) -> Case:
        """Reads the table. Raises UsageError with the place of a mistake."""
        known = KnownRungs(self.same, self.alike, tuple(self.passes.items()))
        rungs = parse_rungs(self.rungs)
        return read_case(folder / self.table, rungs, self.goal, self.top, self.id, self.features, known)


class TableFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tables: dict[str, TableSpec]
    """The tables by name."""


def read_collection(path: Path) -> Mapping[str, TableSpec]:
    """Returns the tables by name. Raises SpecError with every mistake."""
    return validated(read(read_text(path), "a file of tables", "tables:"), str(path), TableFile).tables


def compared(tables: Mapping[str, Mapping[str, Any]], rival: str) -> Mapping[str, Mapping[str, Any]]:
    """Returns, for each scheduler, the mean cost of 90 % of the hits as a multiple of the rival's, by table; their
    geometric mean, and the table with the largest multiple. Tables where a run did not find so many are left out, and
    counted as `missing`.

    tables: {table: {scheduler: outcome}}. Of an outcome only `cost_to` is read: {recall as a text: (mean, low, high) of
    its cost, or None}.
    """
    names: Sequence[str] = list(next(iter(tables.values())))
    found = {}
    for name in names:
        ratios = {}
        for table, schedulers in tables.items():
            cost = schedulers[name]["cost_to"].get(MARK)
            cost_of_rival = schedulers[rival]["cost_to"].get(MARK)
            if cost and cost_of_rival:
                mean_cost, *_ = cost
                mean_of_rival, *_ = cost_of_rival
                ratios[table] = mean_cost / mean_of_rival
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios)) if ratios else None
        worst = max(ratios, key=lambda table: ratios[table], default=None)
        found[name] = {"ratios": ratios, "geometric_mean": mean, "worst": worst, "missing": len(tables) - len(ratios)}
    return found
