"""Episodes in the report: what was said and what became of it; bounded, and nothing that a model wrote can act."""

from __future__ import annotations

from pathlib import Path

from sciagent.report.page import episode_transcripts
from sciagent.report.page.html_page import write_episodes
from sciagent.store.campaign_state import proposer_trajectories as trajectories
from sciagent.store.database.ledger import Ledger
from sciagent.store.results.evidence import read_watermark
from tests.report.page.test_html_page import HOSTILE, hostile_elements
from tests.support.pages import Parsed, rendered
from tests.support.reported import Maker
from tests.support.talked import Talker, talked


def selected(made: Maker) -> tuple[int, list[episode_transcripts.ShownEpisode]]:
    with made.ledger.read() as connection:
        return episode_transcripts.selection(connection, made.row)


def test_an_episode_is_shown_turn_by_turn(several: Talker) -> None:
    number, shown = selected(several)
    assert number == 12 and [episode.begun.number for episode in shown] == list(range(12, 0, -1))
    second = shown[-2]
    assert second.begun.proposer == "beta" and second.why == "finished by the model" and second.outcome.turns == 2
    assert second.limits == "8 turns, 4096 sampled tokens, 8192 tokens of context"
    assert [role for role, _ in second.opening] == ["system", "user"] and "between 4 and 4.6" in second.opening[1][1]
    assert (second.tokens, second.seconds, second.trainable) == (300, 3.0, "trainable")
    first, last = second.turns
    assert (first.turn["number"], last.turn["number"]) == (0, 1)
    assert first.forced == 0.25 and first.turn["cost"]["core_seconds"] == 0.5
    assert first.calls[0].name == "propose" and "smiles: " in first.calls[0].arguments
    assert first.calls[0].seen == "new; open" and first.observations == []
    made = first.made[0]
    assert made.proposed.status == "new" and made.drawing.startswith("<svg")
    assert made.proposed.rationale == "a heteroatom"
    assert made.predictions == ["HOMO-LUMO gap 4.9 ± 0.2 eV; r2 answered 4.8 eV (CRPS 0.066 eV)"]
    assert shown[0].turns[0].made[0].predictions[0].endswith("; not answered yet")
    assert shown[-1].trainable == "not trainable: the server returned no tokens"


def test_the_report_shows_them_closed_and_without_scripts(parsed_talks: Parsed) -> None:
    found = parsed_talks
    shown = [a for tag, a in found.elements if tag == "details" and a.get("class") == "episode"]
    assert len(shown) == 12 and all("open" not in a for a in shown)
    for needed in ("12 episodes, the latest first.", "sciagent trace dyes NUMBER", "▲ 1 hit", "A heteroatom lowers"):
        assert needed in found.text, needed


def test_a_script_is_no_episode(told: Maker, parsed: Parsed) -> None:
    assert selected(told) == (0, []) and "Episodes" not in parsed.text


def test_of_many_the_best_and_the_latest_are_shown(own_ledger: Ledger, tmp_path: Path) -> None:
    made = talked(own_ledger, tmp_path, episodes=40, turns=1)
    number, shown = selected(made)
    numbers = [episode.begun.number for episode in shown]
    assert number == 40 and len(numbers) == episode_transcripts.MAX_LATEST + episode_transcripts.MAX_OF_BEST
    assert numbers == sorted(numbers, reverse=True)
    assert set(range(40, 40 - episode_transcripts.MAX_LATEST, -1)) <= set(numbers)
    assert (
        sum(episode.outcome.hits > 0 for episode in shown if episode.begun.number <= 28)
        >= episode_transcripts.MAX_OF_BEST - 2
    )
    assert "20 of 40 episodes: those behind the best candidates, and the latest." in Parsed(rendered(made)).text


def test_a_page_stays_a_page_however_long_a_model_talks(own_ledger: Ledger, tmp_path: Path) -> None:
    made = Talker(own_ledger, tmp_path)
    for number in range(1, 13):
        trajectory = made.begin("m", number, opening="o" * 30_000)
        for turn in range(episode_transcripts.MAX_TURNS + 2 if number == 12 else 25):
            made.say(trajectory, turn, "C" * 20_000, thinking="t" * 50_000, content="c" * 50_000, seen="s" * 20_000)
    with made.ledger.begin() as connection:
        for n in range(episode_transcripts.MAX_PROPOSALS + 10):
            made.propose(connection, "x" * 5000, "refused", reason="unparsable", detail=str(n))
    html = rendered(made)
    assert len(html.encode()) < 1_600_000
    number, shown = selected(made)
    assert number == 12 and 1 < len(shown) < 12
    longest = next(episode for episode in shown if episode.begun.number == 12)
    assert len(longest.turns) == episode_transcripts.MAX_TURNS
    assert longest.turns[0].thinking.endswith("… (50000 characters)")
    assert "2 further turns not shown here." in Parsed(html).text


def test_what_a_model_writes_cannot_act(own_ledger: Ledger, tmp_path: Path) -> None:
    made = Talker(own_ledger, tmp_path)
    trajectory = made.begin(HOSTILE[:100], 1, opening=HOSTILE)
    made.say(
        trajectory, 0, HOSTILE, thinking=HOSTILE, content=HOSTILE, seen=HOSTILE, tool=HOSTILE, ok=False, policy=HOSTILE
    )
    made.say(trajectory, 1, "C", content='{"name": "' + HOSTILE + '"}', seen=HOSTILE)
    made.enter(("CCO",), rationale=HOSTILE, predicted={HOSTILE: HOSTILE, "homo_lumo_gap": {"value": HOSTILE}})
    with made.ledger.begin() as connection:
        made.propose(connection, HOSTILE, "refused", reason=HOSTILE[:60], operation=HOSTILE[:100])
        trajectories.end(connection, trajectory, HOSTILE)
    found = Parsed(rendered(made))
    assert hostile_elements(found) == [] and found.text.count("alert(2)") > 12  # it is all shown, as text
    write_episodes(made.ledger, "dyes", tmp_path / "pages")
    for path in (tmp_path / "pages").iterdir():
        one = Parsed(path.read_text(encoding="utf-8"))
        assert hostile_elements(one) == [] and one.scripts == []
        assert "alert(2)" in one.text or path.name == "index.html"


def test_turns_of_odd_shape_are_shown_all_the_same(own_ledger: Ledger, tmp_path: Path) -> None:
    """A client of MCP has no messages; a script's observations are no messages either."""
    made = Maker(own_ledger, tmp_path)
    with made.ledger.begin() as connection:
        id_ = trajectories.open_(connection, made.row.id, 1, proposer="mcp", settings={"client": "desk"}, seed=1)
        calls = [{"tool": "propose", "arguments": "[1, 2"}, {"tool": "best", "arguments": {"n": 3}}]
        new = trajectories.NewTurn(0, {}, calls, [{"status": "new"}], {}, "desk")
        trajectories.write_turn(connection, id_, new, read_watermark(connection))
    _, [shown] = selected(made)
    [turn] = shown.turns
    assert [(c.name, c.arguments, c.seen) for c in turn.calls] == [("propose", "[1, 2", ""), ("best", "n: 3", "")]
    assert turn.observations == ['{"status": "new"}'] and turn.forced is None and shown.trainable != "trainable"


def test_a_turn_that_verified_nothing_is_shown(own_ledger: Ledger, tmp_path: Path) -> None:
    made = talked(own_ledger, tmp_path, episodes=1, turns=1)
    trajectory = made.begin("alpha", 2)
    made.say(trajectory, 0, "", tool="best", seen="c1ccccc1")
    text = Parsed(rendered(made)).text
    assert "0.5 core-seconds" in text and text.count("core-seconds \u00b7 trainable") <= 1
