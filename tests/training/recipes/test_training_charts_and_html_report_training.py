"""The page of a training run."""

from __future__ import annotations

from pathlib import Path

from sciagent.training.recipes.training_charts_and_html_report import curve_of, write_training_report
from tests.report.trained_steps import stage, step


def test_the_page_shows_stages_and_curves(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text(f"{step(1).model_dump_json()}\n{step(2).model_dump_json()}\n" + '{"step": 3, "lo')
    run = curve_of("sft", metrics)
    assert [each.step for each in run.steps] == [1, 2], "a line that a kill has cut is left out"
    worse = stage("grpo", difference=(-0.2, -0.3, -0.1), taken=False, told=("worse: <b>0.1</b> hits",))
    page = write_training_report(tmp_path, "small", [run], [stage("sft"), worse]).read_text()
    assert "-0.2" in page and "(-0.3 to -0.1)" in page and "not taken over" in page
    assert "&lt;b&gt;" in page and "<b>0.1" not in page and page.count("<svg") == 3
    empty = write_training_report(tmp_path, "small", [curve_of("sft", tmp_path / "nothing")]).read_text()
    assert "No training step has been taken yet" in empty
