"""The votes of a language model on a molecule, in four parts: the rubric, the prompt, the votes, and the requests.

A rubric has weighted criteria, some with a gate. It is read from a YAML file or written directly in the settings. The
settings always contain the whole rubric, so every change of a word changes the hash, and the ledger can be read without
the file.

The prompt contains the rubric and a computed description of the molecule. It contains no name, rationale or note that a
model or a user wrote about the molecule, so no such text can ask for a grade.

A vote is read from an answer, and votes are combined into a score. An invalid answer is an error. It never counts as a
grade, not even as 0.

Each vote is a separate request with its own seed and its own order of the criteria, since models favour what comes
first. A request is repeated, after a pause, if the server does not answer, but not if the answer is unreadable.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from sciagent.agent.messages_sampling_and_policy_client import Message, PolicyClient, PolicyError, Sampled, Sampling
from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.quantities import Quantity
from sciagent.errors import SciagentError, SimulatorError, SpecError
from sciagent.inputs.names_outside_the_file import Outside
from sciagent.verification.setting_files import content_of
from sciagent_verifiers.fast.molecule_descriptor_functions import descriptor_functions

MAX_CRITERIA = 12  # of a rubric
MAX_GRADE = 10  # highest grade that a scale may have

Line = Annotated[str, Field(min_length=1, max_length=300)]
"""What a grade of a scale means."""


class Criterion(BaseModel):
    """One question with the answers it takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$", description="What results call it.")
    question: str = Field(min_length=1, max_length=1000, description="What is asked.")
    weight: float = Field(1.0, strict=True, gt=0, le=1000, allow_inf_nan=False, description="In the weighted mean.")
    scale: dict[int, Line] = Field(description="What each grade means: 0, 1, … in whole numbers, worst first.")
    gate: int | None = Field(
        None, strict=True, ge=1, description="The least mean grade; below it a molecule fails, whatever the rest says."
    )

    @field_validator("scale")
    @classmethod
    def _whole(cls, value: dict[int, str]) -> dict[int, str]:
        has_gap = sorted(value) != list(range(len(value)))
        if has_gap or not 2 <= len(value) <= MAX_GRADE + 1:
            raise ValueError(f"grades are 0, 1, … without a gap, two at least and {MAX_GRADE} the highest")
        return dict(sorted(value.items()))

    @model_validator(mode="after")
    def _gate_on_the_scale(self) -> Criterion:
        if self.gate is not None and self.gate > self.top:
            raise ValueError(f"the gate of {self.name} is {self.gate}; its scale ends at {self.top}")
        return self

    @property
    def top(self) -> int:
        """The highest grade of the scale."""
        return len(self.scale) - 1


class Rubric(BaseModel):
    """Weighted criteria, some of them with a gate."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$", description="What levels call it.")
    goal: str = Field("", max_length=2000, description="What the molecule is for.")
    criteria: tuple[Criterion, ...] = Field(min_length=1, max_length=MAX_CRITERIA, description="What is graded.")

    @field_validator("criteria")
    @classmethod
    def _different(cls, value: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        names = [criterion.name for criterion in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f'two criteria are called "{name}"')
        return value

    @cached_property
    def sha256(self) -> str:
        """The hash of the rubric's content; the layout of the file does not matter."""
        return content_hash(self.model_dump(mode="json"))

    @property
    def gated(self) -> tuple[Criterion, ...]:
        """The criteria with a gate."""
        return tuple(criterion for criterion in self.criteria if criterion.gate is not None)


def _content(value: Any, info: ValidationInfo) -> Any:
    """Returns the content of the file if the value is a path; relative paths start at the campaign file's folder."""
    if not isinstance(value, str):
        return value
    base = (info.context or {}).get("base")
    folder = Path.cwd() if base is None else Path(base)
    path = folder / value
    return read_rubric(str(path.resolve()), value, content_of(path, value))


RubricFile = Annotated[Rubric, BeforeValidator(_content, json_schema_input_type=str | Rubric), Outside.FILE]


@lru_cache(maxsize=64)
def read_rubric(path: str, shown: str, sha256: str) -> Mapping[str, Any]:
    """Returns the mapping in a YAML file, unvalidated. Raises ValueError for an invalid file.

    shown: the file's name in messages. sha256: the file's hash, so that an edited file is read again."""
    from sciagent.inputs.yaml_document import read, read_text, report

    try:
        document = read(read_text(Path(path)), kind="a rubric", opens="name: NAME")
    except SpecError as error:
        raise ValueError(str(error)) from None
    if document.faults:
        raise ValueError(report(shown, document.faults))
    rubric: Mapping[str, Any] = document.data
    return rubric


MAX_ANSWER_CHARACTERS = 40_000  # a longer answer is invalid
MAX_REASON_CHARACTERS = 1000  # an answer with a longer reason is invalid
ASKED_REASON_CHARACTERS = 200  # the prompt asks for reasons of at most this length

SYSTEM = (
    "You grade one molecule by a rubric. Judge from its structure and the figures given, criterion by criterion and "
    "each for itself. Answer with one JSON object and nothing else: for every criterion first a reason in one short "
    f"sentence of at most {ASKED_REASON_CHARACTERS} characters, then a grade, a whole number of that criterion's scale."
)
FIGURES = {
    "molecular_weight": ("molecular weight", "{:.1f} g/mol"),
    "net_charge": ("net charge", "{:.0f}"),
    "logp": ("logP (Crippen)", "{:.2f}"),
    "tpsa": ("polar surface", "{:.0f} square angstrom"),
    "hydrogen_bond_donors": ("hydrogen-bond donors", "{:.0f}"),
    "hydrogen_bond_acceptors": ("hydrogen-bond acceptors", "{:.0f}"),
    "rotatable_bonds": ("rotatable bonds", "{:.0f}"),
    "rings": ("rings", "{:.0f}"),
    "aromatic_rings": ("aromatic rings", "{:.0f}"),
    "stereocentres": ("stereocentres", "{:.0f}"),
    "fraction_sp3": ("sp3 carbons per carbon", "{:.2f}"),
    "sa_score": ("synthetic accessibility, 1 easy to 10 hard", "{:.1f}"),
}
"""{descriptor: (words for it in the prompt, form of its value)}."""


def described(molecule: Molecule) -> str:
    """Returns a description of the molecule in lines, all computed from its structure."""
    lines = [f"SMILES: {molecule.smiles}", f"formula: {molecule.formula}"]
    if molecule.multiplicity != 1:
        lines.append(f"spin multiplicity: {molecule.multiplicity}")
    descriptors = descriptor_functions()
    for name, (words, form) in FIGURES.items():
        value = descriptors[name](molecule.mol)
        lines.append(f"{words}: {form.format(value)}")
    return "\n".join(lines)


def messages(rubric: Rubric, order: Sequence[Criterion], description: str) -> tuple[Message, Message]:
    """Returns the system and user message, with the criteria in this order."""
    parts = []
    if rubric.goal:
        parts.append(f"What it is for: {rubric.goal}")
    parts.append(f"The molecule:\n{description}")
    parts.append("The criteria:")
    for criterion in order:
        scale = "\n".join(f"  {grade}: {meaning}" for grade, meaning in criterion.scale.items())
        parts.append(f"{criterion.name}: {criterion.question}\n{scale}")
    form = ", ".join(f'"{criterion.name}": {{"reason": "…", "grade": N}}' for criterion in order)
    parts.append(f"The form of the answer, where each N is a whole number of that scale:\n{{{form}}}")
    return Message("system", SYSTEM), Message("user", "\n\n".join(parts))


def schema(order: Sequence[Criterion]) -> dict[str, Any]:
    """Returns the JSON schema of an answer. The reason precedes the grade, so that the grade can follow from it."""
    answers = {
        criterion.name: {
            "type": "object",
            "properties": {
                "reason": {"type": "string", "maxLength": ASKED_REASON_CHARACTERS},
                "grade": {"type": "integer", "enum": list(criterion.scale)},
            },
            "required": ["reason", "grade"],
            "additionalProperties": False,
        }
        for criterion in order
    }
    return {"type": "object", "properties": answers, "required": list(answers), "additionalProperties": False}


class BadVoteError(ValueError):
    """An answer does not have the required form."""


@dataclass(frozen=True)
class Vote:
    """The grade and the reason for each criterion, by its name."""

    grades: Mapping[str, int]
    reasons: Mapping[str, str]


def read_vote(text: str, rubric: Rubric) -> Vote:
    """Returns the vote in an answer: a JSON object with a reason and a grade for every criterion, and nothing else.

    Raises BadVoteError."""
    answers = _read_object(text)
    names = {criterion.name for criterion in rubric.criteria}
    missing = sorted(names - answers.keys())
    if missing:
        raise BadVoteError(f"no answer to {', '.join(missing)}")
    if len(answers) > len(names):
        raise BadVoteError("answers to what was not asked")
    grades = {}
    reasons = {}
    for criterion in rubric.criteria:
        answer = answers[criterion.name]
        if not isinstance(answer, dict) or set(answer) != {"reason", "grade"}:
            raise BadVoteError(f"{criterion.name}: not a reason and a grade")
        grade = answer["grade"]
        reason = answer["reason"]
        if type(grade) is not int or grade not in criterion.scale:
            raise BadVoteError(f"{criterion.name}: the grade is not a whole number from 0 to {criterion.top}")
        if not isinstance(reason, str) or len(reason) > MAX_REASON_CHARACTERS:
            limit = f"{MAX_REASON_CHARACTERS} characters"
            raise BadVoteError(f"{criterion.name}: the reason is not a text of at most {limit}")
        grades[criterion.name] = grade
        reasons[criterion.name] = reason
    return Vote(grades, reasons)


def _read_object(text: str) -> Mapping[str, Any]:
    """Returns the JSON object of a text. Raises BadVoteError."""
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise BadVoteError(f"{len(text)} characters; at most {MAX_ANSWER_CHARACTERS}")
    try:
        answers = json.loads(text, object_pairs_hook=_object_of_unique_keys)
    except RecursionError:
        raise BadVoteError("nested too deeply") from None
    except BadVoteError:  # of a key that is given twice; it is a ValueError, too
        raise
    except ValueError as error:  # a number of thousands of digits raises another error than bad JSON
        raise BadVoteError(f"not one JSON object: {error}"[:200]) from None
    if not isinstance(answers, dict):
        raise BadVoteError("not a JSON object")
    return answers


def _object_of_unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the keys and values of a JSON object as a dict. Raises BadVoteError if a key is given twice."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise BadVoteError("one key given twice")
    return unique


def score(rubric: Rubric, votes: Sequence[Vote]) -> Quantity:
    """Returns the mean over votes of (sum_c w_c g_c / t_c) / sum_c w_c, where g_c is the grade and t_c the highest one.

    The uncertainty is sd / sqrt(n) between votes, but at least that of rounding to whole grades: 1 / (t_c sqrt 12) for
    each criterion, weighted and added in quadrature. votes: at least two.
    """
    total_weight = sum(criterion.weight for criterion in rubric.criteria)
    shares = {criterion.name: criterion.weight / total_weight for criterion in rubric.criteria}
    vote_scores = []
    for vote in votes:
        vote_score = sum(shares[c.name] * vote.grades[c.name] / c.top for c in rubric.criteria)
        vote_scores.append(vote_score)
    rounding = math.sqrt(sum((shares[c.name] / c.top) ** 2 for c in rubric.criteria) / 12)
    return _mean(vote_scores, rounding)


def margin(rubric: Rubric, votes: Sequence[Vote]) -> Quantity | None:
    """Returns the smallest (mean grade - gate) / highest grade over the gated criteria, or None without gates.

    A negative margin means that a gate is missed."""
    margins = []
    for criterion in rubric.gated:
        if criterion.gate is not None:
            vote_margins = [(vote.grades[criterion.name] - criterion.gate) / criterion.top for vote in votes]
            rounding = 1 / (criterion.top * math.sqrt(12))
            margins.append(_mean(vote_margins, rounding))
    return min(margins, key=lambda estimate: estimate.value, default=None)


def _mean(values: Sequence[float], min_uncertainty: float) -> Quantity:
    """Returns the mean of the values with the standard error of the mean, but at least `min_uncertainty`."""
    standard_error = statistics.stdev(values) / math.sqrt(len(values))
    uncertainty = max(standard_error, min_uncertainty)
    return Quantity(statistics.fmean(values), "1", uncertainty, n=len(values))


PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)  # seconds before a server is asked again
MAX_CONCURRENT_REQUESTS = 8  # to one server
CHARACTERS_PER_TOKEN = 3.5  # roughly


@dataclass(frozen=True)
class Ballot:
    """The result of one request."""

    seed: int
    order: tuple[str, ...]
    """Names of the criteria in the order that the model was shown."""
    vote: Vote | None
    fault: str = ""
    """Why there is no vote; empty if there is one."""
    reason: Reason | None = None
    """The reason, if the model or the server failed; None if only the answer is invalid."""
    tokens: int = 0
    """Tokens of prompt and answer as reported by the server; estimated if it reports none."""


@lru_cache(maxsize=1)
def local_model(model: str) -> PolicyClient:
    """Returns a model of `sciagent models`, on the CPU, since a GPU cannot be used after the fork for each job."""
    from sciagent.agent.policies.local_model import LocalPolicy

    return LocalPolicy(model, device="cpu", threads=1)


@lru_cache(maxsize=4)
def served_model(model: str, endpoint: str, api_key_env: str | None, timeout: float) -> PolicyClient:
    """Returns a model behind a server. The key is read from this process's environment and is stored nowhere else."""
    from sciagent.agent.policies.endpoint_requests_and_answers import EndpointPolicy

    key = os.environ.get(api_key_env) if api_key_env else None
    policy = EndpointPolicy(model, endpoint, api_key=key, timeout=timeout)
    # The client imports and builds these at its first request, in most of a second. Here it happens before the fork.
    from openai.resources.chat.completions import completions  # noqa: F401
    from openai.types.chat import ChatCompletion

    ChatCompletion.model_rebuild()
    return policy


@contextmanager
def errors_as_unreachable() -> Iterator[None]:
    """Turns errors of the block into a SimulatorError, since they mean that this machine cannot reach the model.

    It is bad_environment (model_unreachable)."""
    try:
        yield
    except (SciagentError, OSError) as error:
        raise SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.MODEL_UNREACHABLE, str(error)) from error


def collect_ballots(
    policy: PolicyClient,
    rubric: Rubric,
    description: str,
    seeds: Sequence[int],
    sampling: Sampling,
    version: str,
    structured: bool,
    at_once: int,
) -> list[Ballot]:
    """Returns a ballot for each seed, in order.

    version: the model that must answer. structured: whether the request contains the schema of the answer. at_once:
    largest number of concurrent requests."""

    def ballot_of(seed: int) -> Ballot:
        order = list(rubric.criteria)
        random.Random(seed).shuffle(order)
        ballot = Ballot(seed, tuple(criterion.name for criterion in order), vote=None)
        question = messages(rubric, order, description)
        answer_schema = schema(order) if structured else None
        try:
            sampled = _sample_with_retries(policy, question, replace(sampling, seed=seed, schema=answer_schema))
        except PolicyError as error:
            return replace(ballot, fault=str(error), reason=Reason.MODEL_UNREACHABLE)
        ballot = replace(ballot, tokens=_tokens(question, sampled))
        if sampled.policy != version:
            fault = f'"{sampled.policy}" answered, not "{version}"; if it is the model that is meant, set version to it'
            return replace(ballot, fault=fault, reason=Reason.MODEL_CHANGED)
        if sampled.finish == "length":
            return replace(ballot, fault=f"cut off after {sampled.output_tokens} tokens")
        try:
            return replace(ballot, vote=read_vote(sampled.message.content, rubric))
        except BadVoteError as error:
            return replace(ballot, fault=str(error))

    with ThreadPoolExecutor(min(at_once, len(seeds))) as threads:
        return list(threads.map(ballot_of, seeds))


def _tokens(question: Sequence[Message], sampled: Sampled) -> int:
    """Returns the tokens of prompt and answer as the server reports them; an estimate if it reports none."""
    reported = sampled.prompt_tokens + sampled.output_tokens
    if reported:
        return reported
    n_characters = sum(len(message.content) for message in (*question, sampled.message))
    return round(n_characters / CHARACTERS_PER_TOKEN)


def _sample_with_retries(policy: PolicyClient, question: Sequence[Message], sampling: Sampling) -> Sampled:
    """Returns the answer; repeats the request after errors that may pass. Raises PolicyError."""
    for pause in PAUSES:
        try:
            return policy.sample(question, tools=(), sampling=sampling)
        except PolicyError as error:
            if not error.retry:
                raise
            time.sleep(pause)
    return policy.sample(question, tools=(), sampling=sampling)
