"""Rollouts do not begin where this machine could verify no seed for want of a package or a program."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import CampaignError
from sciagent.execution.worker.end_attempts import DirectResult, complete_direct
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from sciagent.training.rollouts.campaign_rollouts import check_seeds
from sciagent.verification.sandbox.host import HostResult
from tests.training.rollouts.rolled import TEXT

SEEDS = [parse_molecule(text) for text in ("CO", "CCO", "CCN")]
LACKS = "this RDKit has no Contrib/SA_Score/sascorer.py"


@pytest.fixture
def unverified(ledger: Ledger, tmp_path: Path) -> Built:
    """A campaign whose seeds no rung has looked at."""
    (tmp_path / "molecules.csv").write_text("smiles\nCO\n", encoding="utf-8")
    return create_or_open(ledger, parse_spec(TEXT, base=tmp_path), TEXT, "test").built


def answered(built: Built, *outcomes: Outcome) -> None:
    """Records the answers of the first rung on as many seeds, in one attempt."""
    rung = built.rungs[0]
    with built.ledger.begin() as connection:
        ids = candidates.enter(connection, SEEDS)
        results = []
        for seed, outcome in zip(SEEDS, outcomes, strict=False):
            lacks = outcome is Outcome.BAD_ENVIRONMENT
            finding = Finding(seed.key, outcome, reason=Reason.IMPORT_FAILED, detail=LACKS) if lacks else None
            result = HostResult(finding or Finding(seed.key, outcome), Cost(core_seconds=1), 1.0, {}, ())
            results.append(DirectResult(rung.verifier, ids[seed.key], rung.verifier.evidence_key(seed), result, ()))
        complete_direct(connection, "me", results, campaign_id=built.row.id, rung_id=rung.id)


def test_a_batch_without_evidence_is_a_failed_attempt_with_its_reason(unverified: Built) -> None:
    answered(unverified, Outcome.BAD_ENVIRONMENT, Outcome.BAD_ENVIRONMENT)
    a = t.attempt.c
    with unverified.ledger.read() as connection:
        [row] = connection.execute(sa.select(a.state, a.outcome, a.reason, a.detail, a.n_candidates))
    assert tuple(row) == ("failed", "bad_environment", "import_failed", LACKS, 2)


def test_rollouts_stop_where_a_rung_could_verify_no_seed(unverified: Built) -> None:
    check_seeds(unverified)
    answered(unverified, Outcome.BAD_ENVIRONMENT, Outcome.BAD_ENVIRONMENT)
    with pytest.raises(CampaignError, match=rf'rolled: rung "checks" .*could verify no seed: {LACKS}'):
        check_seeds(unverified)


def test_one_seed_that_was_verified_is_enough(unverified: Built) -> None:
    answered(unverified, Outcome.BAD_ENVIRONMENT, Outcome.OK)
    check_seeds(unverified)
    answered(unverified, Outcome.BAD_ENVIRONMENT)
    check_seeds(unverified)
