"""Colours of the report: contrast as WCAG 2.2 counts it, and told apart by colour-blind readers; layout of a chart."""

from __future__ import annotations

import io
import itertools
import re
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from sciagent.report.parts import campaign_charts

STATIC = files("sciagent.report").joinpath("static")
CSS = "".join(STATIC.joinpath(name).read_text(encoding="utf-8") for name in ("colours.css", "report.css"))
PARTS = ("passed", "failed", "refused", "inconclusive", "errors", "waiting")
# Machado, Oliveira, Fernandes, IEEE Trans. Vis. Comput. Graph. 15, 1291 (2009), severity 1.0, on linear RGB
SIGHT = {
    "full": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def themes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", CSS, flags=re.DOTALL)
    assert len(blocks) == 3
    found = [dict(re.findall(r"--([\w-]+): (#[0-9a-fA-F]{3,6})", block)) for block in blocks]
    return dict(zip(("light", "dark", "print"), found, strict=True))


THEMES = themes()


def linear(colour: str) -> np.ndarray:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
    srgb = np.array([int(digits[i : i + 2], 16) for i in (0, 2, 4)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    one, two = sorted(float(linear(c) @ (0.2126, 0.7152, 0.0722)) for c in (a, b))
    return (two + 0.05) / (one + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb.clip(0, 1)
    x, y, z = np.cbrt(np.maximum(xyz / (0.9505, 1.0, 1.089), 1e-6))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read(theme: str) -> None:
    c = THEMES[theme]
    pairs = [
        ("ink", "bg"),
        ("ink", "surface"),
        ("muted", "bg"),
        ("muted", "surface"),
        ("link", "surface"),
        ("link", "bg"),
    ]
    pairs += [(f"{kind}-ink", f"{kind}-bg") for kind in ("hit", "verified", "open", "fallen")]
    pairs += [("c-ink", "c-surface"), ("c-muted", "c-surface"), ("c-ink", "c-band")]
    pairs += [(f"atom{name}", "surface") for name in ("", "-n", "-o", "-x", "-s", "-p", "-b")]
    assert {(a, b): contrast(c[a], c[b]) for a, b in pairs if contrast(c[a], c[b]) < 4.5} == {}


@pytest.mark.parametrize("theme", THEMES)
def test_what_a_chart_draws_stands_out_from_its_ground(theme: str) -> None:
    c = THEMES[theme]
    weak = {name: contrast(c[f"c-{name}"], c["c-surface"]) for name in (*PARTS, "hit", "batch")}
    assert {name: ratio for name, ratio in weak.items() if ratio < 3.0} == {}


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("theme", THEMES)
def test_no_two_parts_of_a_bar_look_alike(theme: str, sight: str) -> None:
    """CIE 1976 difference; 2.3 is just noticeable, and hatches tell the parts apart besides."""
    seen = {name: lab(SIGHT[sight] @ linear(THEMES[theme][f"c-{name}"])) for name in PARTS}
    near = {(a, b): round(float(np.linalg.norm(seen[a] - seen[b])), 1) for a, b in itertools.combinations(PARTS, 2)}
    assert {pair: distance for pair, distance in near.items() if distance < 15} == {}


def test_a_chart_has_the_layout_that_savefig_gives_it() -> None:
    def drawn() -> Any:
        chart, axes = campaign_charts.figure(7, 3)
        axes.plot([0, 1, 2], [1, 1000, 10])
        axes.set_xlabel("core-seconds")
        return chart

    saved = io.StringIO()
    drawn().savefig(saved, format="svg")
    shapes = [
        re.findall(r' d="([^"]+)"', text)
        for text in (saved.getvalue(), campaign_charts.svg(drawn(), "a title", "salt"))
    ]
    assert shapes[0] == shapes[1] and len(shapes[0]) > 5
