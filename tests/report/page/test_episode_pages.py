"""A page for each episode, and the links between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.errors import UsageError
from sciagent.report.page.episode_pages import checked, write_episodes
from sciagent.store.database.ledger import Ledger
from tests.support.pages import Parsed
from tests.support.reported import Maker
from tests.support.talked import talked


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
            checked(tmp_path / name)
