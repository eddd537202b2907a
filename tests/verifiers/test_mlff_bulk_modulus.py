"""Remarks of `mlff.elastic` on fits that are doubtful."""

from __future__ import annotations

from sciagent_simulators.potentials.relax_and_equation_of_state import StateFit
from sciagent_verifiers.simulation.mlff_bulk_modulus import remark_on


def test_a_derivative_outside_the_usual_range_is_a_remark() -> None:
    usual = StateFit(volume=40.5, bulk_modulus=88.0, derivative=4.3, residual=1e-4)
    assert not remark_on(usual)
    for derivative in (-0.9, 11.9):
        odd = StateFit(volume=40.5, bulk_modulus=88.0, derivative=derivative, residual=1e-4)
        assert f"{derivative:.1f}" in remark_on(odd)
    assert "upper bound" in remark_on(usual, is_soft=True), "a layered crystal"
