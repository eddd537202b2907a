"""What others rely on: keys of candidates and evidence, keys of campaign files, JSON schemas of files and answers.

`python -m tests.support.interfaces` prints them; `tests/interfaces.json` holds those that were agreed on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.errors import SciagentError
from sciagent.verification import verifier_registry
from tests.support.typed import invoked

CANDIDATES = {
    "molecule": ("CCO", "O=Cc1ccccc1", "C[N+](C)(C)CC([O-])=O", "CC(=O)Oc1ccccc1C(=O)O"),
    "crystal": ("rocksalt: Na Cl", "perovskite: Sr Ti O"),
}
SETTINGS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "xtb.singlepoint": ({}, {"solvent": "water"}),
    "pyscf.scf": ({}, {"functional": "PBE0"}),
    "expert.review": ({"question": "Is it safe to handle?"},),
}
"""Settings of verifiers whose keys are compared; of the others, the defaults."""
SCHEMAS = ("campaign", "recipe", "status", "best", "plan", "audit", "compare", "explain", "calc", "report")


def interfaces() -> Mapping[str, Any]:
    schemas = {what: json.loads(invoked(["schema", what]).stdout) for what in SCHEMAS}
    return {"candidates": candidate_keys(), "evidence": evidence_keys(), "schemas": schemas}


def candidate_keys() -> Mapping[str, str]:
    return {text: subject_of(kind).read(text).key for kind, texts in CANDIDATES.items() for text in texts}


def evidence_keys() -> Mapping[str, Mapping[str, str]]:
    """Returns {verifier with its settings: {candidate: hash of the evidence key}}."""
    found = {}
    for name in verifier_registry.verifier_names():
        if not verifier_registry.provider(name).startswith(f"{verifier_registry.OURS} "):
            continue  # of a plug-in or of a test
        kind = verifier_registry.verifier_class(name)
        subjects = [subject for subject in CANDIDATES if kind.takes(subject)]
        for settings in SETTINGS.get(name, ({},)):
            try:
                verifier = kind(settings)
            except (SciagentError, ValueError):  # a setting has no default
                continue
            keys = {}
            for subject in subjects:
                for text in CANDIDATES[subject]:
                    keys[text] = verifier.evidence_key(subject_of(subject).read(text)).hash
            found[f"{name} {json.dumps(settings, sort_keys=True)}"] = keys
    return found


if __name__ == "__main__":
    json.dump(interfaces(), sys.stdout, indent=1, sort_keys=True)
