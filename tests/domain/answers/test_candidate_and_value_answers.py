"""Measured values as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from sciagent.domain.answers.candidate_and_value_answers import ImportedValue, RungValue
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Censoring, Quantity

LIMIT = Measured("yield", Level("experiment"), Quantity(1.0, "%", censoring=Censoring.BELOW))


def test_a_value_is_read_with_its_uncertainty_and_unit() -> None:
    measured = Measured("homo_lumo_gap", Level("PBE0"), Quantity(2.92, "eV", 0.06))
    assert str(RungValue.of(measured, rung="dft")) == "2.92 ± 0.06 eV"


def test_an_imported_limit_of_detection_keeps_its_sign_and_its_file() -> None:
    value = ImportedValue.of(LIMIT, source="yields.csv sha256:ab", who="ada", why=None, at=datetime.now(UTC), cost={})
    assert value.line() == "yield < 1 %  [experiment]" and value.file == "yields.csv"
