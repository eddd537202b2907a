"""The report's file and the pages of the episodes: whole or not at all, never in the campaign's way, and linked."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from sciagent.errors import UsageError
from sciagent.report.page.html_page import (
    GrowingReport,
    checked_folder,
    checked_report_path,
    replace_text,
    write_episodes,
    write_report,
)
from sciagent.store.database.ledger import Ledger
from tests.support.pages import Parsed
from tests.support.reported import Maker
from tests.support.talked import talked


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path, ended = tmp_path / "r.html", threading.Event()
    texts = [c * 300_000 for c in "ab"]
    replace_text(path, texts[0])

    def write() -> None:
        for i in range(40):
            replace_text(path, texts[i % 2])
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not ended.is_set():
        assert path.read_text() in texts
    writer.join()
    assert [one.name for one in tmp_path.iterdir()] == ["r.html"]


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    replace_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        replace_text(path, "\ud800")
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["report.md", "missing/report.html", "report"])
def test_a_name_that_will_not_do_is_refused_before_anything_runs(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"html|folder"):
        checked_report_path(tmp_path / name)


def test_it_grows_while_the_campaign_runs_and_is_written_at_the_end(told: Maker, tmp_path: Path) -> None:
    path = tmp_path / "dyes.html"
    growing = GrowingReport(told.ledger, "dyes", path, seconds=0.0)
    growing.step()
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        growing.step()
        time.sleep(0.02)
    first = path.stat().st_mtime_ns
    growing.finish()
    assert growing.fault is None and path.stat().st_mtime_ns > first
    assert "dyes" in path.read_text(encoding="utf-8")


def test_not_more_often_than_agreed(told: Maker, tmp_path: Path) -> None:
    path = tmp_path / "dyes.html"
    growing = GrowingReport(told.ledger, "dyes", path, seconds=3600.0)
    for _ in range(1000):
        growing.step()
    assert not path.exists()


def test_a_report_that_fails_is_told_and_stops_nothing(told: Maker, tmp_path: Path) -> None:
    growing = GrowingReport(told.ledger, "dyes", tmp_path / "gone" / "dyes.html")
    growing.finish()
    assert growing.fault is not None and "FileNotFoundError" in growing.fault


def test_an_unknown_campaign_is_named(told: Maker, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="dyez"):
        write_report(told.ledger, "dyez", tmp_path / "x.html")


def test_all_episodes_have_pages_that_lead_to_each_other(own_ledger: Ledger, tmp_path: Path) -> None:
    made = talked(own_ledger, tmp_path, episodes=3, turns=1)
    folder = tmp_path / "pages"
    assert write_episodes(made.ledger, "dyes", folder) == 3
    names = {path.name for path in folder.iterdir()}
    assert names == {"index.html", "0001.html", "0002.html", "0003.html"}
    reached, todo = set(), ["index.html"]
    while todo:
        name = todo.pop()
        reached.add(name)
        found = Parsed((folder / name).read_text(encoding="utf-8"))
        links = [a["href"] or "" for tag, a in found.elements if tag == "a"]
        todo += [one for one in links if not one.startswith("#") and one not in reached]
        assert [a for tag, a in found.elements if a.get("src") or tag == "script"] == []
    assert reached == names
    listed = Parsed((folder / "index.html").read_text(encoding="utf-8")).text
    assert "3 episodes" in listed and "Episode 3" in listed


def test_a_campaign_without_episodes_says_so(told: Maker, tmp_path: Path) -> None:
    assert write_episodes(told.ledger, "dyes", tmp_path / "pages") == 0
    assert "No model and no client" in (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")


def test_a_folder_that_will_not_do_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("file", "missing/pages"):
        with pytest.raises(UsageError, match="folder"):
            checked_folder(tmp_path / name)
