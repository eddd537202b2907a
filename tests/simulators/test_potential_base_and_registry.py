from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.errors import SimulatorError, UnknownNameError, UsageError
from sciagent_simulators.potentials import potential_base_and_registry
from sciagent_simulators.potentials.ase_potential import AsePotential
from sciagent_simulators.potentials.potential_base_and_registry import (
    MP2020,
    Energy,
    EnergyScale,
    PotentialFactory,
    model_difference,
)

OURS = EnergyScale("CHGNet-0.3.0", "PBE+U", MP2020)


def test_energies_of_two_scales_do_not_mix() -> None:
    r2scan = EnergyScale("CHGNet-r2SCAN", "r2SCAN")
    assert Energy(-3.5, OURS) - Energy(-3.4, OURS) == pytest.approx(-0.1)
    for other in (r2scan, EnergyScale("7net-0", "PBE+U"), EnergyScale("another", "PBE+U", MP2020)):
        with pytest.raises(SimulatorError, match="different scales"):
            _ = Energy(-3.5, OURS) - Energy(-6.8, other)


def test_a_spread_needs_one_functional_and_one_correction() -> None:
    assert model_difference(Energy(-3.5, OURS), Energy(-3.6, EnergyScale("another", "PBE+U", MP2020))) == pytest.approx(
        0.1
    )
    with pytest.raises(SimulatorError, match="different scales"):
        model_difference(Energy(-3.5, OURS), Energy(-3.4, EnergyScale("7net-0", "PBE+U")))


def test_an_unknown_potential_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"chgnet-0\.3\.0"):
        potential_base_and_registry.potential_factory("chgnet-0.3.1")


def test_a_potential_without_weights_asks_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    made = PotentialFactory("acme", OURS, frozenset({"Si"}), AsePotential, 0.1, "acme", ships_weights=False)  # type: ignore[arg-type]
    monkeypatch.setattr(potential_base_and_registry, "potential_factory", lambda name: made)
    with pytest.raises(UsageError, match="weights: FILE"):
        potential_base_and_registry.load_potential("acme", None, "cpu")


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "weights.pth").write_text("no weights")
    with pytest.raises(SimulatorError, match="cannot read its weights"):
        potential_base_and_registry.load_potential("chgnet-0.3.0", tmp_path / "weights.pth")


def test_a_process_without_a_gpu_takes_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert potential_base_and_registry.available_device() == "cpu"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert potential_base_and_registry.available_device() == "cpu"
