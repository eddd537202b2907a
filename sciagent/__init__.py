"""sciagent: scientific-discovery campaigns on a priced ladder of verifiers.

    from sciagent import Campaign, Ledger

A name is imported when it is first used, which keeps the start fast. `__init__.pyi` declares the types.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
_PLACES = {
    "Campaign": ("sciagent.api.campaign", "Campaign"),
    "Ledger": ("sciagent.api.campaign", "LedgerView"),
    "calc": ("sciagent.api.calc_and_answer_tables", "calc"),
    "evaluate": ("sciagent.api.run_campaign_or_evaluation", "evaluate"),
    "verifier": ("sciagent.verification.function_verifiers", "verifier"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'sciagent' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
