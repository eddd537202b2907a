"""Restricted campaign files: no field of the whole schema names anything that is not registered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from sciagent.campaign.file.allow_list import AllowList, read_allow_list
from sciagent.campaign.file.campaign_spec import CampaignSpec, check_registered, parse_spec
from sciagent.errors import SpecError, UsageError
from sciagent.inputs.names_outside_the_file import Outside, names_in
from sciagent.verification.verifier_registry import provider, verifier_class
from tests.campaign.fake_verifiers import CAMPAIGN, make_folder  # noqa: F401

WORD = "w"  # a text in place of each field that takes one
# fields that take any text and name nothing beyond the file; a field that is missing here needs a mark or a line
HARMLESS = {
    "BandsSettings": "semicore",
    "BenchLeadSettings": "lead",  # a SMILES
    "BestRungSpec": "rung",
    "BudgetSpec": "until",
    "CalibrateSpec": "level",
    "CampaignSpec": "campaign description subject terminal",
    "Criterion": "name question scale",
    "CrystalChecksSettings": "elements forbid_elements require_elements",
    "CrystalFile": "column name sha256",
    "CrystalSafetySettings": "allow",
    "DerivedSpec": "formula property unit",
    "EnumerateSpec": "column groups reactants reaction scaffold",  # groups and reactants as lists of SMILES
    "EvolveSpec": "column keep",
    "LawSearchSpec": "column from keep law",
    "ExpertReviewSettings": "grades question",
    "ExtraElements": "elements name reason",
    "ExtraElementsSpec": "elements name reason",
    "ExtraPattern": "name reason smarts",
    "ExtraSmartsSpec": "name reason smarts",
    "ForceFieldCell": "correction functional model",
    "ForceFieldSettings": "correction functional model",
    "GateSpec": "unit",
    "GaussianScfSettings": "basis functional keywords",
    "JudgeSettings": "model version",
    "LabMeasurementSettings": "conditions method quantities",
    "LabSpec": "units",
    "LawSpec": "from",
    "FilterSpec": "from law",
    "LlmSpec": "column keep model policy",
    "McpServerSpec": "tools",
    "LiquidSettings": "rdf",
    "MlffMdSettings": "correction functional model rdf species",
    "MlffMoleculeSettings": "model",
    "MlffRelaxSettings": "correction functional model second_model",
    "MoleculeChecksSettings": "elements forbid_smarts require_smarts",
    "MoleculeSafetySettings": "allow",
    "ObjectiveSpec": "property unit",
    "PatternFile": "name sha256",
    "PluginSpec": "column keep settings",  # only a registered plug-in reads its settings
    "ProgramScfSettings": "basis functional keywords",
    "ReferenceFile": "name sha256",
    "RoutesSettings": "settings version",  # the same
    "Rubric": "goal name",
    "RungSpec": "rung verifier",
    "SafetySpec": "allow reason",
    "ScreenSpec": "column keep",
    "StructureFile": "column name sha256",
}


def texts(schema: Mapping[str, Any], whole: Mapping[str, Any], field: str, seen: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yields (field, data) for each way to put a text into data of a JSON schema, wherever one is taken."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if name not in seen:
            yield from texts(whole["$defs"][name], whole, name, (*seen, name))
        return
    for member in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from texts(member, whole, field, seen)
    if "properties" in schema:
        title = str(schema["title"])
        kind = schema["properties"].get("kind", {}).get("const")
        for key, value in schema["properties"].items():
            for found, data in texts(value, whole, f"{title}.{key}", seen):
                yield found, {key: data} if kind is None else {"kind": kind, key: data}
        return
    takes_anything = not set(schema) & {"type", "anyOf", "oneOf", "allOf", "const", "enum"}
    is_text = schema.get("type") == "string" and not set(schema) & {"const", "enum"}
    if takes_anything or is_text:
        yield field, WORD
    elif schema.get("type") == "array":
        for inner in (*schema.get("prefixItems", ()), *([schema["items"]] if "items" in schema else [])):
            for found, data in texts(inner, whole, field, seen):
                yield found, [data]
    elif schema.get("type") == "object":
        inner = schema.get("additionalProperties", {})
        values = [*schema.get("patternProperties", {}).values()] or [inner if isinstance(inner, dict) else {}]
        for value in values:
            for found, data in texts(value, whole, field, seen):
                yield found, {"1": data}


def fields() -> list[tuple[str, dict[str, Any]]]:
    """Returns each field of a campaign file that takes a text, with the data of a file that has the text there."""
    whole = CampaignSpec.model_json_schema()
    found = [each for each in texts(whole, whole, "") if each[0] != "RungSpec.settings"]
    for name in entry_points(group="sciagent.verifiers").names:
        if not provider(name).startswith("sciagent "):
            continue
        schema = verifier_class(name).Settings.model_json_schema()
        for field, data in texts(schema, schema, ""):
            found.append((field, {"ladder": [{"verifier": name, "settings": data}]}))
    return found


def test_each_field_that_takes_a_text_is_marked_or_known_to_be_harmless() -> None:
    unmarked = {field for field, data in fields() if not names_in(data, CampaignSpec)}
    harmless = {f"{model}.{key}" for model, keys in HARMLESS.items() for key in keys.split()}
    assert unmarked == harmless, "mark the field (Outside), or add it to the list here"


def test_an_empty_list_allows_none_of_the_fields_that_name_something(tmp_path: Path) -> None:
    found: dict[str, set[Outside]] = {}
    for field, data in fields():
        for name in names_in(data, CampaignSpec):
            found.setdefault(field, set()).add(name.kind)
            assert not AllowList().allows(name, tmp_path), field
    assert {field: kinds for field, kinds in found.items() if kinds != {Outside.FILE}} == {
        "McpServerSpec.command": {Outside.COMMAND},
        "McpServerSpec.url": {Outside.ADDRESS},
        "McpServerSpec.token_env": {Outside.VARIABLE},
        "LlmSpec.endpoint": {Outside.ADDRESS},
        "LlmSpec.api_key_env": {Outside.VARIABLE},
        "JudgeSettings.endpoint": {Outside.ADDRESS},
        "JudgeSettings.api_key_env": {Outside.VARIABLE},
        "PluginSpec.name": {Outside.PLUGIN},
        "PluginSpec.file": {Outside.CODE},
        "RoutesSettings.finder": {Outside.PLUGIN},
        "ReferenceFile.path": {Outside.FILE, Outside.CODE},  # of a protocol; of weights
    }
    assert {field for field, kinds in found.items() if kinds == {Outside.FILE}} == {
        *(
            "EvolveSpec.seeds",
            "LawSearchSpec.seeds",
            "ScreenSpec.file",
            "PluginSpec.seeds",
            "LlmSpec.seeds",
            "LlmSpec.skills",
        ),
        *("EnumerateSpec.groups", "EnumerateSpec.reactants", "JudgeSettings.rubric"),
        *("StructureFile.path", "CrystalFile.path", "PatternFile.path", "MolScoreData.path"),
    }


LLM = """\
  kind: llm
  model: m
  structured: false
  endpoint: http://127.0.0.1:8000/v1
  api_key_env: MODEL_KEY
  seeds: seeds.csv
  mcp:
    x:
      command: [sh, -c, "id > PWNED"]
      tools: [search]
"""
RESTRICTED = CAMPAIGN.replace("  kind: evolve\n  seeds: seeds.csv\n", LLM)


def refusals(text: str, base: Path, allowed: AllowList) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "sent.yaml", base, allowed=allowed)
    return [line for line in str(caught.value).splitlines() if not line.startswith(" ")]


def test_a_restricted_file_says_where_it_names_what_and_who_may_register_it(folder: Path) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(RESTRICTED, "sent.yaml", folder, allowed=AllowList())
    lines = str(caught.value).splitlines()
    line = RESTRICTED[: RESTRICTED.index("command: [sh")].count("\n") + 1
    place = f"sent.yaml:{line}:16: proposer.mcp.x.command"
    assert f"""{place}: names the command "sh -c 'id > PWNED'", which is not registered here""" in lines
    assert "  an administrator may register it, under commands in the list of sciagent dispatcher --allow" in lines
    named = re.findall(r"names the ([a-z ]+) \"", str(caught.value))
    assert sorted(named) == ["command", "endpoint", "environment variable", "file"]


def test_what_is_registered_passes_and_nothing_beside_it(folder: Path) -> None:
    allowed = AllowList(
        commands=(("sh", "-c", "id > PWNED"),),
        endpoints=("http://127.0.0.1:8000",),
        variables=("MODEL_KEY",),
        folders=(str(folder),),
    )
    spec = parse_spec(RESTRICTED, base=folder, allowed=allowed)
    assert spec.allowed is allowed and parse_spec(RESTRICTED, base=folder).allowed is None
    assert spec.hash == parse_spec(RESTRICTED, base=folder).hash
    for changed, place in {
        RESTRICTED.replace("id > PWNED", "id"): "mcp.x.command",
        RESTRICTED.replace(":8000/v1", ":8001/v1"): "endpoint",
        RESTRICTED.replace("http://127", "https://127"): "endpoint",
        RESTRICTED.replace("127.0.0.1:8000/v1", "127.0.0.1:8000@evil.example/"): "endpoint",
        RESTRICTED.replace("MODEL_KEY", "HOME"): "api_key_env",
        RESTRICTED.replace("seeds: seeds.csv", "seeds: ../seeds.csv"): "seeds",
        RESTRICTED.replace("seeds: seeds.csv", "seeds: /etc/passwd"): "seeds",
    }.items():
        [line] = refusals(changed, folder, allowed)
        assert f"proposer.{place}: names " in line


def test_a_file_of_an_upload_is_read_and_a_link_out_of_it_is_not(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    allowed = AllowList().with_folder(folder)
    assert parse_spec(CAMPAIGN, base=folder, allowed=allowed).proposers
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.csv"
    secret.write_text("smiles\nCCO\n", encoding="utf-8")
    (folder / "link.csv").symlink_to(secret)
    structures = folder / "structures"
    structures.mkdir()
    (structures / "a.csv").symlink_to(secret)
    for name in ("link.csv", "structures"):
        [line] = refusals(CAMPAIGN.replace("seeds.csv", name), folder, allowed)
        assert f'names the file "{name}"' in line


def test_no_file_is_opened_for_a_name_that_is_not_registered(folder: Path) -> None:
    # whether a file exists, and its hash, would be in the message of whoever opens it
    there, gone = (CAMPAIGN.replace("seeds.csv", name) for name in ("/etc/passwd", "/etc/no-such-file"))
    [first], [second] = (refusals(text, folder, AllowList()) for text in (there, gone))
    assert first.replace("passwd", "no-such-file") == second


def test_weights_are_code_even_in_a_registered_folder(tmp_path: Path) -> None:
    (tmp_path / "w.pth").write_bytes(b"")
    text = "ladder: [{verifier: mlff.relax, settings: {weights: W}}]"
    for weights in ("w.pth", "{path: w.pth}"):
        with pytest.raises(SpecError, match=r'names a file that can run code, "w.pth".*\n.*under code in the list'):
            check_registered(text.replace("W", weights), "a", tmp_path, AllowList(folders=(str(tmp_path),)))
        check_registered(text.replace("W", weights), "a", tmp_path, AllowList(code=(str(tmp_path / "w.pth"),)))


def test_a_route_finder_of_sciagent_itself_needs_no_entry(tmp_path: Path) -> None:
    text = "ladder: [{verifier: molecule.synthesis, settings: {routes: NAME}}]"
    check_registered(text.replace("NAME", "brics"), "a", tmp_path, AllowList())
    with pytest.raises(SpecError, match='names the plug-in "askcos"'):
        check_registered(text.replace("NAME", "{finder: askcos}"), "a", tmp_path, AllowList())


def written(folder: Path, text: str, mode: int = 0o644) -> Path:
    path = folder / "allow.yaml"
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("commands: [[tools/server]]", "depends on the folder"),
        ("endpoints: ['http://h/v1']", "takes scheme, host and port"),
        ("endpoints: ['http://me@h']", "takes scheme, host and port"),
        ("endpoints: ['http://h:99999']", "takes scheme, host and port"),
        ("folders: [campaigns]", "no absolute path"),
        ("variables: [sk-123]", "is no name"),
        ("command: [[ls]]", 'did you mean "commands"?'),
    ],
)
def test_a_mistake_in_the_list_is_found_at_its_place(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(SpecError, match=r"allow.yaml:1:\d+: ") as caught:
        read_allow_list(written(tmp_path, text))
    assert fault in str(caught.value)


def test_a_list_that_others_may_write_is_not_taken(tmp_path: Path) -> None:
    assert read_allow_list(written(tmp_path, "folders: [/campaigns]")) == AllowList(folders=("/campaigns",))
    with pytest.raises(UsageError, match="others may write this list"):
        read_allow_list(written(tmp_path, "folders: [/campaigns]", 0o664))
    with pytest.raises(UsageError, match="no-such-list"):
        read_allow_list(tmp_path / "no-such-list.yaml")
