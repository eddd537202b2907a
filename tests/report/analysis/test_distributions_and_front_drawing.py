"""The charts of objectives: bars that add up, the front that brute force finds, names that cannot act."""

from __future__ import annotations

import random
import re

import pytest

from sciagent.report.analysis.distributions_and_front import NamedPoint, distribution, front, pareto


def test_a_histogram_names_each_kind_with_its_number() -> None:
    chart = distribution({"hit": [4.1, 4.2], "verified": [3.0, 5.0, 5.5]}, "gap / eV at dft", (4.0, 4.6), "s")
    assert "hit, 2" in chart and "verified, no hit, 3" in chart and "gap / eV at dft" in chart
    assert "var(--c-band)" in chart and "var(--c-hit)" in chart and not re.search(r"#[0-9a-f]{6}\b", chart)
    assert chart.index("stroke-dasharray") > chart.index("var(--c-hit)"), "limits are drawn over the bars"


def test_a_histogram_of_equal_values_is_drawn() -> None:
    assert "<svg" in distribution({"open": [2.0, 2.0]}, "gap", None, "s")


@pytest.mark.parametrize("directions", [("maximise", "minimise"), ("minimise", "minimise"), ("maximise", "maximise")])
def test_the_front_is_what_brute_force_finds(directions: tuple[str, str]) -> None:
    draw = random.Random(3)
    points = [NamedPoint(draw.randint(0, 20), draw.randint(0, 20), "verified", str(i)) for i in range(60)]
    signs = [1 if direction == "maximise" else -1 for direction in directions]

    def beaten(p: NamedPoint) -> bool:
        own = (signs[0] * p.x, signs[1] * p.y)
        others = [(signs[0] * q.x, signs[1] * q.y) for q in points]
        return any(o != own and o[0] >= own[0] and o[1] >= own[1] for o in others)

    assert front(points, directions) == sorted({(p.x, p.y) for p in points if not beaten(p)})


def test_each_point_has_its_name_and_no_name_can_act() -> None:
    points = [
        NamedPoint(1.0, 2.0, "hit", "CPD-0017"),
        NamedPoint(2.0, 1.0, "open", "<script>alert(1)</script>"),
        NamedPoint(3.0, 1.5, "fallen", "$x^2$"),
    ]
    chart = pareto(points, ["gap / eV", "dipole / D"], [(0.5, 1.5), None], ["window", "limit"], "p")
    titles = re.findall(r'<g class="point"><title>(.*?)</title>', chart)
    assert sorted(titles) == ["$x^2$: 3, 1.5", "&lt;script&gt;alert(1)&lt;/script&gt;: 2, 1", "CPD-0017: 1, 2"]
    assert "<script" not in chart and "not verified yet" in chart and "dropped" in chart
