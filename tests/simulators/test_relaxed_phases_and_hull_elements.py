"""Elements with PAW data, and open shells from oxidation states."""

from __future__ import annotations

import pytest

from sciagent_simulators.periodic.k_points_and_elements import VALENCE, in_gpaw_22_8, is_open, open_shells


@pytest.mark.parametrize(
    ("formula", "opened"),
    [
        ("SrTiO3", ()), ("CsSnI3", ()), ("KTaO3", ()), ("AgNbO3", ()), ("CeO2", ()), ("YbF2", ()), ("CuCl", ()),
        ("Al", ()), ("Cu", ()), ("LaMnO3", ("Mn",)), ("SrVO3", ("V",)), ("CuO", ("Cu",)), ("Fe", ("Fe",)),
        ("GdN", ("Gd",)), ("ZnO", ()), ("ErNiSn", ("Er",)), ("TmNiSn", ("Tm",)), ("LuNiSn", ()), ("LaNiSn", ()),
    ],
)  # fmt: skip
def test_open_shells_follow_from_the_formula(formula: str, opened: tuple[str, ...]) -> None:
    assert open_shells(formula) == opened


def test_a_shell_is_open_between_empty_and_full() -> None:
    assert [is_open("Cu", state) for state in (1, 2, 3)] == [False, True, True]
    assert [is_open("Eu", state) for state in (2, 3)] == [True, True] and not is_open("Lu", 3)
    assert not is_open("Sn", 2)


def test_lanthanides_came_with_later_data() -> None:
    assert "La" in VALENCE and not in_gpaw_22_8("La") and in_gpaw_22_8("Sr") and "Po" not in VALENCE
