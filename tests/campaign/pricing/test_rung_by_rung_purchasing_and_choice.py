"""The rule that docs/scheduling.md adds, as one module and one entry of a list, is one that a campaign can name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, block_with
from tests.support.campaigns import environment

PAGE = ROOT / "docs" / "scheduling.md"
CAMPAIGN = """
import json

from sciagent.scheduling import rules
from newest import NewestSpec

rules.SCHEDULERS += (NewestSpec,)  # the entry of the list

import sqlalchemy as sa

import sciagent
from sciagent.campaign.file.campaign_spec import campaign_schema
from sciagent.errors import SpecError
from sciagent.store.database import tables as t


@sciagent.verifier(measures="toy_energy", unit="kJ/mol", cost=0.01)
def toy_energy(molecule):
    return molecule.heavy_atoms, 0.25


def campaign(**scheduler):
    return sciagent.Campaign(
        "toys",
        objectives=[{"property": "toy_energy", "window": [1, 9], "unit": "kJ/mol"}],
        ladder=[{"rung": "toy", "verifier": toy_energy}],
        goal={"kind": "hits"},
        budget={"core_seconds": 60},
        proposer={"kind": "screen", "file": "molecules.csv"},
        scheduler={"kind": "newest", **scheduler},
        workers=1,
        ledger="toys.db",
    )


faults = ""
try:
    campaign(skipt=2)
except SpecError as error:
    faults = str(error)
toys = campaign(skipped=2)
status = toys.run(progress=False)
with toys.ledger.store.read() as connection:
    same = t.decision.c.candidate_id == t.candidate.c.id
    query = sa.select(t.candidate.c.text, t.decision.c.why).join(t.decision, same)
    rows = connection.execute(query.where(t.decision.c.chooser == "newest").order_by(t.decision.c.id))
    bought = [tuple(row) for row in rows]
keys = campaign_schema()["$defs"]["NewestSpec"]["properties"]
print(json.dumps({"faults": faults, "bought": bought, "why": status.stop_reason, "keys": list(keys)}))
"""


def test_a_rule_is_a_module_and_an_entry_of_the_list(tmp_path: Path) -> None:
    (tmp_path / "newest.py").write_text(block_with("class NewestSpec", "python", PAGE).text, encoding="utf-8")
    (tmp_path / "run.py").write_text(CAMPAIGN, encoding="utf-8")
    (tmp_path / "molecules.csv").write_text("smiles\nCO\nCCO\nCCCO\nCCCCO\nCCCCCO\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["keys"] == ["kind", "skipped"]
    assert 'scheduler.skipt: unknown key; did you mean "skipped"?' in answer["faults"]
    assert answer["bought"] == [[text, "newest: toy"] for text in ("CCCCCO", "CCCCO", "CCCO")]
    assert answer["why"].startswith("nothing is left to do; 2 candidates were not promoted"), answer["why"]
