"""The campaigns of a benchmark of proposers: files and a ledger in one folder, run in this process, resumed, read.

Each task, proposer and seed is a campaign with one fast rung, so that it is resumed, reported and exported like any
other. A call is a molecule that the rung has scored. `sciagent bench pmo` and `sciagent bench leads` share this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sciagent.api.campaign import Campaign, LedgerView, yaml_of
from sciagent.errors import CampaignError, SpecError, UsageError
from sciagent.inputs.yaml_document import read, read_text

Call = TypeVar("Call")
"""The record of a scored molecule that a benchmark keeps."""


class BenchmarkFolder:
    """The folder of a benchmark, with the files of its campaigns and their ledger."""

    def __init__(self, folder: Path, database: str) -> None:
        """database: name of the ledger's file."""
        self._folder = folder
        self._database = database

    def put_molecules(self, name: str, smiles: Sequence[str]) -> None:
        """Writes a file of molecules that campaign files name."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_text("\n".join([*smiles, ""]), encoding="utf-8")

    def calls(
        self, spec: Mapping[str, Any], wanted: int, read_calls: Callable[[Campaign], Sequence[Call]]
    ) -> tuple[Call, ...]:
        """Returns the first `wanted` calls of a campaign, which is run to its end unless it has as many already.

        spec: the campaign file. read_calls: returns the calls that a campaign has, in their order. Raises
        KeyboardInterrupt if the campaign was stopped, UsageError, SpecError and CampaignError.
        """
        name = spec["campaign"]
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{name}.yaml"
        file.write_text(yaml_of(spec), encoding="utf-8")
        with LedgerView(self._folder / self._database, create=True) as ledger:
            campaign = Campaign.from_yaml(file, ledger)
            calls = read_calls(campaign)
            if len(calls) < wanted:  # new, stopped, or ended with fewer calls than are allowed now
                status = campaign.run(workers=1, progress=False)
                if status.state == "interrupted":
                    raise KeyboardInterrupt
                if status.state not in ("finished", "budget_spent"):
                    raise CampaignError(f"{name} is {status.state}: {status.stop_reason}; see: sciagent status {name}")
                calls = read_calls(campaign)
        return tuple(calls[:wanted])


def spec_of(
    name: str,
    seed: int,
    objective: Mapping[str, Any],
    rung: Mapping[str, Any],
    best: int,
    verifications: int,
    proposer: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Returns the campaign file of a run: one fast rung that scores everything.

    best: number of candidates that the goal names. verifications: that may be spent; molecules of `seeds` do not count.
    """
    return {
        "campaign": name,
        "subject": "molecule",
        "seed": seed,
        "objectives": [objective],
        "ladder": [{"rung": "score", **rung}],
        "goal": {"kind": "best", "count": best},
        "budget": {"verifications": verifications},
        "proposer": proposer,
        "scheduler": {"kind": "exhaustive"},
        "workers": 1,
    }


def proposer_keys(text: str, known: Mapping[str, Mapping[str, Any]]) -> tuple[str, Mapping[str, Any]]:
    """Returns the name of a proposer and its keys in the campaign file.

    text: a name of `known`, or a YAML file with the keys of a proposer but for its molecules. Raises UsageError.
    """
    if text in known:
        return text, known[text]
    path = Path(text)
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(f'--proposer "{text}": takes {", ".join(known)} or a YAML file with the keys of a proposer')
    document = read(read_text(path), "a proposer", "kind: law")
    if document.faults:
        raise SpecError("\n".join(f"{path}:{fault.line}:{fault.column}: {fault.message}" for fault in document.faults))
    keys = document.data
    name = re.sub(r"[^a-z0-9_-]", "-", path.stem.lower())[:20]
    if not isinstance(keys, Mapping) or "kind" not in keys or {"seeds", "file"} & set(keys):
        raise UsageError(f"{path}: needs the keys of a proposer, such as kind: law, but neither seeds nor file")
    return name, keys
