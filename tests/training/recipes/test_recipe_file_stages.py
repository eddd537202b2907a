"""The stages of a recipe refuse what cannot be run."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sciagent.training.recipes.recipe_file import AuditStage, DistillStage, LiveStage


def test_what_is_out_of_range_is_refused() -> None:
    with pytest.raises(ValidationError, match="at least 1 item"):
        DistillStage(kind="distill", teachers={})
    with pytest.raises(ValidationError, match="greater than or equal to 2"):
        LiveStage(kind="grpo", siblings=1)
    with pytest.raises(ValidationError, match="at least 1 item"):
        AuditStage(kind="audit", tasks=())
    with pytest.raises(ValidationError, match="it samples from adapters"):
        LiveStage(kind="grpo", endpoint="http://localhost:8000/v1")
    with pytest.raises(ValidationError, match="has no effect for grpo; it counts for ppo"):
        LiveStage.model_validate({"kind": "grpo", "critic": {"passes": 2}})
