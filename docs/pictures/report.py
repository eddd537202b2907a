"""Takes the picture of a report for the docs: python docs/pictures/report.py NAME.report.html docs/report.png

It needs Chromium (`apt-get install chromium`) and the test extra. The picture shows the upper part of the page, 1280
pixels wide, with at most 128 colours, which keeps the file small.
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH = 1280  # pixels
N_COLOURS = 128


def picture(page: Path, height: int) -> Image.Image:
    """Returns a picture of the upper part of a page. height: largest height in pixels."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        shown = min(height, tab.evaluate("document.documentElement.scrollHeight"))
        png = tab.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": shown})
        browser.close()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    return image.quantize(N_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, help="A report.")
    parser.add_argument("picture", type=Path, help="The PNG to write.")
    parser.add_argument("--height", type=int, default=2300)
    given = parser.parse_args()
    picture(given.page, given.height).save(given.picture, optimize=True)
