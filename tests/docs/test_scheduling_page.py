"""The page on the priced ladder says what its code does and what was measured."""

from __future__ import annotations

import importlib
import json
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.scheduling.rules.priced_settings import PricedSpec
from tests.docs.pages import ROOT, Block, blocks, campaigns

PAGE = ROOT / "docs" / "scheduling.md"
TEXT = PAGE.read_text(encoding="utf-8")
FIGURES = json.loads((ROOT / "docs" / "pictures" / "scheduling.json").read_text(encoding="utf-8"))
OF_SCHEDULERS = ("priced", "halving", "best_rung", "thresholds")


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    """The script that draws them."""
    name = "docs_pictures_scheduling"
    spec = spec_from_file_location(name, ROOT / "docs" / "pictures" / "scheduling.py")
    assert spec is not None and spec.loader is not None
    sys.modules[name] = made = module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(made)
    return made


def rows(heading: str) -> list[list[str]]:
    """Cells of the tables of a section, without their heads."""
    section = re.split(r"^#+ ", TEXT.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    tables = re.findall(r"^\|[-|]+\|\n((?:\|.*\n)+)", section, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")[1:-1]] for table in tables for line in table.splitlines()]


def spec_of(block: Block, folder: Path) -> PricedSpec:
    """A piece of a campaign is put into the one that the page shows."""
    (folder / "library.csv").write_text("smiles\nCCO\n")
    [whole] = campaigns(PAGE)
    text = block.text
    if not text.startswith("campaign:"):
        key = re.match(r"(\w+):", text)
        assert key
        kept = re.sub(rf"^{key[1]}:.*\n(?:[ ].*\n)*", "", whole.text, flags=re.MULTILINE)
        assert kept != whole.text
        text = kept + text
    found = parse_spec(text, base=folder).scheduler
    assert isinstance(found, PricedSpec)
    return found


@pytest.mark.parametrize("block", blocks("yaml", PAGE), ids=str)
def test_its_examples_are_right(block: Block, tmp_path: Path) -> None:
    assert spec_of(block, tmp_path)


def test_priced_is_the_default_and_the_first_example_writes_its_defaults_out(tmp_path: Path) -> None:
    (tmp_path / "library.csv").write_text("smiles\nCCO\n")
    [whole] = campaigns(PAGE)
    bare = re.sub(r"^scheduler:\n(?:[ ].*\n)*", "", whole.text, flags=re.MULTILINE)
    assert "scheduler" not in bare
    assert parse_spec(bare, base=tmp_path).scheduler == spec_of(whole, tmp_path)


def test_the_second_example_names_the_first_campaign(tmp_path: Path) -> None:
    [whole] = campaigns(PAGE)
    law = spec_of(blocks("yaml", PAGE)[1], tmp_path).law
    assert law is not None and f"campaign: {law.source}\n" in whole.text


@pytest.mark.parametrize("name", sorted(set(re.findall(r"(?<![/\w])((?:scheduling|campaign)\.[a-z_.]+[a-z])", TEXT))))
def test_a_module_it_names_exists(name: str) -> None:
    assert importlib.import_module(f"sciagent.{name}")


def test_the_constants_have_the_values_of_the_table() -> None:
    listed = rows("Constants")
    assert len(listed) > 15
    for name, module, value, _ in listed:
        there = getattr(importlib.import_module("sciagent." + module.strip("`")), name.strip("`"))
        assert there == eval(value.strip("`"), {}), name


def test_every_constant_in_the_text_exists() -> None:
    named = set(re.findall(r"`([A-Z][A-Z_]+)`", TEXT))
    code = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "sciagent" / "scheduling").rglob("*.py"))
    code += "".join(p.read_text(encoding="utf-8") for p in (ROOT / "sciagent" / "campaign" / "pricing").glob("*.py"))
    assert {name for name in named if not re.search(rf"^(?:\w+, )*{name}(?:, \w+)* = ", code, re.MULTILINE)} == set()


def test_the_numbers_in_the_prose_are_the_constants() -> None:
    from sciagent.scheduling.aims_and_payoff import DRAWS, NODES
    from sciagent.scheduling.dynamic_programme import PRICES, U
    from sciagent.scheduling.law import gaussian_process_chain, rung_hints
    from sciagent.scheduling.rules import priced, warm_up

    flat = re.sub(r"\s+", " ", TEXT)
    for text in (
        f"costs at most {100 * priced.FREE_LIMITS[0]:g} % of the terminal one",
        f"and for everybody at most {100 * priced.FREE_LIMITS[1]:g} % of the budget",
        f"at up to {100 * priced.TRUSTED_LIMITS[0]:g} % and {100 * priced.TRUSTED_LIMITS[1]:g} %",
        f"{100 * warm_up.WARM_UP_SHARE_OF_CANDIDATES:g} % of the candidates go up the whole ladder",
        f"at least {warm_up.MIN_WARM_UP}, and at most {warm_up.MAX_WARM_UP} and {warm_up.EXTRA_PER_PAID_RUNG} more "
        "for each paid rung",
        f"from {priced.MIN_BATCH_VERIFICATIONS} to {priced.MAX_BATCH_VERIFICATIONS} verifications",
        f"{100 * priced.BATCH_SHARE_OF_CANDIDATES:g} % of the candidates if that is more)",
        f"or {100 * priced.BATCH_SHARE_OF_SPEND:g} % of what was spent",
        f"at most {100 * priced.BATCH_SHARE_BELOW_TERMINAL:g} % of what was spent goes to rungs below the terminal one",
        f"of the first {priced.MIN_DECIDED_FOR_UNIT} answers or more, then frozen",
        f"About {100 * priced.LATER_LESSON_SHARE:g} % of the spend",
        f"up to {100 * priced.EARLY_LESSON_SHARE:g} % for a rung that has fewer than {priced.FEW_ANSWERS} answers "
        "beside a terminal one",
        f"cost less than {priced.FEW_ANSWERS_COST:g} verifications together",
        f"until there are {rung_hints.UNTIL} answers",
        f"when {rung_hints.UNTIL} answers are there",
        f"Beyond {gaussian_process_chain.TERMINAL_ROWS} terminal answers",
        f"on {len(U)} values of u and {len(PRICES)} prices",
        f"{DRAWS} common quasi-random draws",
        f"({len(NODES)} nodes)",
    ):
        assert text in flat, text


def test_the_costs_are_those_of_the_benchmark() -> None:
    both = [
        json.loads((ROOT / "benchmarks" / "scheduling" / f"{name}.json").read_text(encoding="utf-8"))["schedulers"]
        for name in ("qm9_min", "qm9_max")
    ]
    listed = rows("What it saves")
    assert [cells[0].strip("`") for cells in listed] == list(OF_SCHEDULERS)
    for name, cells in zip(OF_SCHEDULERS, listed, strict=True):
        costs = [found[name]["cost_to"][mark][0] for found in both for mark in ("0.5", "0.8", "0.9", "0.95")]
        assert cells[1:] == [f"{100 * cost:.1f}" for cost in costs], name


def test_what_is_done_with_four_candidates_is_what_the_programme_says(pictures: ModuleType) -> None:
    said = pictures.priced_examples()
    assert said == FIGURES["price"]
    wanted = [
        [name, f"{100 * chance:g} %", f"{useful:.3f}", does, f"{poor:.3f}", did]
        for name, (chance, useful, does, poor, did) in said.items()
    ]
    assert rows("What that is worth") == wanted


def test_the_figures_in_the_text_are_those_of_the_pictures(pictures: ModuleType) -> None:
    early = [[name, *(f"{n:g}" for n in numbers)] for name, numbers in FIGURES["early"].items()]
    assert rows("What to write") == early
    (_, before), (first, likely), (second, unlikely) = FIGURES["law"]
    flat = re.sub(r"\s+", " ", TEXT)
    assert f"a chance of {before} to lie in the window" in flat
    assert f"the one with {first} eV now has {likely}, the one with {second} eV {unlikely}" in flat
    window, gate = pictures.WINDOW, pictures.GATE
    assert f"a DFT gap of {window[0]} to {window[1]} eV" in flat
    assert f"the gate of the GFN2 rung, {gate[0]} to {gate[1]} eV" in flat
    assert f"after {pictures.N_LEARNT} DFT answers" in flat
    assert f"At the price {pictures.PRICE}" in flat
    lost, hits = FIGURES["lost to the gate"], pictures.Windowed.of(False, False, False).truth.hit.sum()
    assert f"The gate lost {lost} of {hits} hits" in flat


def test_the_reason_it_shows_is_one_that_the_driver_writes() -> None:
    code = (ROOT / "sciagent" / "campaign" / "pricing" / "priced_scheduler.py").read_text(encoding="utf-8")
    for words in ("priced: {what}", "chance of a hit", "index {purchase.index:.3g} at price", "% of the budget"):
        assert words in code


@pytest.mark.parametrize("name", ["scheduling_law", "scheduling_price", "scheduling_recall"])
def test_a_picture_is_there_and_small(name: str, pictures: ModuleType) -> None:
    assert name in pictures.PICTURES and f"]({name}.png)" in TEXT
    assert (ROOT / "docs" / f"{name}.png").stat().st_size < 200_000


def test_the_pages_of_the_readers_lead_here() -> None:
    assert "docs/scheduling.md" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "scheduling.md" in (ROOT / "docs" / "chemist.md").read_text(encoding="utf-8")
