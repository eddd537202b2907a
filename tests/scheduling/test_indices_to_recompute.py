"""Of very many candidates some are looked at, and what is chosen is what a look at all would choose."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from benchmarks.scheduling_scale.state import campaign
from sciagent.scheduling import indices_to_recompute
from sciagent.scheduling.candidate_indices import groups
from sciagent.scheduling.rules import priced


def test_after_a_fit_of_very_many_some_are_looked_at_and_the_same_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    n, top = 10_000, 200
    state = campaign(n)
    pool, rule = state.pool, state.priced
    state.buy(rule.choose(pool, state.left))
    rule._stack._fitted_at = 0
    at_all = deepcopy(rule)
    at_all.choose(pool, state.left)
    assert not np.isnan(at_all.index[pool.open]).any()
    for name, value in {"MAX_ALL_EVALUATED": 4000, "N_BEST_PREDICTED": 1200, "SAMPLED_FRACTION": 0.2}.items():
        monkeypatch.setattr(indices_to_recompute, name, value)
    looked: list[int] = []
    monkeypatch.setattr(priced, "groups", lambda *given, **more: looked.append(len(given[1])) or groups(*given, **more))
    rule.choose(pool, state.left)
    assert sum(looked) == pytest.approx(0.2 * n + 1200, rel=0.1)
    index, others = at_all.index[pool.open], rule.index[pool.open]
    chosen = np.argsort(-others)[:top]
    assert index[chosen].sum() > 0.98 * np.sort(index)[-top:].sum()
    assert np.abs(np.log(others / index)).mean() < 0.1, "what the rest are worth is guessed"
    assert rule.price == pytest.approx(at_all.price, rel=0.05)


def test_of_many_new_candidates_all_are_looked_at() -> None:
    rng = np.random.default_rng(0)
    index = np.full(50_000, np.nan)
    assert indices_to_recompute.draw_sample(index, rng).all(), "nothing is known of any"
    index[:40_000] = 1.0
    seen = indices_to_recompute.draw_sample(index, rng)
    assert seen[40_000:].all()
    assert seen[:40_000].mean() == pytest.approx(indices_to_recompute.SAMPLED_FRACTION, rel=0.1)
    assert indices_to_recompute.draw_sample(index[:20_000], rng).all(), "they are not so many"
