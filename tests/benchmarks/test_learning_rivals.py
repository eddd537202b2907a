"""The cheap rivals of the learning benchmark, and the table that compares all arms."""

from __future__ import annotations

import importlib
import json
import random
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning import results
from benchmarks.learning.rivals.children import chance_of_hit
from benchmarks.learning.rivals.law import FEWEST, LawRanking
from benchmarks.learning.rivals.lessons import Lesson, lessons_of
from benchmarks.learning.rivals.table import EditTable, taught
from sciagent.agent.proposers.plugin_proposers import ProposerTask
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.chemistry.editing.mutate_and_crossover import ANY
from sciagent.chemistry.editing.named_edits import NAMED_EDITS
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.objectives import Direction, Objective, Window
from sciagent.domain.proposer_interfaces import MeasuredCandidate
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.training.evaluation.evaluation_command_answers import EvaluationAnswer
from tests.docs.pages import ROOT

BENZENES = ["c1ccccc1", "Cc1ccccc1", "CCc1ccccc1", "Oc1ccccc1", "Nc1ccccc1", "Fc1ccccc1", "COc1ccccc1", "CNc1ccccc1"]
ALKANES = ["CC", "CCC", "CCCC", "CCO", "CCCO", "CCN", "CCCN", "CCOC"]
GAP = Objective("homo_lumo_gap", Direction.WINDOW, Window(2.0, 2.6))
SMALL_DIPOLE = Objective("dipole", Direction.MINIMISE, Window(None, 2.5))


class Board:
    """A campaign of measured molecules."""

    def __init__(self, gaps: dict[str, float]) -> None:
        self._measured = [
            MeasuredCandidate(text, 1.0, seq, {"homo_lumo_gap": gap, "dipole": 1.0}, parse_molecule(text).key)
            for seq, (text, gap) in enumerate(gaps.items())
        ]
        self._keys = {parse_molecule(text).key for text in gaps}

    def measured(self) -> list[MeasuredCandidate]:
        return self._measured

    def known(self, candidate: Candidate) -> bool:
        return candidate.key in self._keys

    def missed_gate(self, candidate: Candidate) -> str | None:
        return "no iodine" if "I" in candidate.text else None


def task(file: Path | None = None, objectives: Sequence[Objective] = (GAP, SMALL_DIPOLE)) -> ProposerTask:
    return ProposerTask(objectives, ANY, file, {})


def test_the_chance_of_a_hit_is_that_of_all_windows() -> None:
    means = {"homo_lumo_gap": np.array([2.3, 2.3, 9.0]), "dipole": np.array([-9.0, 2.5, -9.0])}
    spreads = {"homo_lumo_gap": np.full(3, 0.3), "dipole": np.ones(3)}
    assert chance_of_hit([GAP, SMALL_DIPOLE], means, spreads) == pytest.approx([0.6827, 0.3413, 0.0], abs=1e-4)


def lessons() -> list[Lesson]:
    """Nitro groups lower the gap by 3 eV and raise the dipole; other edits change nothing but noise."""
    rng, made = random.Random(1), []
    for parent in (*BENZENES, *ALKANES):
        before = {"homo_lumo_gap": rng.uniform(4, 6), "dipole": rng.uniform(0, 2)}
        for edit in NAMED_EDITS.values():
            for what in edit.whats[:30] or ("",):
                is_nitro = what == "nitro" and edit.name == "add substituent"
                gap = before["homo_lumo_gap"] - 3 * is_nitro + rng.gauss(0, 0.05)
                after = {"homo_lumo_gap": gap, "dipole": before["dipole"] + rng.gauss(0, 0.05)}
                made.append(Lesson(parent, before, edit.name, what, after))
    return made


def test_the_table_learns_what_edits_do_and_proposes_the_best(tmp_path: Path) -> None:
    table = taught(lessons())
    assert table["explained"]["homo_lumo_gap"] > 0.8 and table["spread"]["homo_lumo_gap"] < 0.3
    (tmp_path / "table.json").write_text(json.dumps(table), encoding="utf-8")
    board = Board(dict.fromkeys(BENZENES, 5.3))
    asked = EditTable(task(tmp_path / "table.json")).ask(board, 6, random.Random(1))
    assert len({each.text for each in asked}) == 6
    assert {each.operation for each in asked} == {"modify: add substituent nitro"}
    assert {each.parents[0] for each in asked} <= {parse_molecule(text).key for text in BENZENES}
    assert not any(board.known(parse_molecule(each.text)) for each in asked)
    assert EditTable(task(tmp_path / "table.json")).ask(Board({}), 6, random.Random(1)) == []
    with pytest.raises(UsageError, match="needs the key `file`"):
        EditTable(task())
    with pytest.raises(UsageError, match="predicts homo_lumo_gap and dipole only, not logp"):
        EditTable(task(tmp_path / "table.json", [Objective("logp", Direction.WINDOW, Window(1, 2))]))


@pytest.mark.long
def test_the_law_follows_the_results_of_its_campaign() -> None:
    aromatic = {**dict.fromkeys(BENZENES, 2.3), **dict.fromkeys(ALKANES, 9.0)}
    law = LawRanking(task(objectives=[GAP]))
    asked = law.ask(Board(aromatic), 8, random.Random(1))
    assert len({each.text for each in asked}) == 8 and all("c" in each.text for each in asked)
    assert not any(Board(aromatic).known(parse_molecule(each.text)) for each in asked)
    few = dict.fromkeys(BENZENES, 2.3)
    assert len(few) < FEWEST
    first, again, other = (law.ask(Board(few), 8, random.Random(seed)) for seed in (1, 1, 2))
    assert first == again != other and len(first) == 8, "random children before there are enough results"


TEXT = """
campaign: taught
subject: molecule
objectives: [{property: homo_lumo_gap, window: [2, 6], unit: eV}, {property: dipole, max: 9, unit: D}]
ladder:
  - {rung: checks, verifier: molecule.checks, settings: {max_heavy_atoms: 6}}
  - {rung: xtb, verifier: xtb.singlepoint, inline: true, settings: {geometry: {method: mmff94, conformers: 1}}}
goal: {kind: hits}
budget: {verifications: 6}
proposer: {kind: llm, model: scripted, structured: false, seeds: seeds.csv, tools: [modify], turns: 4}
scheduler: {kind: exhaustive}
safety: {screen: false, reason: molecules of a test}
"""


def test_lessons_are_the_verified_edits_of_a_ledger(tmp_path: Path) -> None:
    from functools import partial

    from sciagent.campaign.proposing.start_and_combine_sources import source_of
    from sciagent.training.evaluation.campaign_runs import OneByOne
    from sciagent.training.rollouts.random_edit_policy import ScriptedPolicy

    (tmp_path / "seeds.csv").write_text("smiles\nCO\nC=O\nCN\n", encoding="utf-8")
    ledger = Ledger(str(tmp_path / "sciagent.db"))
    built = create_or_open(ledger, parse_spec(TEXT, base=tmp_path), TEXT, "test").built
    with Driver(built, source=partial(source_of, start=lambda spec: OneByOne(ScriptedPolicy()))) as driver:
        driver.run()
    with ledger.read() as connection:
        found = lessons_of(connection)
    ledger.close()
    assert 4 <= len(found) <= 6
    for each in found:
        assert each.what in (*NAMED_EDITS[each.edit].whats, "") and set(each.before) == set(each.after)
        assert each.parent in {"CO", "C=O", "CN"} or each.before != each.after


def test_each_entry_point_is_a_class_that_proposes() -> None:
    file = ROOT / "benchmarks" / "learning" / "rivals" / "pyproject.toml"
    points = tomllib.loads(file.read_text(encoding="utf-8"))["project"]["entry-points"]["sciagent.proposers"]
    loaded = [value.split(":") for value in points.values()]
    assert [getattr(importlib.import_module(module), name) for module, name in loaded] == [EditTable, LawRanking]


def run(arms: dict[str, list[int]], seed: int = 1) -> EvaluationAnswer:
    """An answer of `sciagent evaluate`. arms: hits by task."""
    campaigns = [
        {"arm": arm, "task": f"t{task}", "seed": seed, "campaign": f"{arm}-{task}-{seed}", "state": "budget_spent",
         "stop_reason": "", "verifications": 10, "hits": hits, "hits_at": list(range(1, hits + 1)), "scaffolds": 1,
         "core_seconds": 5.0, "calls": 10, "valid_calls": 9}
        for arm, by_task in arms.items() for task, hits in enumerate(by_task)
    ]  # fmt: skip
    whole = {"arms": {}, "differences": (), "tasks": ("t0", "t1"), "seeds": (seed,), "verifications": 10}
    return EvaluationAnswer.model_validate({**whole, "campaigns": campaigns})


def test_runs_are_merged_into_one_table_and_one_chart(tmp_path: Path) -> None:
    first, second = run({"evolve": [2, 4], "grpo": [5, 5]}), run({"table": [6, 8], "evolve": [2, 4]})
    answer = results.merged([first, second, run({"evolve": [0, 0]}, seed=2)])
    assert list(answer.arms) == ["evolve", "grpo", "table"] and answer.seeds == (1, 2)
    assert [arm.hits for arm in answer.arms.values()] == [6, 10, 14]
    text = results.table(answer)
    assert "| `grpo` | 1 | 10 | 20 | 0.5 [0.5, 0.5] | 1 [1, 1] | 0.1 [0.1, 0.1] | 2 | 90% |" in text
    assert "| `table` − `evolve` | 0.4 [0.4, 0.4]" in text and "`evolve` − `table`" not in text
    results.draw(answer, tmp_path / "results.png")
    assert (tmp_path / "results.png").stat().st_size > 1000
    clash = run({"evolve": [1, 1]})
    clash = clash.model_copy(
        update={"campaigns": tuple(c.model_copy(update={"campaign": "x"}) for c in clash.campaigns)}
    )
    with pytest.raises(UsageError, match="no run has the arm ppo; there are evolve, grpo"):
        results.merged([first], ["ppo"])
    with pytest.raises(UsageError, match="another campaign of evolve on t0 with seed 1"):
        results.merged([first, clash])
    with pytest.raises(UsageError, match="differ in their tasks"):
        results.merged([first, first.model_copy(update={"verifications": 48})])
