"""The report in a real browser: nothing goes wrong, nothing goes out, the table sorts, molecules turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from sciagent.report.page.html_page import write_report
from sciagent.store.database.ledger import Ledger
from tests.support.elsewhere import until
from tests.support.reported import Maker, dyes

HOSTILE = '</script><script>document.title="taken"</script><img src=x onerror=\'document.title="taken"\'>'


@pytest.fixture(scope="module")
def report(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a campaign whose description, rationales and unreadable texts try to act."""
    folder = tmp_path_factory.mktemp("report")
    path = folder / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    ledger = Ledger(str(path), artifacts=folder / "artifacts")
    made: Maker = dyes(ledger, folder, description=HOSTILE)
    made.enter(tuple("C" * n for n in range(3, 33)), rationale=HOSTILE)
    with ledger.begin() as connection:
        made.propose(connection, HOSTILE, "refused", reason="unparsable", detail=HOSTILE)
    write_report(ledger, "dyes", folder / "dyes.html")
    ledger.close()
    return folder / "dyes.html"


class Watched:
    """A page, what it asked for and what it complained of."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(path.as_uri())


@pytest.fixture
def opened(browser: Browser, report: Path, request: pytest.FixtureRequest) -> Iterator[Watched]:
    context = browser.new_context(locale="en-US", **getattr(request, "param", {}))
    yield Watched(context.new_page(), report)
    context.close()


def outside(requests: list[str]) -> list[str]:
    return [url for url in requests[1:] if not url.startswith(("data:", "blob:"))]


def first_column(page: Page, n: int) -> list[str]:
    return page.locator(f"#candidates tbody td:nth-child({n})").all_inner_texts()


def test_nothing_complains_and_nothing_goes_out(opened: Watched) -> None:
    assert opened.page.title() == "dyes: sciagent report"
    assert opened.requests[0].endswith("dyes.html") and outside(opened.requests) == []
    assert opened.complaints == []


def test_the_table_sorts_pages_and_searches(opened: Watched) -> None:
    page = opened.page
    assert first_column(page, 1)[:3] == ["1", "2", "3"] and len(first_column(page, 1)) == 25
    gap = page.get_by_role("button", name="HOMO-LUMO gap / eV r2")
    gap.click()
    assert [float(x.split()[0]) for x in first_column(page, 5)[:5]] == [4.9, 4.55, 4.3, 4.1, 3.5]
    assert first_column(page, 5)[5] == "–"  # what is unknown comes last, whichever way
    gap.press("Enter")
    assert [float(x.split()[0]) for x in first_column(page, 5)[:5]] == [3.5, 4.1, 4.3, 4.55, 4.9]
    assert page.locator("th[aria-sort=ascending]").count() == 1
    page.get_by_role("button", name="Next").click()
    assert len(first_column(page, 1)) == 12 + 30 - 25
    page.get_by_label("Search").fill("benzene is not a SMILES")
    assert first_column(page, 1) == []
    page.get_by_label("Search").fill("UHOVQNZJYSORNB")  # benzene's InChIKey
    assert page.locator("#candidates tbody code").all_inner_texts() == ["c1ccccc1"]
    assert page.locator("#candidates tbody svg.molecule").count() == 1
    assert opened.complaints == []


def pixels(page: Page) -> bytes:
    return page.locator("#viewer-box").screenshot()


@pytest.mark.parametrize("opened", [{"viewport": {"width": 480, "height": 360}}], indirect=True)  # drawn by software
def test_a_molecule_is_shown_in_three_dimensions_and_turns_by_the_keyboard(opened: Watched) -> None:
    page = opened.page
    assert page.evaluate("typeof window.$3Dmol") == "undefined"  # not before anybody asks
    button = page.locator("button.view3d").first
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer-box[data-ready]")
    assert page.locator("#viewer-box canvas").count() >= 1
    assert page.locator("#viewer-title").inner_text() == "c1ccccc1"
    until(lambda: colours(page) > 20)  # more than a plain ground
    before = pixels(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    until(lambda: pixels(page) != before)
    page.keyboard.press("Escape")
    assert not page.locator("#viewer").is_visible()
    page.locator("button.view3d").nth(1).click()  # another one in the same viewer
    page.wait_for_timeout(300)
    assert outside(opened.requests) == []
    assert [c for c in opened.complaints if "GPU stall" not in c and "WebGL" not in c] == []


def colours(page: Page) -> int:
    """How many different colours the viewer shows, counted by the browser from a screenshot of it."""
    import base64

    image = base64.b64encode(pixels(page)).decode()
    other = page.context.new_page()
    count = """async (data) => {
        const image = new Image();
        image.src = "data:image/png;base64," + data;
        await image.decode();
        const canvas = new OffscreenCanvas(image.width, image.height);
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        const found = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
        return new Set(found).size;
    }"""
    found = int(other.evaluate(count, image))
    other.close()
    return found


@pytest.mark.parametrize(
    "opened",
    [{"viewport": {"width": w, "height": 1000}} for w in (390, 768, 1280)],
    indirect=True,
    ids=["phone", "tablet", "desk"],
)
def test_the_page_is_never_wider_than_the_screen(opened: Watched) -> None:
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert opened.page.evaluate(wide) <= 0


GROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("opened", [{"color_scheme": "dark"}], indirect=True)
def test_dark_is_dark_and_print_is_white(opened: Watched) -> None:
    assert opened.page.evaluate(GROUND) == "rgb(17, 21, 27)"
    bar = "getComputedStyle(document.querySelector('svg.chart path[style*=c-passed]')).fill"
    dark = opened.page.evaluate(bar)
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate(GROUND) == "rgb(255, 255, 255)"
    assert opened.page.evaluate(bar) != dark
    assert not opened.page.locator("nav").is_visible()


def test_without_scripts_it_still_reads(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page: Any = context.new_page()
    page.goto(report.as_uri())
    assert "2 hits" in page.inner_text("main") and len(first_column(page, 1)) == 25
    context.close()
