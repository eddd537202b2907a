"""A subject decides which keys a campaign file may have."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.file.subject_and_safety import StandardiseSpec
from sciagent.errors import SpecError

CRYSTALS = """\
campaign: salts
subject: crystal
objectives: [{property: density, min: 3, unit: g/mL}]
ladder: [{rung: checks, verifier: crystal.checks}]
goal: {kind: hits}
budget: {proposals: 10}
proposer: PROPOSER
"""


def read(folder: Path, proposer: str, more: str = "") -> object:
    (folder / "seeds.csv").write_text("structure\nrocksalt: Na Cl\n", encoding="utf-8")
    (folder / "cells").mkdir(exist_ok=True)
    return parse_spec(CRYSTALS.replace("PROPOSER", proposer) + more, base=folder)


@pytest.mark.parametrize("source", ["seeds.csv", "cells"])
def test_crystals_come_from_a_table_or_a_folder(source: str, tmp_path: Path) -> None:
    read(tmp_path, f"{{kind: screen, file: {source}}}")


@pytest.mark.parametrize(
    ("proposer", "more", "fault"),
    [
        ("{kind: screen, file: seeds.smi}", "", "no table of crystals"),
        ("{kind: screen, file: none.cif}", "", "does not exist"),
        ("{kind: evolve, seeds: seeds.csv, max_heavy_atoms: 9}", "", "no effect on crystals"),
        ("{kind: enumerate, scaffold: 'C[*:1]', groups: {1: [O]}}", "", "combines molecules"),
        (
            "{kind: several, proposers: {a: {kind: screen, file: x.sdf}, b: {kind: screen, file: seeds.csv}}}",
            "",
            "table",
        ),
        ("{kind: screen, file: seeds.csv}", "standardise: parent\n", "taken as they are"),
    ],
)
def test_what_does_not_fit_crystals_is_said(proposer: str, more: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=fault):
        read(tmp_path, proposer, more)


def test_a_number_of_isomers_without_enumeration_has_no_effect_and_is_refused() -> None:
    with pytest.raises(ValidationError, match="no effect without enumeration"):
        StandardiseSpec.model_validate({"most": 4})
    stated = StandardiseSpec.model_validate({"stereo": "enumerate", "most": 4})
    assert stated.model_dump(mode="json") == {"fragments": "parent", "stereo": "enumerate", "most": 4}
    assert StandardiseSpec.model_validate({}).model_dump() == {"fragments": "parent"}, "unset keys enter no identity"
