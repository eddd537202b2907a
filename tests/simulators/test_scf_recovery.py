"""Which steps converge from few cycles is in test_pyscf_engine.py; here the last step and what a checkpoint says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators import scf_recovery
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import DftSettings, build, mean_field, single_point
from sciagent_simulators.scf_recovery import STEPS, converge

PLAIN = DftSettings(functional="pbe", grid_level=0, spin_check="off")


def broken_off(structure, tmp_path, step: str, name: str = "formaldehyde", multiplicity: int = 1):
    file = tmp_path / "scf.chk"
    with pytest.MonkeyPatch.context() as patched, pytest.raises(SimulatorError):
        patched.setattr(scf_recovery, "STEPS", STEPS[:1])
        single_point(structure(name, multiplicity=multiplicity), replace(PLAIN, max_cycles=4), file)
    file.with_suffix(".step").write_text(step)
    return file


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_calculation_goes_on_at_the_step_it_was_broken_off_in(structure, tmp_path, step):
    plain = single_point(structure("formaldehyde"), PLAIN)
    again = single_point(structure("formaldehyde"), PLAIN, broken_off(structure, tmp_path, step))
    assert (again.diagnostics["scf_step"], again.diagnostics["resumed"]) == (step, True)
    assert again.energy == pytest.approx(plain.energy, abs=1e-5)
    assert again.lumo == pytest.approx(plain.lumo, abs=2e-3)


def test_after_smearing_the_electrons_are_whole_and_the_spin_is_kept(structure, tmp_path):
    geometry = structure("oxygen", multiplicity=3)
    file = broken_off(structure, tmp_path, "smeared", "oxygen", 3)
    mf, facts = converge(mean_field(build(geometry, PLAIN), PLAIN), PLAIN.max_cycles, file)
    assert facts["scf_step"] == "smeared"
    assert set(mf.mo_occ.ravel()) == {0.0, 1.0}
    assert [channel.sum() for channel in mf.mo_occ] == [9, 7]
    assert mf.e_tot == pytest.approx(single_point(geometry, PLAIN).energy / 27.211386245988, abs=1e-6)


@pytest.mark.parametrize("text", ["", "nonsense", "newton\nand more", "\xff" * 40])
def test_a_step_that_is_none_starts_from_the_first(structure, tmp_path, text):
    found = single_point(structure("formaldehyde"), PLAIN, broken_off(structure, tmp_path, text))
    assert (found.diagnostics["scf_step"], found.diagnostics["resumed"]) == ("diis", True)


def test_what_no_step_converges_names_them_all(structure):
    with pytest.raises(SimulatorError) as caught:
        converge(mean_field(build(structure("oxygen"), PLAIN), PLAIN), 1)
    assert caught.value.reason in ("scf_not_converged", "scf_unstable")
    assert caught.value.diagnostics["scf_tried"] == list(STEPS)
