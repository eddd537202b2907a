"""How the groups of a step are shared among the tasks of a run."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from sciagent.training.live import driven_task_campaigns


def test_tasks_get_their_shares_of_the_groups() -> None:
    tasks: list[Any] = [
        SimpleNamespace(name=name, weight=weight) for name, weight in (("a", 1.0), ("b", 2.0), ("c", 1.0))
    ]
    drawn = Counter[str]()
    for step in range(100):
        chosen = [task.name for task in driven_task_campaigns.tasks_of_places(tasks, 3, step, range(4))]
        assert sorted(chosen) == ["a", "b", "b", "c"], "each share is a whole number of groups"
        drawn.update(task.name for task in driven_task_campaigns.tasks_of_places(tasks, 3, step, range(4, 5)))
    assert 35 < drawn["b"] < 65 and min(drawn.values()) > 12
    assert driven_task_campaigns.tasks_of_places(tasks, 3, 7, range(6)) == driven_task_campaigns.tasks_of_places(
        tasks, 3, 7, range(6)
    )
