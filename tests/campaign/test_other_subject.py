"""A subject of another package runs a campaign to a report: nothing in the platform asks what the candidates are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sciagent import Campaign
from tests.support.plugins import installed

CAMPAIGN = """\
campaign: vowels
subject: word
seed: 3
objectives: [{property: vowels, min: 4}]
ladder: [{rung: count, verifier: word.vowels}]
goal: {kind: hits, count: 3}
budget: {proposals: 400}
proposer: {kind: evolve, seeds: words.csv}
scheduler: {kind: priced}
workers: 1
"""
ROOT = Path(__file__).parents[2]
ASKS = re.compile(r"""(kind|subject)["']?\]?\s*(==|!=|in)\s*\(?["'](molecule|crystal)["']""")


@pytest.fixture(scope="module", autouse=True)
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with installed("words", tmp_path_factory.mktemp("site")):
        yield


def test_words_are_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.csv").write_text("word\nlepton\nquark\nboson\nNot a word\n", encoding="utf-8")
    Path("vowels.yaml").write_text(CAMPAIGN, encoding="utf-8")
    campaign = Campaign.from_yaml("vowels.yaml")
    campaign.run()
    best = campaign.best(3)
    assert all(candidate.hit and candidate.kind == "word" and candidate.smiles is None for candidate in best)
    assert all(sum(letter in "aeiou" for letter in candidate.text) >= 4 for candidate in best)
    explained = campaign.explain(best[0].text)
    assert explained.key == best[0].key
    page = campaign.report().path.read_text(encoding="utf-8")
    assert best[0].text in page
    assert campaign.verify("aeiou").verdict == "pass"
    assert campaign.verify("AEIOU").reason == "unparsable"


def test_only_subjects_and_verifiers_ask_what_a_candidate_is() -> None:
    asking = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "sciagent").rglob("*.py")
        if "chemistry/subjects" not in str(path)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ASKS.search(line)
    ]
    assert asking == []
