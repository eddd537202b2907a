"""The verifier `lm.judge`: a language model's opinion of a molecule, by a rubric."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any

from pydantic import (
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from sciagent.agent.messages_sampling_and_policy_client import PolicyClient, Sampling
from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured, seed_of
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import JUDGED_MARGIN, JUDGED_SCORE, Level, PropertyAtLevel, at
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.domain.safe_text_and_durations import address_fault
from sciagent.errors import SciagentError, UsageError
from sciagent.verification.verifier_contract import Context, Finding, Outside, Refusal, Settings
from sciagent_verifiers.simulation import judge_rubric_votes_and_requests
from sciagent_verifiers.simulation.judge_rubric_votes_and_requests import (
    Rubric,
    RubricFile,
    described,
    margin,
    messages,
    score,
)
from sciagent_verifiers.verifier_bases import MoleculeVerifier

SERVER_SETTINGS = ("endpoint", "api_key_env", "timeout")  # left out of hashes: they do not identify the model
MAX_REASONS_CHARACTERS = 40_000  # largest total of the reasons in the diagnostics
TOKENS_PER_CRITERION = 45  # of an answer, roughly
# Core-seconds of SmolLM2-135M on one core.
SECONDS_PER_PROMPT_TOKEN = 0.004
SECONDS_PER_ANSWER_TOKEN = 0.05
SERVER_CORE_SECONDS = 0.02  # of this machine for a request to a server
ALLOWANCE_CHARACTERS = 400  # for the description of the molecule without its SMILES


class JudgeSettings(Settings):
    """The rubric, the model and the number of votes."""

    rubric: RubricFile = Field(description="A YAML file, relative to the campaign file, or the rubric itself.")
    model: str = Field(
        min_length=1, max_length=100, description="Of `sciagent models`; with an endpoint, as the server calls it."
    )
    endpoint: Annotated[str, Outside.ADDRESS] | None = Field(
        None, pattern=r"^https?://\S+$", max_length=500, description="Base URL of an OpenAI-compatible server."
    )
    api_key_env: Annotated[str, Outside.VARIABLE] | None = Field(
        None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Environment variable that holds the server's key."
    )
    version: str = Field(
        "",
        max_length=100,
        description="The model that must answer, in its own words; another one is refused. Default: `model`, and of a "
        "model of our own its weights.",
    )
    votes: int = Field(5, strict=True, ge=2, le=15, description="How often it is asked about one molecule.")
    quorum: int | None = Field(
        None, strict=True, ge=2, description="Votes that must be readable; default: more than half, and two."
    )
    temperature: float = Field(1.0, gt=0, le=2, description="1: the model's own distribution.")
    max_tokens: int = Field(1000, strict=True, ge=50, le=16384, description="Tokens of one answer, at most.")
    structured: bool = Field(True, strict=True, description="Whether the server is sent the JSON schema of the answer.")
    timeout: float = Field(120.0, gt=0, le=3600, description="Seconds that one answer of a server may take.")
    max_heavy_atoms: int = Field(100, ge=1, description="Larger molecules are refused.")

    @model_validator(mode="before")
    @classmethod
    def _version_of_the_weights(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("version") or not isinstance(data.get("model"), str):
            return data
        version = data["model"]
        if not data.get("endpoint"):
            from sciagent.agent import install_and_find_models

            with suppress(SciagentError, OSError):  # without the model on this machine its name alone
                version = install_and_find_models.find(version).policy
        return {**data, "version": version}

    @field_validator("endpoint")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        fault = address_fault(value) if value is not None else None
        if fault:
            raise ValueError(f"{value!a} is no address: {fault}")
        return value

    @model_validator(mode="after")
    def _quorum_of_the_votes(self) -> JudgeSettings:
        if self.quorum is not None and self.quorum > self.votes:
            raise ValueError(f"a quorum of {self.quorum} among {self.votes} votes")
        return self

    @model_serializer(mode="wrap")
    def _without_where(self, write: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """Leaves out SERVER_SETTINGS, as hashes need it, unless the context asks for `paths`."""
        values: dict[str, Any] = write(self)
        if (info.context or {}).get("paths"):
            return values
        return {name: value for name, value in values.items() if name not in SERVER_SETTINGS}

    @property
    def n_needed(self) -> int:
        """The number of votes that must be readable."""
        return self.quorum or max(2, self.votes // 2 + 1)


class LmJudge(MoleculeVerifier):
    """A language model's opinion of a molecule, by a rubric of weighted criteria: for goals that no simulator knows.

    The model votes several times. Each vote is a separate request with its own order of the criteria, and must be
    exactly the JSON object of the prompt; any other answer is an error, not a grade. The score, in [0, 1], is the
    weighted mean of the grades. Its uncertainty (k = 1) is the standard deviation between n votes over sqrt(n), and at
    least that of rounding to whole grades. It measures repeatability, not correctness. A campaign that also computes or
    measures something never decides by the judge. Scores of two models or two rubrics have different levels and are
    never compared as numbers.

    The judge sees structure, formula and computed descriptors, but no text by anybody on the molecule. Its answers
    belong to one campaign; another campaign asks again.
    """

    name = "lm.judge"
    version = "1"
    tier = Tier.SIMULATION
    Settings = JudgeSettings
    settings: JudgeSettings
    opinion = True
    reusable = False
    preload = ("rdkit.Chem.rdMolDescriptors", "sciagent_verifiers.fast.molecule_descriptor_functions", "ruamel.yaml")
    engines = ("openai", "transformers", "torch")

    @classmethod
    def warm(cls) -> None:
        described(parse_molecule("C"))  # loads the table of the SA score

    @cached_property
    def rubric(self) -> Rubric:
        return self.settings.rubric

    @cached_property
    def level(self) -> Level:
        """The level: the model's version, the rubric with its hash, and the temperature if it is not 1."""
        temperature = "" if self.settings.temperature == 1 else f", T = {self.settings.temperature:g}"
        return Level(f"{self.settings.version} by {self.rubric.name}@{self.rubric.sha256[:12]}{temperature}")

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        if self.rubric.gated:
            return at(self.level, JUDGED_SCORE, JUDGED_MARGIN)
        return at(self.level, JUDGED_SCORE)

    @property
    def gates(self) -> Mapping[str, tuple[float | None, float | None]]:
        # the margin is below 0 where a gate of the rubric is missed; it has no upper limit
        return {JUDGED_MARGIN.name: (0.0, None)} if self.rubric.gated else {}

    def prepare(self) -> None:
        from sciagent.agent import install_and_find_models
        from sciagent.agent.install_and_find_models import check_extra

        variable = self.settings.api_key_env
        with judge_rubric_votes_and_requests.errors_as_unreachable():
            if variable and not os.environ.get(variable):
                raise UsageError(f"the environment variable {variable} (api_key_env) is not set")
            if self.settings.endpoint:
                self._model()
            else:  # checks that the model and its extra are installed, without loading the model
                check_extra()
                install_and_find_models.find(self.settings.model)

    def attach(self) -> None:
        """Imports the client or loads the model, once for all jobs."""
        self._model()

    def accepts(self, candidate: Molecule) -> Refusal | None:
        limit = self.settings.max_heavy_atoms
        if candidate.heavy_atoms > limit:
            return Refusal(Reason.TOO_LARGE, f"{candidate.heavy_atoms} heavy atoms; the limit is {limit}")
        return None

    @cached_property
    def _request_characters(self) -> int:
        """The number of characters of a request without the SMILES, roughly."""
        request = messages(self.rubric, self.rubric.criteria, "")
        return sum(len(message.content) for message in request) + ALLOWANCE_CHARACTERS

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the tokens of prompts and answers; for a local model their CPU time too."""
        s = self.settings
        prompt_tokens = (
            self._request_characters + len(candidate.smiles)
        ) / judge_rubric_votes_and_requests.CHARACTERS_PER_TOKEN
        answer_tokens = min(s.max_tokens, TOKENS_PER_CRITERION * len(self.rubric.criteria))
        if s.endpoint:
            seconds = SERVER_CORE_SECONDS
        else:
            seconds = prompt_tokens * SECONDS_PER_PROMPT_TOKEN + answer_tokens * SECONDS_PER_ANSWER_TOKEN
        return Cost(core_seconds=s.votes * seconds, llm_tokens=round(s.votes * (prompt_tokens + answer_tokens)))

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        s = self.settings
        with judge_rubric_votes_and_requests.errors_as_unreachable():
            policy = self._model()
        first_seed = self.evidence_key(molecule, context.replicate).seed
        seeds = [seed_of(first_seed, number) for number in range(s.votes)]
        ballots = judge_rubric_votes_and_requests.collect_ballots(
            policy,
            self.rubric,
            described(molecule),
            seeds=seeds,
            sampling=Sampling(temperature=s.temperature, max_tokens=s.max_tokens),
            version=s.version,
            structured=s.structured if s.endpoint else True,  # a model on this machine always follows the schema
            at_once=judge_rubric_votes_and_requests.MAX_CONCURRENT_REQUESTS if s.endpoint else 1,
        )
        api_key = os.environ.get(s.api_key_env or "")
        if api_key:  # a server may quote the key that it refuses
            ballots = [replace(ballot, fault=ballot.fault.replace(api_key, "…")) for ballot in ballots]
        votes = [ballot.vote for ballot in ballots if ballot.vote]
        diagnostics = self._diagnostics(ballots)
        spent = Cost(llm_tokens=sum(ballot.tokens for ballot in ballots))
        if len(votes) < s.n_needed:
            outcome, reason, detail = _failure(ballots, len(votes), s.n_needed)
            return Finding(molecule.key, outcome, reason=reason, detail=detail, diagnostics=diagnostics, spent=spent)
        estimates = {JUDGED_SCORE: score(self.rubric, votes), JUDGED_MARGIN: margin(self.rubric, votes)}
        measured = tuple(Measured(prop.name, self.level, value) for prop, value in estimates.items() if value)
        return Finding(molecule.key, Outcome.OK, measured, diagnostics=diagnostics, spent=spent)

    def _model(self) -> PolicyClient:
        s = self.settings
        if s.endpoint:
            return judge_rubric_votes_and_requests.served_model(s.model, s.endpoint, s.api_key_env, s.timeout)
        return judge_rubric_votes_and_requests.local_model(s.model)

    def _diagnostics(self, ballots: Sequence[judge_rubric_votes_and_requests.Ballot]) -> dict[str, Any]:
        """Returns the grades and reasons of every vote, and the fault of each invalid answer.

        A vote's reasons are left out if all reasons up to them have more than MAX_REASONS_CHARACTERS."""
        characters_left = MAX_REASONS_CHARACTERS
        rows = []
        for ballot in ballots:
            row: dict[str, Any] = {"seed": ballot.seed, "order": list(ballot.order), "tokens": ballot.tokens}
            if ballot.vote is None:
                row["fault"] = ballot.fault[:200]
            else:
                row["grades"] = dict(ballot.vote.grades)
                reasons = {name: text[:300] for name, text in ballot.vote.reasons.items()}
                characters_left -= len(json.dumps(reasons))
                if characters_left >= 0:
                    row["reasons"] = reasons
            rows.append(row)
        return {"rubric": self.rubric.name, "rubric_sha256": self.rubric.sha256, "votes": rows}


def _failure(
    ballots: Sequence[judge_rubric_votes_and_requests.Ballot], n_votes: int, n_needed: int
) -> tuple[Outcome, Reason, str]:
    """Returns outcome, reason and detail for too few votes.

    The outcome is bad_environment if the model was changed or unreachable, else not_converged."""
    faults = Counter(ballot.fault[:200] for ballot in ballots if not ballot.vote)
    [(most_frequent_fault, _)] = faults.most_common(1)
    detail = f"{n_votes} of {len(ballots)} votes, {n_needed} are needed; {most_frequent_fault}"
    for reason in (Reason.MODEL_CHANGED, Reason.MODEL_UNREACHABLE):
        if any(ballot.reason is reason for ballot in ballots):
            return Outcome.BAD_ENVIRONMENT, reason, detail
    return Outcome.NOT_CONVERGED, Reason.TOO_FEW_VOTES, detail
