"""Whatever stands in a file, a campaign ends, and every bad line has a named reason."""

from __future__ import annotations

import time
from pathlib import Path

import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.states_and_needs import CampaignState
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger

# what stands in the file, the reason, and whether it is refused as a proposal or by the checks
BAD = [
    ("C.[Na+].[Cl-]", Reason.MULTIPLE_FRAGMENTS, "proposal"),
    ("CCO.CCN", Reason.MULTIPLE_FRAGMENTS, "proposal"),
    ("C[CH2]", Reason.RADICAL, "checks"),
    ("[O][O]", Reason.RADICAL, "checks"),
    ("C(C)(C)(C)(C)C", Reason.VALENCE, "proposal"),
    ("O(C)(C)C", Reason.VALENCE, "proposal"),
    ("", Reason.EMPTY, "proposal"),
    ('"  "', Reason.EMPTY, "proposal"),
    ("CC\0O", Reason.UNPARSABLE, "proposal"),
    ("C" * 130, Reason.TOO_LARGE, "checks"),
    ("C" * 400, Reason.TOO_LARGE, "proposal"),
    ("C" * 5000, Reason.TOO_LONG, "proposal"),
    ("[Xx]", Reason.UNKNOWN_ELEMENT, "proposal"),
    ("[Zz]", Reason.UNKNOWN_ELEMENT, "proposal"),
    ("[U]", Reason.ELEMENT, "checks"),
    ("C[Se]C", Reason.ELEMENT, "checks"),
    ("C(" * 120 + "C" + ")" * 120, Reason.TOO_DEEP, "proposal"),
    ("nan", Reason.UNPARSABLE, "proposal"),
    ("1e5", Reason.UNPARSABLE, "proposal"),
    ("c1cccc1", Reason.KEKULIZATION, "proposal"),
    ("C1CC", Reason.UNPARSABLE, "proposal"),
    ("*C", Reason.WILDCARD, "proposal"),
    ("CC[N+](C)(C)C", Reason.CHARGE, "checks"),
    ("C[C@H](F)C(Cl)F", Reason.UNDEFINED_STEREO, "checks"),
    ("FC=CF", Reason.UNDEFINED_STEREO, "checks"),
    ("[2H]C", Reason.ISOTOPE, "checks"),
    ("'; DROP TABLE evidence; --", Reason.UNPARSABLE, "proposal"),
    ("<script>alert(1)</script>", Reason.UNPARSABLE, "proposal"),
    ("$(rm -rf ~)", Reason.UNPARSABLE, "proposal"),
    ("../../etc/passwd", Reason.UNPARSABLE, "proposal"),
]
SPEC = """
campaign: bad-inputs
subject: molecule
objectives: [{property: heavy_atoms, max: 5}]
ladder:
  - {verifier: molecule.checks, settings: {descriptors: [heavy_atoms], undefined_stereo: refuse}}
goal: {kind: hits}
budget: {core_seconds: 1000}
proposer: {kind: screen, file: seeds.csv, batch: 7}
scheduler: {kind: exhaustive}
"""


def test_each_bad_line_gets_its_reason_and_the_good_ones_go_on(tmp_path: Path) -> None:
    lines = [text for text, _, _ in BAD]
    (tmp_path / "seeds.csv").write_text(
        "smiles,name\n" + "\n".join(f"{x},x" for x in [*lines, "CC", "CO", "OC"]) + "\n"
    )
    ledger = Ledger(str(tmp_path / "sciagent.db"))
    built = create_or_open(ledger, parse_spec(SPEC, base=tmp_path), SPEC, "test").built
    begun = time.perf_counter()
    with Driver(built) as driver:
        assert driver.run() is CampaignState.FINISHED
    assert time.perf_counter() - begun < len(BAD)  # a second each, process start included
    with ledger.read() as connection:
        p, cc = t.proposal.c, t.campaign_candidate.c
        query = (
            sa.select(p.status, p.reason, cc.reason, cc.is_hit)
            .outerjoin(t.campaign_candidate, cc.proposal_id == p.id)
            .order_by(p.id)
        )
        rows = connection.execute(query).all()
    assert len(rows) == len(BAD) + 3
    for (text, reason, where), (status, refused, dropped, _) in zip(BAD, rows, strict=False):
        found = (refused, "proposal") if status == "refused" else (dropped, "checks")
        assert found == (reason, where), text
    assert [(status, hit) for status, _, _, hit in rows[-3:]] == [("new", True), ("new", True), ("duplicate", None)]
    ledger.close()
