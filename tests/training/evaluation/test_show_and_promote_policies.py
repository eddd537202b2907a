"""Roles of policies, and the campaigns that name them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent import Campaign
from sciagent.agent.install_and_find_models import add_folder
from sciagent.domain.policy_identity import IN_PROCESS, PolicyIdentity
from sciagent.errors import UnknownNameError, UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import evaluations_and_turn_uses
from sciagent.store.learning import policies_and_roles as rows
from sciagent.training.evaluation import show_and_promote_policies
from sciagent.training.evaluation.evaluation_spec import load_evaluation
from sciagent.training.evaluation.run_evaluation import Evaluation
from tests.support.tiny_model import write_tiny_model
from tests.training.evaluation.conftest import TASK


@pytest.fixture
def three(ledger: Ledger) -> Ledger:
    """A ledger, of either kind, with a, its child b, and c."""
    with ledger.begin() as connection:
        a = rows.enter(connection, PolicyIdentity("a@1", IN_PROCESS, "1" * 64))
        b = rows.enter(
            connection, PolicyIdentity("b@2", IN_PROCESS, "2" * 64), parent_id=a, recipe={"training": "grpo"}
        )
        rows.enter(connection, PolicyIdentity("c@3", IN_PROCESS, "3" * 64), parent_id=b)
        figures = {"hits_per_verification": [0.5, 0.4, 0.6], "scaffolds_per_verification": [0.2, 0.1, 0.3]}
        answer = {"arms": {"trained": {**figures, "hits_per_core_second": None}}, "tasks": ["gaps"]}
        evaluations_and_turn_uses.enter(connection, {}, answer, {"trained": b}, "me")
    return ledger


def test_rollbacks_go_back_version_by_version_and_nothing_is_lost(three: Ledger) -> None:
    for name in ("a", "b", "c"):
        show_and_promote_policies.promote(three, name, "production", who="me", why=f"better than before {name}")
    assert show_and_promote_policies.rollback(three, "production", who="me").policy == "b@2"
    promoted = show_and_promote_policies.promote(three, "c@3", "production", who="you")
    assert (promoted.policy, promoted.before, promoted.is_rollback) == ("c@3", "b@2", False)
    back = [show_and_promote_policies.rollback(three, "production", who="me").policy for _ in range(2)]
    assert back == ["b@2", "a@1"]
    with pytest.raises(UsageError, match="no version before"):
        show_and_promote_policies.rollback(three, "production", who="me")
    with three.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(t.policy_role)).scalar() == 7


def test_a_policy_is_shown_with_all_that_is_known(three: Ledger) -> None:
    promoted = show_and_promote_policies.promote(three, "b", "production", who="me", why="twice the hits")
    shown = show_and_promote_policies.show(three, "production")
    assert shown.policy.policy == "b@2" and shown.policy.training == "grpo" and shown.policy.roles == ("production",)
    assert shown.parents == ("a@1",) and show_and_promote_policies.show(three, "c").parents == ("b@2", "a@1")
    [evaluation] = shown.evaluations
    assert evaluation.hits_per_verification == (0.5, 0.4, 0.6) and evaluation.hits_per_core_second is None
    assert promoted.evaluation == evaluation.evaluation, "the last evaluation speaks for it"
    assert [change.why for change in shown.changes] == ["twice the hits"]
    assert [each.policy for each in show_and_promote_policies.listed(three)] == ["a@1", "b@2", "c@3"]


def test_what_cannot_be_promoted_is_refused(three: Ledger) -> None:
    with pytest.raises(UnknownNameError, match='unknown policy "d"'):
        show_and_promote_policies.promote(three, "d", "production", who="me")
    for role, why in (("Production", "no name of a role"), ("c", "is the name of a policy")):
        with pytest.raises(UsageError, match=why):
            show_and_promote_policies.promote(three, "b", role, who="me")
    with pytest.raises(UnknownNameError, match="evaluation"):
        show_and_promote_policies.promote(three, "b", "production", evaluation=9, who="me")
    with pytest.raises(UnknownNameError, match="role"):
        show_and_promote_policies.rollback(three, "staging", who="me")
    show_and_promote_policies.promote(three, "b", "production", who="me")
    with pytest.raises(UsageError, match="already"):
        show_and_promote_policies.promote(three, "b", "production", who="me")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two models, `old` and `new`, whose weights differ."""
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    for name in ("old", "new"):
        folder = write_tiny_model(tmp_path / name, context=4096)
        if name == "new":
            from safetensors.torch import load_file, save_file

            weights = {key: 1.5 * value for key, value in load_file(folder / "model.safetensors").items()}
            save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        add_folder(folder, name, lambda text: None)
    yield


@pytest.mark.long
def test_a_campaign_keeps_the_version_with_which_it_started(recipe: Path, models: None) -> None:
    ledger = Ledger(str(recipe.parent / "sciagent.db"))
    show_and_promote_policies.promote(ledger, "old", "production", who="me")
    text = TASK.format(name="named", low=-1, high=1).replace("model: tiny", "policy: production")
    text = text.replace("count: 1", "count: 99").replace("{proposals: 3}", "{llm_tokens: 1}")

    def answered(name: str, tokens: int) -> set[str]:
        file = recipe.parent / f"{name}.yaml"
        file.write_text(
            text.replace("campaign: named", f"campaign: {name}").replace("tokens: 1}", f"tokens: {tokens}}}")
        )
        Campaign.from_yaml(file, ledger).run(progress=False)
        u, j, c = t.turn.c, t.trajectory.c, t.campaign.c
        query = sa.select(t.policy.c.name).select_from(t.turn.join(t.policy).join(t.trajectory).join(t.campaign))
        query = query.where(c.name == name, u.message.is_not(None), j.campaign_id == c.id)
        with ledger.read() as connection:
            return {policy.partition("@")[0] for policy in connection.execute(query).scalars()}

    assert answered("first", 1) == {"old"}
    show_and_promote_policies.promote(ledger, "new", "production", who="me")
    assert answered("first", 5000) == {"old"}, "a later promotion changes no campaign that has started"
    assert answered("second", 1) == {"new"}
    (recipe.parent / "other.yaml").write_text(text.replace("policy: production", "policy: prodction"))
    with pytest.raises(UnknownNameError, match='did you mean "production"'):
        Campaign.from_yaml(recipe.parent / "other.yaml", ledger).run(progress=False)


@pytest.mark.long
def test_an_evaluation_is_kept_with_the_policies_of_its_arms(recipe: Path, models: None) -> None:
    ledger = Ledger(str(recipe.parent / "sciagent.db"))
    show_and_promote_policies.promote(ledger, "new", "production", who="me")
    text = recipe.read_text(encoding="utf-8").replace("seeds: [1, 2]", "seeds: [1]").replace("low.yaml, ", "")
    recipe.write_text(text + "    trained: {policy: production}\n", encoding="utf-8")
    answer = Evaluation(load_evaluation(recipe), recipe.parent, ledger).run(lambda campaign, done, of: None)
    assert answer.arms["trained"].policy and answer.arms["trained"].policy.startswith("new@")
    [found] = show_and_promote_policies.show(ledger, "production").evaluations
    assert found.evaluation == answer.evaluation and found.arm == "trained" and found.tasks == ("high",)
