"""Whether a rung pays, in words."""

from __future__ import annotations

from tests.campaign.planning.fake_ladder import Good, Maker, Top, Useless, rung


def test_a_rung_that_tells_nothing_looks_worthless_and_a_good_one_pays(planned: Maker) -> None:
    found = planned((Useless, 1.0), (Good, 1.0), (Top, 60.0), budget="{core_seconds: 3000}")
    useless, good = rung(found, "useless"), rung(found, "good")
    assert useless["verdict"] == "looks worthless"
    assert all(
        one["middle"] < 0.02 * case["hits"]["middle"]
        for one, case in zip(useless["delta"], found["cases"], strict=True)
    )
    assert good["verdict"] == "pays for itself" and all(one["low"] > 0 for one in good["delta"])
    assert found["cases"][0]["hits"]["middle"] > 3 * found["cases"][0]["terminal_alone"]
    assert any(text.startswith("useless looks worthless") for text in found["sentences"])


def test_a_rung_nearly_as_dear_as_the_terminal_one_is_not_worth_its_lessons(planned: Maker) -> None:
    found = planned((Good, 55.0), (Top, 60.0), budget="{core_seconds: 30000}")
    assert rung(found, "good")["verdict"] == "looks worthless"
    assert min(one["low"] for one in rung(found, "good")["delta"]) < 0
