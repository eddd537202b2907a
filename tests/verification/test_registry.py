"""Verifiers of a third party are found like our own, and a broken one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.errors import UnknownNameError, UsageError
from sciagent.verification import registry


def test_an_installed_third_party_package_is_found_by_its_entry_points(misbehaving: Path) -> None:
    assert "bad.noop" in registry.verifier_names()
    kind = registry.verifier_class("bad.noop")
    assert kind.name == "bad.noop"
    assert registry.provider("bad.noop") == "misbehaving-verifiers 0.4.0"


def test_our_own_verifiers_stand_beside_it(misbehaving: Path) -> None:
    assert {"molecule.checks", "xtb.singlepoint", "pyscf.scf"} <= set(registry.verifier_names())


def test_an_unknown_name_is_answered_with_the_nearest_known(misbehaving: Path) -> None:
    with pytest.raises(UnknownNameError, match=r'did you mean "bad.noop"'):
        registry.verifier_class("bad.nop")


def test_a_package_whose_engine_is_missing_is_named_with_what_is_missing(misbehaving: Path) -> None:
    with pytest.raises(UsageError, match=r'"bad.import" .*an_engine_that_nobody_has'):
        registry.verifier_class("bad.import")
