"""The control of a campaign: a rung that decides nothing, beside which the reward of a policy is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sciagent.campaign.file.goals import ObjectiveSpec
from sciagent.campaign.file.rungs import RungSpec
from sciagent.inputs.validation import Faults

SHARE = 0.2
"""The chance with which a control runs on a candidate unless the file states another."""


def check_control(
    controls: Mapping[int, RungSpec],
    ladder: Mapping[int, RungSpec],
    terminal: str | None,
    objectives: Iterable[ObjectiveSpec],
    faults: Faults,
) -> None:
    """Adds a fault for a second control, one that other rungs follow, and one that would check nothing.

    controls, ladder: the valid controls and other rungs, by position in the file. terminal: label of the terminal rung.
    """
    wanted = {objective.property for objective in objectives}
    for i, control in controls.items():
        if i > min(controls):
            faults.add(("ladder", i, "control"), "a campaign has one control", "leave out the other")
        elif any(position > i for position in ladder):
            faults.add(("ladder", i, "control"), "a control comes after all other rungs", "move it to the end")
        elif control.rung == terminal:
            faults.add(("ladder", i, "control"), "the terminal rung decides, so it cannot be the control")
        for rung in ladder.values():
            if rung.rung == control.rung:
                faults.add(("ladder", i, "rung"), f'"{rung.rung}" labels another rung; labels must differ')
            if rung.configured.computation == control.configured.computation:
                message = f'is the same calculation as "{rung.rung}", so that it would confirm whatever that says'
                faults.add(("ladder", i, "verifier"), message, "take another level or another method")
        if not control.accept and not wanted & set(control.measured()):
            message = "measures no objective, so that nothing says which of its values are good"
            faults.add(("ladder", i, "verifier"), message, f"state limits: accept: {{{control.measured()[0]}: …}}")
