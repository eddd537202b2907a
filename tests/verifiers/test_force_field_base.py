from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from pydantic import ValidationError

from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.verification.verifier_contract import Context
from sciagent_verifiers.simulation.mlff_bulk_modulus import MlffElastic


def shipped() -> Path:
    import chgnet

    (found,) = (Path(chgnet.__file__).parent / "pretrained" / "0.3.0").glob("*.tar")
    return found


def test_own_weights_count_by_content_and_state_their_scale() -> None:
    own = {"weights": str(shipped()), "functional": "PBE+U", "correction": "MP2020"}
    digest = hashlib.sha256(shipped().read_bytes()).hexdigest()
    verifier = MlffElastic(own)
    assert verifier.settings.scale.model == f"CHGNet-0.3.0:{digest[:12]}"
    assert verifier.settings_hash != MlffElastic().settings_hash
    assert str(shipped().parent) not in str(verifier.settings.model_dump(mode="json"))
    with pytest.raises(ValidationError, match="need functional and correction"):
        MlffElastic({"weights": str(shipped())})


def test_threads_are_those_of_the_job(tmp_path: Path) -> None:
    import torch

    silicon = decorated("diamond", ("Si",))
    verifier = MlffElastic({"fmax": 0.05, "weights": str(shipped()), "functional": "PBE+U", "correction": "MP2020"})
    context = Context(tmp_path, tmp_path / "checkpoint", threads=2)
    (found,) = list(verifier.verify([silicon], context))
    assert torch.get_num_threads() == 2
    MlffElastic.warm()
    assert torch.get_num_threads() == 1
    assert found.outcome is Outcome.OK
    values = {measured.property: measured.quantity.value for measured in found.measured}
    assert values["bulk_modulus"] == pytest.approx(88.5, rel=0.15)
    assert verifier.lacks() is None


def test_cost_grows_with_the_atoms() -> None:
    small, large = (MlffElastic().cost(decorated(*made)) for made in (("fcc", ["Cu"]), ("corundum", ["Al", "O"])))
    assert large["core_seconds"] > 2 * small["core_seconds"]
