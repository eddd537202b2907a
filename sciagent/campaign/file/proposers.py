"""The proposers of a campaign file, each chosen by its `kind`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, TypeAdapter, ValidationInfo, WrapValidator, field_validator, model_validator

from sciagent.agent.proposers.plugin_proposers import names
from sciagent.agent.skills import SkillFile
from sciagent.campaign.file.mcp_servers import McpServerSpec, check_servers
from sciagent.campaign.file.objectives_and_budget import Count
from sciagent.chemistry.combinatorial_libraries import block, check_reaction, check_scaffold, group_of, molecule_of
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.safe_text_and_durations import address_fault
from sciagent.errors import UsageError, did_you_mean
from sciagent.inputs.names_outside_the_file import Outside
from sciagent.inputs.yaml_document import kind_of
from sciagent.inputs.yaml_validation import LAW_NAME, NAME, AnyFile, Faults, Part, fault, proposer_will_run

Files = dict[tuple[str, ...], str]
"""Names of files, by their path of keys in the proposer."""


def _address(value: str) -> str:
    """Returns the address as it is. Raises a fault for an address that cannot be used."""
    why = address_fault(value)
    if why:
        raise fault(f"{value!a} is no address", why)
    return value


Endpoint = Annotated[str, Field(pattern=r"^https?://\S+$", max_length=500), AfterValidator(_address), Outside.ADDRESS]
"""The base URL of a server."""
Keep = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=60)], ...], Field(max_length=8)] | None
KEEP: Keep = omitted_if_unset(
    None,
    description="Columns of a csv or data fields of an sdf that stay with the candidate as its names: [id, supplier]. "
    "Default: the column that looks like an identifier.",
)


PastCampaigns = tuple[Annotated[str, Field(pattern=NAME)], ...]
LawName = Annotated[str, Field(pattern=LAW_NAME)]
PAST: PastCampaigns = omitted_if_unset(
    (),
    alias="from",
    max_length=16,
    description="Campaigns of this ledger that the law remembers: what they had measured at the same level when this "
    "campaign was made.",
)
LAW: LawName | None = omitted_if_unset(
    None,
    description="A law of this ledger, fitted by `sciagent law fit`, that is remembered in place of campaigns: its "
    "newest version when this campaign was made, or NAME@HASH.",
)


def refuse_two_pasts(past: PastCampaigns, law: LawName | None) -> None:
    """Raises ValidationError if both campaigns and a law are to be remembered."""
    if past and law is not None:
        raise fault("remembers either campaigns or a law", "leave out `from`, or `law`")


class FilterSpec(Part):
    """A law that chooses among the proposals of a proposer: of every `of`, the `keep` with the largest chance to be
    hits go on. The others are kept in the ledger with their chance, and nothing is run for them."""

    keep: Count = Field(1, description="Proposals that go on, of every `of`.")
    of: Count = Field(16, le=1000, description="Proposals that are compared for every `keep` that go on.")
    past: PastCampaigns = PAST
    law: LawName | None = LAW
    only_new: bool = omitted_if_unset(
        False, strict=True, description="Let nothing go on of which the campaigns of `from`, or the law, have a value."
    )
    audit: float = Field(
        0.05,
        strict=True,
        ge=0,
        le=1,
        description="Share of the proposals that the law does not judge: of them `keep` of every `of` go on by lot.",
    )

    @model_validator(mode="after")
    def _drops_some(self) -> FilterSpec:
        refuse_two_pasts(self.past, self.law)
        if self.keep >= self.of:
            raise fault(f"keeps {self.keep} of {self.of}, so that it drops nothing", "takes: keep below of")
        return self

    @property
    def share(self) -> float:
        """Share of the proposals that go on."""
        return self.keep / self.of


FILTER: FilterSpec | None = omitted_if_unset(
    None, description="A law that chooses which of the proposals go on, from what was measured so far."
)


class _WithFile(Part):
    """A proposer that reads the files under its keys `seeds` and `file`, if it has them."""

    def files(self) -> Files:
        """Returns the names of the files, by their path of keys in the proposer."""
        files: Files = {}
        for key in ("seeds", "file"):
            name = getattr(self, key, None)
            if name is not None:
                files[(key,)] = name
        return files


class EvolveSpec(_WithFile):
    """Genetic search from a file of seeds: edits and crossovers of the best so far.

    Children hold to what a rung of checks on the ladder allows, such as the elements, sizes and patterns of
    `molecule.checks`.
    """

    kind: Literal["evolve"] = Field(description="Scripted search from seeds.")
    seeds: Annotated[str, Outside.FILE] = Field(description="csv, smi or sdf, also .gz; relative to the campaign file.")
    column: str = Field("smiles", min_length=1, description="Column of a csv that holds the structures.")
    keep: Keep = KEEP
    batch: Count = Field(20, description="Candidates a turn.")
    filter: FilterSpec | None = FILTER
    max_heavy_atoms: Count = Field(60, description="Molecules with more heavy atoms than this are not proposed.")
    max_sites: Count | None = omitted_if_unset(
        None, description="Crystals with more atoms in the primitive cell than this are not proposed; default: 40."
    )
    wait: bool = Field(
        False,
        strict=True,
        description="Propose, and start more expensive rungs, only when all earlier proposals have been through the "
        "first paid rung; the result then does not depend on the speed of the machine.",
    )
    ahead: Count = Field(24, description="Propose again while fewer candidates than this wait for a paid rung.")


class LawSearchSpec(_WithFile):
    """Search from a file of seeds by a law that is fitted to the campaign's own answers: of many children of a genetic
    search those with the largest chance to be hits.

    Children are bred as those of `evolve`, and hold to what a rung of checks on the ladder allows.
    """

    kind: Literal["law"] = Field(description="Children that a law takes for hits.")
    seeds: Annotated[str, Outside.FILE] = Field(description="csv, smi or sdf, also .gz; relative to the campaign file.")
    column: str = Field("smiles", min_length=1, description="Column of a csv that holds the structures.")
    keep: Keep = KEEP
    batch: Count = Field(8, description="Candidates a turn; the law is fitted anew for each turn.")
    past: PastCampaigns = PAST
    law: LawName | None = LAW
    only_new: bool = omitted_if_unset(
        False,
        strict=True,
        description="Propose nothing but seeds of which the campaigns of `from`, or the law, have a value.",
    )
    pool: Count = Field(128, le=10_000, description="Children of a turn, of which the law proposes a batch.")
    max_heavy_atoms: Count = Field(60, description="Molecules with more heavy atoms than this are not proposed.")
    max_sites: Count | None = omitted_if_unset(
        None, description="Crystals with more atoms in the primitive cell than this are not proposed; default: 40."
    )
    ahead: Count = Field(8, description="Propose again while fewer candidates than this wait for a paid rung.")

    @model_validator(mode="after")
    def _has_one_past(self) -> LawSearchSpec:
        refuse_two_pasts(self.past, self.law)
        return self


class ScreenSpec(_WithFile):
    """Proposes the structures of a file, in its order."""

    kind: Literal["screen"] = Field(description="Proposes the structures of a file.")
    file: Annotated[str, Outside.FILE] = Field(description="csv, smi or sdf, also .gz; relative to the campaign file.")
    column: str = Field("smiles", min_length=1, description="Column of a csv that holds the structures.")
    keep: Keep = KEEP
    batch: Count = Field(20, description="Candidates a turn.")
    filter: FilterSpec | None = FILTER


class PluginSpec(_WithFile):
    """A proposer of another package, by its name in the entry point group `sciagent.proposers`."""

    kind: Literal["plugin"] = Field(description="A proposer of another package.")
    name: Annotated[str, Outside.PLUGIN] = Field(
        min_length=1, max_length=60, description="Name in the entry point group `sciagent.proposers`."
    )
    seeds: Annotated[str, Outside.FILE] = Field(
        description="Proposed first: csv, smi or sdf, also .gz; relative to the campaign file."
    )
    column: str = Field("smiles", min_length=1, description="Column of a csv that holds the structures.")
    keep: Keep = KEEP
    file: Annotated[AnyFile, Outside.CODE] | None = Field(
        None, description="A file for the proposer, such as a trained model."
    )
    settings: dict[str, Any] = Field({}, description="Settings of the proposer.")
    batch: Count = Field(8, description="Most candidates a turn.")
    filter: FilterSpec | None = FILTER

    @field_validator("name")
    @classmethod
    def _is_installed(cls, value: str, info: ValidationInfo) -> str:
        # a campaign file that is read but not run may name a proposer that this machine lacks
        if not proposer_will_run(info.context):
            return value
        known = names()
        if value not in known:
            takes = f"installed: {', '.join(known)}" if known else "no package with proposers is installed"
            raise fault(f'"{value}" is no installed proposer{did_you_mean(value, known)}', takes)
        return value


_TEXTS: TypeAdapter[tuple[str, ...]] = TypeAdapter(
    Annotated[tuple[Annotated[str, Field(min_length=1, max_length=4000)], ...], Field(min_length=1)]
)


def _file_or_list(value: Any, _: Any, info: ValidationInfo) -> str | tuple[str, ...]:
    """Validates the name of a file, or a list of texts."""
    if isinstance(value, str):
        return value  # the file is checked with the subject
    if not isinstance(value, list | tuple):
        raise fault(f"must be the name of a file or a list of SMILES, not {kind_of(value)}")
    return _TEXTS.validate_python(value)


Blocks = Annotated[str | tuple[str, ...], WrapValidator(_file_or_list), Outside.FILE]
"""R-groups or reactants: the name of a table of molecules, or a list of texts `SMILES` or `SMILES name`."""
Lists = dict[Annotated[int, Field(ge=1, le=99)], Blocks]


class EnumerateSpec(Part):
    """Proposes every combination of a scaffold with R-groups, or of the reactants of a reaction, in a fixed order: the
    last list changes fastest."""

    kind: Literal["enumerate"] = Field(description="Every combination of R-groups or reactants.")
    scaffold: str | None = Field(
        None, max_length=4000, description="SMILES with attachment points [*:1], [*:2], …; needs groups."
    )
    groups: Lists = Field(
        {},
        validate_default=True,
        description="R-groups by attachment point, each a file (csv, smi or sdf, also .gz) or a list of SMILES, with a "
        "name after a space. A group binds by its *, or by its first atom if it has none; [H] is hydrogen.",
    )
    reaction: str | None = Field(
        None, max_length=4000, description="Reaction SMARTS as RDKit reads it, with one product; needs reactants."
    )
    reactants: Lists = Field(
        {},
        validate_default=True,
        description="Reactants by their place in the reaction, from 1, each a file or a list of SMILES.",
    )
    column: str = Field("smiles", min_length=1, description="Column of a csv that holds the structures.")
    batch: Count = Field(20, description="Candidates a turn.")
    filter: FilterSpec | None = FILTER

    @model_validator(mode="after")
    def _one_library(self) -> EnumerateSpec:
        if (self.scaffold is None) == (self.reaction is None):
            raise fault("needs either a scaffold with groups, or a reaction with reactants")
        with Faults() as faults:
            if self.scaffold is not None:
                self._check_library("scaffold", "groups", "reactants", group_of, faults)
            else:
                self._check_library("reaction", "reactants", "groups", molecule_of, faults)
        return self

    def _check_library(
        self, key: str, used: str, unused: str, check_block: Callable[[str], object], faults: Faults
    ) -> None:
        """Adds the faults of a library. key: the key that is stated. used, unused: keys of lists with and without
        effect. check_block: raises UsageError for a SMILES that does not fit a list."""
        if getattr(self, unused):
            faults.add((unused,), f"has no effect here: a {key} takes {used}")
        try:
            if self.scaffold is not None:
                check_scaffold(self.scaffold, self.groups)
            else:
                check_reaction(self.reaction or "", self.reactants)
        except UsageError as error:
            faults.add((key,), str(error))
        for number, blocks in getattr(self, used).items():
            if isinstance(blocks, str):
                continue  # the name of a file
            for place, text in enumerate(blocks):
                try:
                    check_block(block(text).smiles)
                except UsageError as error:
                    faults.add((used, number, place), str(error))

    def files(self) -> Files:
        """Returns the names of the files, by their path of keys in the proposer."""
        lists = [("groups", self.groups), ("reactants", self.reactants)]
        names: dict[tuple[str, ...], str] = {}
        for key, each in lists:
            for number, name in each.items():
                if isinstance(name, str):
                    names[(key, str(number))] = name
        return names


ToolName = Literal[
    "propose", "modify", "crossover", "neighbours", "inspect", "best", "history", "budget", "note", "finish"
]


class LlmSpec(_WithFile):
    """A language model that proposes by calling tools, in episodes.

    With `endpoint`, an OpenAI-compatible server answers; without, a model of `sciagent models` in the campaign's
    process.
    """

    kind: Literal["llm"] = Field(description="A language model that calls tools.")
    model: str = omitted_if_unset(
        "",
        min_length=1,
        max_length=200,
        description="Name in `sciagent models`; with an endpoint, the server's name of it.",
    )
    policy: str | None = omitted_if_unset(
        None,
        min_length=1,
        max_length=200,
        description="Instead of `model`: a role of `sciagent policy`, such as production, or the name of a "
        "model or policy. The campaign keeps the version that it has when the campaign starts.",
    )
    endpoint: Endpoint | None = Field(None, description="Base URL of an OpenAI-compatible server.")
    api_key_env: Annotated[str, Outside.VARIABLE] | None = Field(
        None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Environment variable that holds the server's key."
    )
    seeds: Annotated[str, Outside.FILE] | None = Field(
        None, description="Molecules to begin with: csv, smi or sdf, also .gz; relative to the campaign file."
    )
    column: str = Field("smiles", min_length=1, description="Column of a csv that holds the structures.")
    keep: Keep = KEEP
    tools: tuple[ToolName, ...] = Field(get_args(ToolName), min_length=1, description="What it may call; default: all.")
    mcp: dict[str, McpServerSpec] = Field(
        {},
        description="MCP servers whose tools it may call as well, each under a name of your choice; a tool of NAME is "
        "called NAME_TOOL.",
    )
    structured: bool | None = Field(
        None,
        strict=True,
        validate_default=True,
        description="Whether a JSON schema restricts every answer to one tool call, of no MCP server. Default: only "
        "without an endpoint.",
    )
    tool_choice: Literal["auto", "required"] = Field(
        "auto", description="required: the server of an endpoint must restrict every answer to a tool call."
    )
    strict: bool | None = omitted_if_unset(
        None,
        strict=True,
        description="Whether a grammar of the endpoint restricts calls to their schemas; default: true. False: the "
        "model's own distribution alone draws the tokens, so that turns are trainable.",
    )
    # `ranks`, since the numbers at the beginning of an episode are ranks: the best candidate is #1
    ranks: bool | None = Field(
        None,
        strict=True,
        description="Whether tools take molecules only by the number with which the episode showed them, for a model "
        "that cannot write SMILES. Default: if answers are structured.",
    )
    skills: tuple[SkillFile, ...] = omitted_if_unset(
        (),
        max_length=4,
        description="Text files of at most 8000 characters that stand in the prompt, relative to the campaign file; "
        "`sciagent rollout --skills paired` leaves them out in every second group.",
    )
    predict: bool | None = omitted_if_unset(
        None,
        strict=True,
        description="Whether `modify` and `crossover` take predictions of what will be measured, as `propose` does; "
        "default: false.",
    )
    logprobs: Literal["raw", "processed"] | None = Field(
        None,
        description="The distribution of the endpoint's log-probabilities: raw with `sciagent serve-model`. "
        "It matters only if temperature is not 1.",
    )
    grammar: Literal["llguidance"] | None = omitted_if_unset(
        None,
        description="What enforces the schema of structured answers in the endpoint: llguidance with `sciagent "
        "serve-model --trainable`. The tokens that it allowed can be found again, so that these turns are trainable.",
    )
    episodes: Count = Field(1, le=256, description="Conversations at the same time.")
    turns: Count = Field(8, le=1000, description="Most answers in one episode.")
    tokens: Count = Field(8192, description="Most tokens sampled in one episode.")
    minutes: float = Field(
        60.0, gt=0, le=100_000, description="Elapsed minutes that the model may take for one episode."
    )
    max_tokens: Count = Field(256, description="Most tokens in one answer.")
    context: Count = Field(8192, description="Tokens of a prompt and its answer together; older turns are left out.")
    thinking: Literal["preserve", "strip"] = Field(
        "preserve", description="What the model sees of its thoughts in earlier turns: all or nothing."
    )
    temperature: Annotated[float, Field(strict=True, ge=0, le=2, description="1: the model's own distribution.")] = 1.0
    timeout: Annotated[float, Field(gt=0, le=86400, description="Seconds that one answer may take.")] = 600.0
    answer_mb: Count = Field(
        32, le=1024, description="Most megabytes in one answer of an endpoint; a longer answer is cut off."
    )
    batch: Count = Field(8, description="Most candidates that one answer may propose.")
    filter: FilterSpec | None = FILTER
    ahead: Count = Field(24, description="Ask again while fewer candidates than this wait for a paid rung.")

    @model_validator(mode="after")
    def _one_model(self) -> LlmSpec:
        if self.model and self.policy:
            raise fault("model and policy exclude each other; state one")
        if not self.model and not self.policy:
            raise fault("names no model", "takes: model: NAME, or policy: ROLE")
        return self

    @property
    def named(self) -> str:
        """Name of the model or policy, or role of the policy, as the file states it."""
        return self.model or self.policy or ""

    @field_validator("mcp")
    @classmethod
    def _checked_servers(cls, value: Mapping[str, McpServerSpec]) -> Mapping[str, McpServerSpec]:
        check_servers(value, get_args(ToolName))
        return value

    @field_validator("structured")
    @classmethod
    def _structured_calls_no_servers(cls, value: bool | None, info: ValidationInfo) -> bool | None:
        is_default = info.data.get("endpoint") is None  # answers are structured by default without an endpoint
        is_structured = is_default if value is None else value
        if info.data.get("mcp") and is_structured:
            raise fault("a structured answer cannot call the tools of MCP servers", "takes: structured: false")
        return value

    @field_validator("tool_choice")
    @classmethod
    def _required_fits(cls, value: str, info: ValidationInfo) -> str:
        is_possible = info.data.get("endpoint") is not None and not info.data.get("structured")
        if value == "required" and not is_possible:
            # "no schema holds": with `structured: false` or without `structured`, no JSON schema restricts the answers
            raise fault("required is for an endpoint, whose answers no schema holds", "here every answer is one call")
        return value

    @field_validator("strict")
    @classmethod
    def _strict_fits(cls, value: bool | None, info: ValidationInfo) -> bool | None:
        if value is None:
            return value
        if info.data.get("endpoint") is None:
            raise fault("strict is for an endpoint", "for a model of our own write: structured: false")
        needs_grammar = info.data.get("structured") or info.data.get("tool_choice") == "required"
        if not value and needs_grammar:
            raise fault(
                "strict: false contradicts structured: true and tool_choice: required",
                "each of them has every answer restricted by a grammar: leave one out",
            )
        return value

    @field_validator("logprobs", "grammar")
    @classmethod
    def _is_for_endpoint(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("endpoint") is None:
            raise fault("this is for an endpoint", "a model of our own says it itself: leave it out")
        return value


OneProposerSpec = Annotated[
    EvolveSpec | LawSearchSpec | ScreenSpec | EnumerateSpec | PluginSpec | LlmSpec, Field(discriminator="kind")
]


class SeveralSpec(Part):
    """Several proposers side by side, which share the ledger, the budget and the results so far."""

    kind: Literal["several"] = Field(description="Several proposers side by side.")
    proposers: dict[Annotated[str, Field(pattern=NAME)], OneProposerSpec] = Field(
        min_length=2, max_length=16, description="Each under a name of its own, which the report shows."
    )
    lead: Count = Field(
        24,
        description="How many proposals a fast proposer may be ahead of the slowest before it waits, so that a slow "
        "model gets its share of the budget.",
    )

    @field_validator("proposers")
    @classmethod
    def _no_proposer_waits(cls, value: dict[str, OneProposerSpec]) -> dict[str, OneProposerSpec]:
        with Faults() as faults:
            for name, proposer in value.items():
                if isinstance(proposer, EvolveSpec) and proposer.wait:
                    faults.add((name, "wait"), "only a proposer that is alone can wait for the first paid rung")
        return value

    @property
    def batch(self) -> int:
        """Largest batch of the proposers."""
        return max(proposer.batch for proposer in self.proposers.values())

    def files(self) -> Files:
        """Returns the names of files, by their path of keys in the proposer."""
        paths = {}
        for name, proposer in self.proposers.items():
            for where, file in proposer.files().items():
                paths[("proposers", name, *where)] = file
        return paths


ProposerSpec = Annotated[
    EvolveSpec | LawSearchSpec | ScreenSpec | EnumerateSpec | PluginSpec | LlmSpec | SeveralSpec,
    Field(discriminator="kind"),
]
