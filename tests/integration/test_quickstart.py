"""`campaigns/quickstart.yaml`, as it is but for a smaller budget; whole in the slow test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.campaigns import sciagent

CAMPAIGNS = Path(__file__).parents[2] / "campaigns"


def test_the_quickstart_in_small_reaches_dft(tmp_path: Path) -> None:
    text = (CAMPAIGNS / "quickstart.yaml").read_text()
    assert "proposals: 200" in text and "rungs: {dft: 10}" in text
    (tmp_path / "quickstart.yaml").write_text(
        text.replace("proposals: 200", "proposals: 20").replace("rungs: {dft: 10}", "rungs: {dft: 1}")
    )
    shutil.copy(CAMPAIGNS / "quickstart_seeds.csv", tmp_path)
    done = sciagent("run", "quickstart.yaml", cwd=tmp_path, expect=None)
    assert done.returncode in (0, 3), done.stderr
    status = sciagent("status", "--json", cwd=tmp_path)
    _, checks, xtb, dft = status["rungs"]
    assert status["proposals"] == checks["done"] == 20 and xtb["done"] >= 16
    assert dft["jobs"] == 1 and dft["errors"] == 0
    best = sciagent("best", "-n", "1", "--json", cwd=tmp_path)[0]
    assert best["values"]["homo_lumo_gap"]["level"].startswith("PBE0/def2-SVP")


@pytest.mark.slow
def test_the_quickstart_finds_a_hit_that_is_no_seed(tmp_path: Path) -> None:
    sciagent("run", str(CAMPAIGNS / "quickstart.yaml"), cwd=tmp_path, timeout=900)
    status = sciagent("status", "--json", cwd=tmp_path)
    *_, xtb, dft = status["rungs"]
    assert status["proposals"] >= 150 and xtb["done"] >= 40 and dft["done"] >= 6
    hits = [b for b in sciagent("best", "-n", "20", "--json", cwd=tmp_path) if b["hit"]]
    assert any(not b["in_seeds"] for b in hits)
