"""The description of rewards. It is read from YAML and never changes; each version of rewards keeps its hash."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from sciagent.domain.cost_and_budget import RESOURCE_UNITS
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.errors import UnknownNameError, UsageError, did_you_mean
from sciagent.inputs.yaml_document import Loc, read, read_text
from sciagent.inputs.yaml_validation import Faults, fault, keys_at, unknown_key, validated
from sciagent.rewards.reward_term_contract import RewardTerm, Unsettled, package_of, term_class, term_names

DecayBy = Literal["scaffold", "ring_system"]
Credit = Literal["outcome", "rtg", "marginal", "gigpo"]
Price = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=1e12)]
Weight = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1, le=1)]
Scale = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0)]
PREDICTION = "prediction"
"""The term whose settings are the key `prediction_scales`."""


def _known_resources(prices: Mapping[str, float]) -> Mapping[str, float]:
    """Returns the prices as they are. Raises a fault for an unknown resource."""
    for resource in prices:
        if resource not in RESOURCE_UNITS:
            known = ", ".join(RESOURCE_UNITS)
            raise fault(f"unknown resource {resource!r}{did_you_mean(resource, RESOURCE_UNITS)}", f"takes: {known}")
    return prices


class RewardSpec(BaseModel):
    """The rules by which rewards are computed from evidence."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    watermark: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        default=None, description="Evidence up to this watermark counts; left out: all that there is when published."
    )
    law: Annotated[int, Field(strict=True, ge=1)] | None = Field(
        default=None, description="Row of the law that values unsettled candidates; left out: the last one by then."
    )
    prices: Annotated[Mapping[str, Price], AfterValidator(_known_resources)] = Field(
        description="Price of one unit of each resource, in hits or utility. Resources without a price are free."
    )
    unsettled: Unsettled = Field(
        default="posterior",
        description="Worth of a candidate that the terminal rung has not answered: undecided, what the law expects, or "
        "the doubly robust estimate, which needs a known chance of having been verified.",
    )
    unsettled_limit: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = omitted_if_unset(
        None,
        description="Most that the unsettled candidates of an episode add together, in hits or utility, under "
        "posterior; left out: no limit.",
    )
    decay_by: DecayBy = omitted_if_unset(
        "scaffold",
        description="What candidates share that scaffold_decay counts: the Murcko scaffold, or any ring system. A ring "
        "that hangs on a chain makes another scaffold, but leaves the ring system that was there.",
    )
    scaffold_decay: Annotated[float, Field(strict=True, ge=0, le=4)] = Field(
        default=1.0,
        description="The k-th candidate of a scaffold, or with a ring system, in an episode counts k to the power of "
        "minus this.",
    )
    credit: Credit = Field(default="rtg", description="Estimator of the advantages.")
    terms: Mapping[str, Weight] = Field(
        default_factory=dict,
        description="Weights of named terms beside the evidence, by name of an installed term, such as `refused`. The "
        "docstring of its class says what it is.",
    )
    term_settings: Mapping[str, Mapping[str, Any]] = omitted_if_unset(
        default_factory=dict,
        description="Settings of terms, by name. After validation they are complete, with all defaults.",
    )
    term_versions: Mapping[str, str] = omitted_if_unset(
        default_factory=dict,
        description="Versions of the terms, by name; left out: those that are installed. No other can be computed.",
    )
    prediction_scales: Mapping[str, Scale] = omitted_if_unset(
        default_factory=dict,
        description="For the term `prediction`: by property, the CRPS at which a prediction earns nothing, in the "
        "property's own unit.",
    )
    terms_limit: Annotated[float, Field(strict=True, ge=0, lt=1)] = Field(
        default=0.2, description="Most that all terms of an episode add or take together, as a share of one hit."
    )

    @field_validator("terms")
    @classmethod
    def _are_installed(cls, terms: Mapping[str, float]) -> Mapping[str, float]:
        with Faults() as faults:
            for name in terms:
                try:
                    term_class(name)
                except UnknownNameError:
                    known = term_names()
                    message = f'no installed package offers the term "{name}"{did_you_mean(name, known)}'
                    faults.add((name,), message, f"installed: {', '.join(known)}", on_key=True)
                except UsageError as error:
                    faults.add((name,), str(error), on_key=True)
        return terms

    @model_validator(mode="after")
    def _is_consistent(self) -> RewardSpec:
        with Faults() as faults:
            if not any(self.prices.values()):
                hint = "give core_seconds a price, as in core_seconds: 0.0001 for one hit in 10,000 core-seconds"
                faults.add(("prices",), "no resource has a price, so that waste would cost nothing", hint)
            if self.unsettled_limit is not None and self.unsettled == "robust":
                faults.add(("unsettled_limit",), "a limit would bias unsettled: robust", "leave it out")
            if bool(self.prediction_scales) != bool(self.terms.get(PREDICTION)):
                hint = "as in terms: {prediction: 0.1} and prediction_scales: {homo_lumo_gap: 0.5}"
                faults.add(("prediction_scales",), "the term prediction and its scales need each other", hint)
        return self

    @model_validator(mode="after")
    def _complete_terms(self) -> RewardSpec:
        """Adds the versions and all settings of the terms, so that they enter the hash."""
        settings: dict[str, Mapping[str, Any]] = {}
        versions: dict[str, str] = {}
        with Faults() as faults:
            for key, stated in (("term_settings", self.term_settings), ("term_versions", self.term_versions)):
                for name in sorted(stated.keys() - self.terms.keys()):
                    hint = f"add its weight, as in terms: {{{name}: 0.1}}, or leave this out"
                    faults.add((key, name), f'the description has no term "{name}"', hint, on_key=True)
            if PREDICTION in self.term_settings:
                hint = "leave this out, and state its scales there"
                message = "its settings are the key prediction_scales"
                faults.add(("term_settings", PREDICTION), message, hint, on_key=True)
            for name in sorted(self.terms):
                kind = term_class(name)
                versions[name] = kind.version
                if self.term_versions.get(name, kind.version) != kind.version:
                    message = f"{package_of(name)} has version {kind.version} of the term, not this one"
                    hint = "install the package that has it, or leave the version out"
                    faults.add(("term_versions", name), message, hint)
                if name == PREDICTION:
                    continue
                complete = _complete(name, kind, self.term_settings, faults)
                if complete:
                    settings[name] = complete
        self.__dict__["term_settings"] = settings
        self.__dict__["term_versions"] = versions
        return self

    @property
    def hash(self) -> str:
        """SHA-256 of the description."""
        return content_hash(self.model_dump(mode="json"))

    def weight(self, k: int) -> float:
        """Returns the weight of the k-th candidate of a scaffold, k = 1, 2, ..."""
        return float(k**-self.scaffold_decay)

    def settings_of(self, name: str) -> Mapping[str, Any]:
        """Returns the settings of a term."""
        if name == PREDICTION:
            return {"scales": self.prediction_scales}
        return self.term_settings.get(name, {})


def _complete(
    name: str, kind: type[RewardTerm], stated: Mapping[str, Mapping[str, Any]], faults: Faults
) -> Mapping[str, Any]:
    """Returns the settings of a term as JSON, with their defaults.

    If the term does not take the settings, adds faults and returns an empty mapping. stated: the key `term_settings`.
    """
    place = ("term_settings", name)
    try:
        return kind.Settings.model_validate(stated.get(name, {})).model_dump(mode="json")
    except ValidationError as error:
        if name in stated:
            faults.take_all(place, error)
        else:
            needs = ", ".join(key for key, field in kind.Settings.model_fields.items() if field.is_required())
            faults.add(("terms", name), f"the term needs settings: {needs}", f"state them under term_settings: {name}")
    except Exception as error:  # noqa: BLE001  a package may raise anything
        what = f"{type(error).__name__}: {error}"
        faults.add(place, f"the term of {package_of(name)} fails with these settings: {what}")
    return {}


def load_rewards(path: Path) -> RewardSpec:
    """Reads a description of rewards. Raises SpecError, with all mistakes by line."""
    document = read(read_text(path), kind="a description of rewards", opens="unsettled: RULE")
    return validated(document, str(path), RewardSpec, unknown=_unknown_key)


def _unknown_key(loc: Loc, data: Any, root: type[BaseModel]) -> tuple[str, str]:
    """Returns message and hint for an unknown key. The keys at `term_settings.NAME` are settings of the term."""
    is_setting_of_term = loc[0] == "term_settings" and len(loc) >= 3
    if not is_setting_of_term:
        return unknown_key(loc, data, root)
    name = str(loc[1])
    known = keys_at(loc[2:-1], data["term_settings"][name], term_class(name).Settings)
    hint = f'the term "{name}" takes: {", ".join(known) or "no settings"}' if len(loc) == 3 else ""
    return f"unknown setting{did_you_mean(str(loc[-1]), known)}", hint
