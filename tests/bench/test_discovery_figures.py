"""The figures of a search for stable crystals against curves made by hand; numbers of MADE's own code."""

from __future__ import annotations

import pytest
from pymatgen.core import Lattice, Structure

from sciagent_bench.made.discovery_figures import (
    Discovery,
    DiscoveryCurve,
    DiscoveryRun,
    MovingHull,
    OracleAnswer,
    acceleration,
    area,
    discovery_curve,
    enhancement,
    figures,
    mean_curve,
)


def caesium_chloride(first: str, second: str, edge: float = 3.0) -> Structure:
    return Structure(Lattice.cubic(edge), [first, second], [[0, 0, 0], [0.5, 0.5, 0.5]])


def tetragonal(first: str, second: str, ratio: float) -> Structure:
    return Structure(Lattice.tetragonal(3.0, 3.0 * ratio), [first, second], [[0, 0, 0], [0.5, 0.5, 0.5]])


def layered(first: str, second: str) -> Structure:
    """The cell A3B of L1_2."""
    return Structure(
        Lattice.cubic(4.0), [second, *[first] * 3], [[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]
    )


def answer(energy: float | None, structure: Structure | None, text: str = "") -> OracleAnswer:
    return OracleAnswer(key=text, text=text, formation_energy=energy, structure=structure)


def test_the_hull_sinks_and_energies_are_counted_from_it() -> None:
    hull = MovingHull(["Al", "Li"])
    one_to_one = answer(-0.4, caesium_chloride("Li", "Al"))
    three_to_one = answer(-0.1, layered("Al", "Li"))
    assert hull.above(one_to_one) == pytest.approx(-0.4)
    hull.add(one_to_one)
    assert hull.above(one_to_one) == pytest.approx(0)
    # half way between Al and AlLi the hull lies at -0.2
    assert hull.above(three_to_one) == pytest.approx(0.1)
    hull.add(answer(0.3, layered("Li", "Al")))  # far above
    assert hull.above(three_to_one) == pytest.approx(0.1)


def test_a_discovery_is_novel_and_metastable_and_may_be_lost_again() -> None:
    given = [answer(-0.1, caesium_chloride("Li", "Al"), "given"), answer(None, None, "given, not relaxed")]
    calls = [
        answer(-0.12, caesium_chloride("Li", "Al", edge=3.3), "as given, another volume"),
        answer(None, None, "no answer"),
        answer(-0.05, tetragonal("Li", "Al", 1.5), "novel"),
        answer(-0.05, tetragonal("Li", "Al", 1.52), "as the third"),
        answer(0.3, layered("Al", "Li"), "novel, but unstable"),
        answer(-0.3, layered("Li", "Al"), "novel and deep"),
        answer(-0.5, tetragonal("Li", "Al", 2.2), "deeper"),
    ]
    curve = discovery_curve(["Al", "Li"], given, calls)
    # the hull of Li3Al is at -0.2 for LiAl: "novel" is then 0.15 above it
    assert curve.counts == (0, 0, 1, 1, 1, 1, 2)
    assert curve.novel == 4
    assert curve.discoveries == (
        Discovery("novel and deep", 6, pytest.approx(0)),
        Discovery("deeper", 7, pytest.approx(0)),
    )


COUNTS = (0, 1, 1, 2, 4)
OTHER = (0, 0, 1, 1, 1)
NONE = (0, 0, 0, 0, 0)


def test_the_figures_are_what_the_code_of_made_gives() -> None:
    # DiscoveryCurveMetrics.calculate of github.com/diffractivelabs/MADE at 496d6c9 with these curves after calls 1 to 5
    assert area(COUNTS, 5) == pytest.approx(6 / 12.5)
    baseline = mean_curve([OTHER], 5)
    assert enhancement(COUNTS, baseline, 5) == 4.0
    assert acceleration(COUNTS, baseline, 5) == pytest.approx(3 / 2)
    assert acceleration(OTHER, mean_curve([COUNTS], 5), 5) == 0.0  # never reached
    assert enhancement(COUNTS, mean_curve([NONE], 5), 5) == 100.0  # the cap
    assert acceleration(COUNTS, mean_curve([NONE], 5), 5) == 1.0


def test_a_run_that_ended_early_goes_on_with_its_last_count() -> None:
    assert area((1, 1), 4) == pytest.approx((0.5 + 1 + 1 + 1) / 8)
    assert mean_curve([(1, 1), (0, 1, 2, 3)], 4) == [0, 0.5, 1, 1.5, 2]
    assert area((1, 2, 3, 4), 4) == 1.0


def run_of(proposer: str, seed: int, counts: tuple[int, ...]) -> DiscoveryRun:
    return DiscoveryRun("Al-Li", proposer, seed, f"al-li-{proposer}-{seed}", 1, 9.5, DiscoveryCurve(counts, 5, ()))


def test_figures_are_by_seed_and_count_from_the_mean_of_random_proposals() -> None:
    runs = [run_of("random", 1, OTHER), run_of("random", 2, COUNTS), run_of("law", 1, COUNTS), run_of("law", 2, NONE)]
    found = figures(runs, 5)
    [law] = found["law"]
    assert (law.discovered, law.msun, law.failures, law.calls) == ((4, 0), (0.8, 0.0), (1, 1), (5, 5))
    assert (law.core_seconds, law.novel) == ((9.5, 9.5), (5, 5))
    assert law.enhancement == pytest.approx((4 / 2.5, 0))
    assert law.acceleration == pytest.approx((1.0, 0.0))
    [without] = figures(runs[2:], 5)["law"]
    assert without.enhancement is None and without.acceleration is None
    assert without.audc == law.audc
