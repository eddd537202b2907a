"""Proposers: the files and servers that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.errors import SpecError
from sciagent.inputs.yaml_validation import file_hash
from tests.campaign.fake_verifiers import CAMPAIGN, changed, make_folder  # noqa: F401


@pytest.mark.parametrize("size", [0, 1, (1 << 18) + 1])
def test_file_hash_reads_the_whole_file(size: int, tmp_path: Path) -> None:
    import hashlib

    (tmp_path / "f").write_bytes(b"x" * size)
    assert file_hash(tmp_path / "f") == hashlib.sha256(b"x" * size).hexdigest()


@pytest.mark.parametrize("name", ["a.csv", "a.smi", "a.SDF", "a.csv.gz", "deep/a.smi.gz"])
def test_a_screen_takes_tables_of_molecules(name: str, folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / name).write_text("smiles\nC\n")
    spec = changed(folder, ("kind: evolve\n  seeds: seeds.csv", f"kind: screen\n  file: {name}"))
    assert spec.proposer.files() == {("file",): name}


def test_a_proposer_fits_the_subject(folder: Path) -> None:
    with pytest.raises(SpecError, match="no subject; did you mean"):
        changed(folder, ("subject: molecule", "subject: crystals"))
    with pytest.raises(SpecError, match="is for a molecule, not a crystal"):
        changed(folder, ("subject: molecule", "subject: crystal"))


@pytest.mark.parametrize(
    ("proposer", "wrong"),
    [
        ("{kind: llm, model: m, tool_choice: required}", "tool_choice"),
        ("{kind: llm, model: m, endpoint: 'http://a/v1', structured: true, tool_choice: required}", "tool_choice"),
        ("{kind: llm, model: m, logprobs: raw}", "logprobs"),
        ("{kind: llm, model: m, endpoint: 'http://a/v1', tool_choice: required, logprobs: raw}", None),
        ("{kind: llm, model: m, endpoint: 'http://a/v1', strict: false}", None),
        ("{kind: llm, model: m, endpoint: 'http://a/v1', tool_choice: required, strict: false}", "strict"),
        ("{kind: llm, model: m, endpoint: 'http://a/v1', structured: true, strict: false}", "strict"),
        ("{kind: llm, model: m, strict: false}", "strict"),
        ("{kind: llm, model: m, endpoint: 'http://[a/v1'}", "endpoint"),
        ("{kind: llm, model: m, mcp: {lit: {command: [a], tools: [search]}}}", "structured"),
        ("{kind: llm, model: m, structured: false, mcp: {lit: {command: [a], tools: [search]}}}", None),
    ],
)
def test_options_of_a_model_that_exclude_each_other(folder: Path, proposer: str, wrong: str | None) -> None:
    before, _, after = CAMPAIGN.partition("proposer:")
    text = f"{before}proposer: {proposer}\n" + after[after.index("scheduler:") :]
    if wrong is None:
        assert parse_spec(text, base=folder).proposer.kind == "llm"
        return
    with pytest.raises(SpecError, match=rf"proposer(\.llm)?\.{wrong}: "):
        parse_spec(text, base=folder)
