"""What a campaign tells its scheduler and its proposer: which rung ranks, what children may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.core.opening import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.pricing.in_turn import rule_of
from sciagent.scheduling.rules.best_rung import BestRung
from sciagent.scheduling.rules.halving import Halving
from sciagent.store.database.ledger import Ledger
from tests.scheduling.rules.arrays import waiting
from tests.support.campaigns import GFN1, write_campaign


def built(folder: Path, scheduler: str, checks: str = ""):  # type: ignore[no-untyped-def]
    file = write_campaign(folder, evolve=True)
    text = file.read_text().replace("  - rung: dft\n", GFN1).replace("scheduler: {kind: exhaustive}", scheduler)
    text = text.replace("settings: {descriptors: [heavy_atoms, logp]}", f"settings: {{{checks}}}")
    spec = parse_spec(text, name="small.yaml", base=folder)
    return create_or_open(Ledger(str(folder / "sciagent.db")), spec, text, "me")[0]


@pytest.mark.parametrize(("rung", "ranks"), [("", "gfn1"), (", rung: xtb", "xtb"), (", rung: gfn1", "gfn1")])
def test_the_last_paid_rung_before_the_terminal_ranks_unless_another_is_named(
    tmp_path: Path, rung: str, ranks: str
) -> None:
    made = built(tmp_path, f"scheduler: {{kind: best_rung{rung}}}")
    rule = rule_of(made, [rung.rules.position for rung in made.paid])
    assert isinstance(rule, BestRung)
    assert [made.paid[at].spec.rung for at in (rule.first_rung, rule._terminal)] == [ranks, "dft"]


def test_halving_keeps_one_in_three_unless_told(tmp_path: Path) -> None:
    rule = rule_of(built(tmp_path, "scheduler: {kind: halving}"), [])
    assert isinstance(rule, Halving) and rule._eta == 3.0


@pytest.mark.parametrize("kind", ["best_rung", "exhaustive", "halving", "random", "thresholds"])
def test_every_choice_has_a_reason_that_opens_with_the_rule_and_a_propensity(tmp_path: Path, kind: str) -> None:
    made = built(tmp_path, f"scheduler: {{kind: {kind}}}")
    rule = rule_of(made, [rung.rules.position for rung in made.paid][-2:])
    ladder = [waiting(0, [1, 2, 3], started=9), waiting(1, [4, 5], [0.3, 0.6])]
    choices = rule.next(ladder, 4)
    assert len(choices) == 4
    assert all(c.why.startswith(kind) for c in choices)
    assert all(0 < c.propensity <= 1 for c in choices)
    assert rule.next(ladder, 4) == choices
