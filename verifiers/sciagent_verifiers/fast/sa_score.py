"""The synthetic accessibility score, from the module that RDKit ships in its Contrib folder.

Source: Ertl and Schuffenhauer, J. Cheminf. 1, 8 (2009), doi 10.1186/1758-2946-1-8.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from sciagent.verification.contract import Outcome, Reason, SimulatorError


@cache
def _scorer() -> ModuleType:
    import rdkit
    from rdkit.Chem import RDConfig

    folders = (Path(RDConfig.RDContribDir), Path(rdkit.__file__).parent / "Contrib")
    for path in (folder / "SA_Score" / "sascorer.py" for folder in folders):
        spec = importlib.util.spec_from_file_location("sciagent_verifiers.fast._sascorer", path)
        if path.is_file() and spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise SimulatorError(
        Outcome.BAD_ENVIRONMENT,
        Reason.IMPORT_FAILED,
        "this RDKit has no Contrib/SA_Score/sascorer.py; install the rdkit wheel, or leave out sa_score",
    )


def sa_score(mol: Any) -> float:
    """Returns the score, 1 (easy to make) to 10 (hard). mol: an RDKit molecule with atoms. Raises SimulatorError."""
    return float(_scorer().calculateScore(mol))
