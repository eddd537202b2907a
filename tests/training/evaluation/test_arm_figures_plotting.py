from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sciagent.errors import UsageError
from sciagent.training.evaluation.arm_figures import check_plot, curve, draw
from tests.training.evaluation.conftest import RECIPE
from tests.training.evaluation.test_run_evaluation import evaluated


def test_the_curve_ends_at_the_mean_number_of_hits(recipe: Path, tmp_path: Path) -> None:
    recipe.write_text(RECIPE.replace("[1, 2]", "[1]").replace("verifications: 5", "verifications: 3"), encoding="utf-8")
    answer, _ = evaluated(recipe)
    mean, low, high = curve(answer, "random")
    assert mean[0] == 0 and mean[-1] == pytest.approx(answer.arms["random"].hits / 2)
    assert (np.diff(mean) >= 0).all() and (low <= mean).all() and (mean <= high).all()
    draw(answer, tmp_path / "hits.svg")
    assert "verifications" in (tmp_path / "hits.svg").read_text(encoding="utf-8")
    with pytest.raises(UsageError, match="png"):
        check_plot(tmp_path / "hits.doc")
