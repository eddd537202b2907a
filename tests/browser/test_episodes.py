"""Proposers and episodes in a real browser: by keyboard, on a tablet, without scripts; what models wrote is text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from sciagent.report.page.html_page import write_episodes, write_report
from sciagent.store.database.ledger import Ledger
from tests.browser.test_report import HOSTILE, Watched, outside
from tests.support.talked import talked

WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def written(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report and the pages of a campaign of which one model tries to act in whatever it writes."""
    folder = tmp_path_factory.mktemp("episodes")
    path = folder / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    ledger = Ledger(str(path), artifacts=folder / "artifacts")
    made = talked(ledger, folder, episodes=8)
    trajectory = made.begin(HOSTILE, 9, opening=HOSTILE)
    made.say(trajectory, 0, HOSTILE, thinking=HOSTILE, content=HOSTILE, seen=HOSTILE + "x" * 500, tool=HOSTILE)
    made.enter(("CC(C)O",), rationale=HOSTILE)
    write_report(ledger, "dyes", folder / "dyes.html")
    write_episodes(ledger, "dyes", folder / "pages")
    ledger.close()
    return folder


@pytest.fixture
def opened(browser: Browser, written: Path, request: pytest.FixtureRequest) -> Iterator[Watched]:
    context = browser.new_context(locale="en-US", **getattr(request, "param", {}))
    yield Watched(context.new_page(), written / "dyes.html")
    context.close()


def unfold(page: Page) -> None:
    page.evaluate("document.querySelectorAll('#episodes details').forEach((one) => { one.open = true; })")


def test_an_episode_opens_by_the_keyboard(opened: Watched) -> None:
    page = opened.page
    episode = page.locator("#episodes details.episode").nth(1)
    thinking = episode.locator("details.said").nth(1)
    assert not thinking.is_visible()
    episode.locator("summary").first.focus()
    page.keyboard.press("Enter")
    expect(episode.locator(".turn")).to_have_count(2)
    expect(thinking).to_be_visible()
    assert "A heteroatom lowers" not in episode.inner_text()
    page.keyboard.press("Tab")  # what it was told
    page.keyboard.press("Tab")  # the thinking of the first turn
    page.keyboard.press("Space")
    expect(thinking).to_contain_text("A heteroatom lowers the gap.", use_inner_text=True)
    assert episode.locator("svg.molecule").count() == 2
    assert opened.complaints == [] and outside(opened.requests) == []


def test_what_a_model_wrote_is_text(opened: Watched) -> None:
    page = opened.page
    unfold(page)
    page.wait_for_timeout(200)
    assert page.title() == "dyes: sciagent report" and opened.complaints == []
    assert page.locator("#episodes img, #finders img").count() == 0
    assert page.locator("#episodes details.episode").first.inner_text().count("onerror=") >= 6


@pytest.mark.parametrize(
    "opened",
    [{"viewport": {"width": w, "height": 1000}} for w in (390, 768, 1280)],
    indirect=True,
    ids=["phone", "tablet", "desk"],
)
def test_nothing_is_wider_than_the_screen(opened: Watched) -> None:
    unfold(opened.page)
    assert opened.page.evaluate(WIDE) <= 0


@pytest.mark.parametrize("opened", [{"color_scheme": "dark"}], indirect=True)
def test_the_lines_of_proposers_have_the_colours_of_the_theme(opened: Watched) -> None:
    line = "getComputedStyle(document.querySelector('#finders svg.chart path[style*=c-passed]')).stroke"
    dark = opened.page.evaluate(line)
    opened.page.emulate_media(color_scheme="light")
    assert dark != opened.page.evaluate(line)


def test_the_pages_read_without_scripts_and_lead_to_each_other(browser: Browser, written: Path) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 768, "height": 1000})
    page: Any = context.new_page()
    page.goto((written / "pages" / "index.html").as_uri())
    assert page.locator("tbody tr").count() == 9 and "9 episodes" in page.inner_text("main")
    page.get_by_role("link", name="Episode 2", exact=True).click()
    assert page.inner_text("h1") == "Episode 2 by beta"
    page.get_by_text("Thinking").first.click()
    assert "A heteroatom lowers the gap." in page.inner_text("main")
    page.get_by_role("link", name="Next").click()
    assert page.inner_text("h1") == "Episode 3 by alpha"
    page.get_by_role("link", name="All episodes").click()
    assert page.url.endswith("index.html")
    context.close()


def test_a_page_of_a_hostile_episode_stays_itself(browser: Browser, written: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    watched = Watched(context.new_page(), written / "pages" / "0009.html")
    assert watched.page.title().startswith("dyes: Episode 9 by </script>")
    assert watched.complaints == [] and outside(watched.requests) == []
    assert watched.page.evaluate(WIDE) <= 0
    context.close()
