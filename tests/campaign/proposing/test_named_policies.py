"""Names of policies, as campaign files and `sciagent rollout --policy` take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.agent.install_and_find_models import Model, add_folder
from sciagent.campaign.proposing.named_policies import named_model, with_model_name
from sciagent.domain.policy_identity import IN_PROCESS, PolicyIdentity
from sciagent.errors import UnknownNameError, UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles
from sciagent.training.rollouts.campaign_rollouts import model_spec, policy_of
from tests.support.tiny_model import write_tiny_model
from tests.training.rollouts.rolled import TEXT, seeded

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    return add_folder(write_tiny_model(tmp_path / "tiny"), "tiny", lambda text: None)


def test_a_role_a_model_and_a_policy_of_the_ledger_name_a_model(ledger: Ledger, tiny: Model) -> None:
    assert named_model(ledger, "tiny") == "tiny"
    with ledger.begin() as connection:
        [entered] = policies_and_roles.rows(connection)
        policies_and_roles.promote(connection, "production", entered.id, evaluation_id=None, who="me", why="")
        policies_and_roles.enter(connection, PolicyIdentity("tiny@0123456789ab", IN_PROCESS, "0" * 64))
        policies_and_roles.enter(connection, PolicyIdentity("tiny@ba9876543210", IN_PROCESS, tiny.sha256, "1" * 64))
    assert entered.name == tiny.policy
    assert {named_model(ledger, name) for name in ("production", "tiny", tiny.policy)} == {"tiny"}, "not the later ones"
    with pytest.raises(UsageError, match="tiny@0123456789ab is none of the models of this machine"):
        named_model(ledger, "tiny@0123456789ab")
    with pytest.raises(UsageError, match="tiny@ba9876543210 is an adapter"):
        named_model(ledger, "tiny@ba9876543210")
    with pytest.raises(UnknownNameError, match='unknown role, model or policy "prodction"; did you mean "production"'):
        named_model(ledger, "prodction")


def test_rollouts_and_campaigns_take_the_same_names(ledger: Ledger, tmp_path: Path, tiny: Model) -> None:
    text = TEXT.replace("{kind: screen, file: molecules.csv}", "{kind: llm, policy: tiny, seeds: molecules.csv}")
    built = seeded(ledger, tmp_path, text=text)
    assert with_model_name(built, "", model_spec(built)).model == "tiny"
    with ledger.begin() as connection:
        pinned = policies_and_roles.pinned(connection, built.row.id, "")
        assert pinned is not None and pinned.name == tiny.policy
        policies_and_roles.promote(connection, "production", pinned.id, evaluation_id=None, who="me", why="")
    for name in (None, "tiny", "production"):
        with policy_of(built, name) as policy:
            assert policy.name == tiny.policy
