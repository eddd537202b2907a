"""Checks names of safety rules: those of one screen mean nothing to the other."""

from __future__ import annotations

from sciagent.errors import did_you_mean
from sciagent_verifiers.fast.hazards.crystal_screen import crystal_rule_names
from sciagent_verifiers.fast.hazards.screen import rule_names

MOLECULES, CRYSTALS = "molecules", "crystals"
PAGES = {MOLECULES: "docs/safety.md", CRYSTALS: "docs/crystal_safety.md"}


def molecule_rule(name: str) -> str:
    """Returns the name. Raises ValueError if the screen of molecules has no such rule."""
    return _known(name, MOLECULES)


def crystal_rule(name: str) -> str:
    """Returns the name. Raises ValueError if the screen of crystals has no such rule."""
    return _known(name, CRYSTALS)


def _known(name: str, screen: str) -> str:
    names = {MOLECULES: rule_names(), CRYSTALS: crystal_rule_names()}
    known = names.pop(screen)
    if name in known:
        return name
    for other, rules in names.items():
        if name in rules:
            raise ValueError(f'"{name}" is a safety rule for {other}, not for {screen}; {PAGES[screen]} lists those')
    raise ValueError(f'no safety rule is named "{name}"{did_you_mean(name, known)}; {PAGES[screen]} lists them')
