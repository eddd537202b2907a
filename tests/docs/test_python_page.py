"""The notebook's page is run as it stands, and the README's campaign in a real Jupyter kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.pages import ROOT, blocks, campaigns
from tests.support.campaigns import environment

PAGE, README = ROOT / "docs" / "python.md", ROOT / "README.md"
CELLS = (
    """\
from sciagent import Campaign, Ledger
campaign = Campaign.from_yaml("my-gaps.yaml")
status = campaign.run()
best = campaign.best(10)
frame = campaign.candidates().to_pandas()
told = campaign.explain("O=Cc1ccccc1")
campaign.add(["CC=O"], reason="the smallest of them")
campaign.run()
gaps = Ledger("sciagent.db").evidence(property="homo_lumo_gap").to_pandas()
assert len(frame) == 4 and len(gaps) == 5 and best[0].hit""",
    "best",
    """\
import sciagent
@sciagent.verifier(measures="notebook_mass", unit="g/mol", cost=0.01)
def notebook_mass(molecule):
    from rdkit.Chem.Descriptors import MolWt
    return MolWt(molecule.mol), 0.01
masses = Campaign("masses", objectives=[{"property": "notebook_mass", "max": 60, "unit": "g/mol"}],
    ladder=[{"verifier": notebook_mass}], goal={"kind": "hits"}, budget={"proposals": 4},
    proposer={"kind": "screen", "file": "my-molecules.csv"})
assert masses.run().hits == 1""",
)


def test_the_page_runs_from_top_to_bottom(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n\n".join(block.text for block in blocks("python", PAGE)))
    done = subprocess.run(
        [sys.executable, script.name], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'Campaign(...): objectives[0].propety: unknown key; did you mean "property"?' in done.stdout
    assert (tmp_path / "small-gaps.report.html").exists()


def test_the_campaign_of_the_readme_runs_in_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [campaign] = [block for block in campaigns(README) if "my-gaps" in block.text]
    (tmp_path / "my-gaps.yaml").write_text(campaign.text)
    (tmp_path / "my-molecules.csv").write_text(blocks("csv", README)[0].text)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    ran, shown, masses = notebook.cells
    assert len(CELLS[0].splitlines()) == 10
    [progress, again] = [one["data"]["text/html"] for one in ran.outputs]
    assert "my-gaps: finished" in progress and "5 candidates" in again
    assert shown.outputs[0]["data"]["text/html"].count("<svg") == 4
    assert "masses: finished" in masses.outputs[0]["data"]["text/html"]
