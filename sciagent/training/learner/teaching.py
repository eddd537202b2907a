"""The teachers of a training run: other models of the same vocabulary, or the model as it was at the start."""

from __future__ import annotations

from sciagent.errors import UsageError
from sciagent.training.learner.loading import LoadedModel, load
from sciagent.training.learner.settings import TeacherShare, TrainingWish
from sciagent.training.learner.step import Teacher


def teachers_of(wish: TrainingWish, loaded: LoadedModel) -> list[tuple[Teacher, LoadedModel]]:
    """Returns the teachers of a run, each with where it comes from.

    Raises UnknownNameError for an unknown model, UsageError for one with other tokens than the model that is trained.
    """
    if wish.training == "hindsight":
        return [(Teacher(loaded.reference()), loaded)]
    if wish.training == "distill" and not any(share.weight > 0 for share in wish.teachers):
        raise UsageError("distillation needs a teacher: --teacher NAME, a model in `sciagent models list`")
    return [(_teacher(share, found := load(share.name), loaded), found) for share in wish.teachers]


def _teacher(share: TeacherShare, found: LoadedModel, student: LoadedModel) -> Teacher:
    own, other = (each.tokenizer.get_vocab() for each in (student, found))
    if own != other:
        differ = sum(own.get(token) != other.get(token) for token in own.keys() | other.keys())
        raise UsageError(
            f"{share.name} cannot teach {student.card.name}: {differ} tokens of their vocabularies differ. "
            "A teacher and its student need the same tokenizer"
        )
    sizes = [int(each.model.config.get_text_config().vocab_size) for each in (student, found)]
    if sizes[0] != sizes[1]:
        raise UsageError(f"{share.name} cannot teach {student.card.name}: it has {sizes[1]} logits, not {sizes[0]}")
    return Teacher(found.model.requires_grad_(False).eval(), share.weight)
