"""Samples of tasks. A vial of another compound, or one that is empty, is refused before anything is written."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.domain.jobs.sample_codes import read_code
from sciagent.errors import UsageError, WrongVialError
from sciagent.lab.claiming import locked, note
from sciagent.store.lab import samples, tasks
from sciagent.store.lab.samples import NewSample, Vial
from sciagent.store.lab.tasks import LabTask


def register(built: Built, task_id: int, who: str, form: str, source: str, **more: object) -> Vial:
    """Registers a sample of the task's molecule, which the task then names. more: other fields of `NewSample`.

    Raises UsageError for an empty form, an unknown source, a purity that is no fraction, or a text that is too long."""
    if not form.strip():
        raise UsageError("say in which form it is, such as: free base; HCl salt, 1 H2O")
    if source not in samples.SOURCES:
        raise UsageError(f'"{source}" is no source; one of: {", ".join(samples.SOURCES)}')
    purity = more.get("purity")
    if isinstance(purity, float) and not 0 <= purity <= 1:
        raise UsageError(f"purity = {purity:g} is no fraction from 0 to 1")
    with locked(built, task_id) as (connection, task, _):
        new = NewSample(task.candidate_id, form.strip(), source, who[:200], **more)  # type: ignore[arg-type]
        samples.check_lengths(new)
        made = samples.register(connection, new)
        tasks.changed(connection, task.id, sample_id=made.id)
        note(connection, task, who, "registered", sample=made.code)
    return made


def fitting(connection: Connection, task: LabTask, text: str) -> Vial:
    """Returns the sample with a scanned code. Raises WrongVialError if it is not of the task's molecule, or not
    usable; UsageError for a text that is no code."""
    code = read_code(text)
    sample = samples.find(connection, code)
    if sample is None:
        raise UsageError(f"no vial has the code {code}", f"register it: sciagent lab sample {task.id} --form ...")
    if sample.candidate_id != task.candidate_id:
        raise WrongVialError(f"this vial is another compound: {code} is not of task {task.id} ({task.text})")
    if sample.state != "ok":
        raise WrongVialError(f"the vial {code} is {sample.state}; nothing was recorded")
    return sample
