"""Structures that are toxic or violently reactive in small amounts."""

from __future__ import annotations

import pytest

from sciagent.domain.outcomes import Reason
from tests.verifiers.safety_table import of_group, refused_as_expected


@pytest.mark.parametrize("row", of_group(Reason.ACUTE_HAZARD), ids=lambda row: row["name"])
def test_an_acute_hazard_is_refused_as_one(row: dict[str, str]) -> None:
    assert refused_as_expected(row)
