from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sciagent.campaign.file.campaign_spec import CampaignSpec, campaign_schema, load_spec, parse_spec
from sciagent.errors import SpecError
from tests.campaign.fake_verifiers import CAMPAIGN, make_folder  # noqa: F401

# what is replaced, by what, line:column, path, part of the message
MISTAKES = {
    "unknown key": ("seed: 1", "sed: 1", "4:1", "sed", 'unknown key; did you mean "seed"?'),
    "missing key": ("campaign: dyes\n", "", "1:1", "campaign", "required, and missing"),
    "empty value": ("seed: 1", "seed:", "4:1", "seed", "has no value"),
    "name": ("campaign: dyes", "campaign: My Dyes", "1:11", "campaign", '"My Dyes" is no name'),
    "number for text": ("description: gaps", "description: 12", "2:14", "description", "put it in quotes"),
    "text for number": ("seed: 1", "seed: one", "4:7", "seed", 'must be a whole number, not the text "one"'),
    "boolean for number": ("scale: 0.5", "scale: true", "9:12", "objectives[0].scale", "not true (a boolean)"),
    "choice": ("molecule", "molecul", "3:10", "subject", 'did you mean "molecule"?'),
    "property": ("property: homo_lumo_gap", "property: homo_lum_gap", "6:15", "objectives[0].property",
                 "homo_lumo_gap"),
    "unit": ("unit: eV", "unit: ev", "8:11", "objectives[0].unit", 'not given in "ev"'),
    "no unit": ("    unit: eV\n", "", "6:5", "objectives[0].unit", "needs a unit"),
    "window upside down": ("[4.0, 4.6]", "[4.6, 4.0]", "7:13", "objectives[0].window", "lies above the upper"),
    "window of three": ("[4.0, 4.6]", "[4, 5, 6]", "7:13", "objectives[0].window", "two numbers"),
    "window nowhere": ("[4.0, 4.6]", "[70, 80]", "7:13", "objectives[0].window", "no value can lie here"),
    "nan": ("[4.0, 4.6]", "[4.0, .nan]", "7:19", "objectives[0].window[1]", ".nan is not a finite number"),
    "infinity": ("core_seconds: 3600", "core_seconds: .inf", "24:17", "budget.core_seconds", "not a finite number"),
    "overflow": ("core_seconds: 3600", "core_seconds: 1e999", "24:17", "budget.core_seconds", "not a finite number"),
    "negative": ("core_seconds: 3600", "core_seconds: -1", "24:17", "budget.core_seconds", "at least 0, not -1"),
    "zero weight": ("scale: 0.5", "weight: 0", "9:13", "objectives[0].weight", "greater than 0"),
    "two wishes": ("scale: 0.5", "maximise: [1, 2]", "9:15", "objectives[0].maximise", "exclude each other"),
    "window and limit": ("scale: 0.5", "max: 5", "9:10", "objectives[0].max", "exclude each other"),
    "no wish": ("window: [4.0, 4.6]", "weight: 1", "6:5", "objectives[0]", "says nothing"),
    "ramp": ("window: [4.0, 4.6]", "maximise: [5, 4]", "7:15", "objectives[0].maximise", "worst below best"),
    "hits without limits": ("window: [4.0, 4.6]\n    unit: eV\n    scale: 0.5", "minimise: [5, 4]\n    unit: eV",
                            "21:14", "goal.kind", "hits need acceptance limits"),
    "measured by none": ("property: homo_lumo_gap\n    window: [4.0, 4.6]\n    unit: eV", "property: logp\n    max: 3",
                         "6:15", "objectives[0].property", 'no rung up to the terminal "dft" measures "logp"'),
    "verifier": ("fake.scf", "fake.scff", "16:15", "ladder[1].verifier", 'did you mean "fake.scf"?'),
    "verifier of crystals": ("verifier: fake.checks", "verifier: fake.lattice", "12:15", "ladder[0].verifier",
                             "is for a crystal, not a molecule"),
    "setting": ("functional:", "functonal:", "18:7", "ladder[1].settings.functonal", 'did you mean "functional"?'),
    "setting of a setting": ("conformers: 3", "conformer: 3", "19:32", "ladder[1].settings.geometry.conformer",
                             'did you mean "conformers"?'),
    "value of a setting": ("method: gfn2", "method: gfn", "19:26", "ladder[1].settings.geometry.method", "gfn2"),
    "type of a setting": ("conformers: 3", "conformers: {}", "19:44", "ladder[1].settings.geometry.conformers",
                          "number"),
    "gate not measured": ("sa_score: {", "sascore: {", "14:7", "ladder[0].gate.sascore", 'did you mean "sa_score"?'),
    "gate without limits": ("{max: 4}", "{}", "14:17", "ladder[0].gate.sa_score", "needs min, max or both"),
    "gate with a foreign unit": ("{max: 4}", "{max: 4, unit: eV}", "14:32", "ladder[0].gate.sa_score.unit", "eV"),
    "gate upside down": ("{max: 4}", "{max: 4, min: 5}", "14:31", "ladder[0].gate.sa_score.min", "lies above"),
    "unknown key in a gate": ("{max: 4}", "{maxi: 4}", "14:18", "ladder[0].gate.sa_score.maxi", 'did you mean "max"?'),
    "limit too large": ("wall_seconds: 120", "wall_seconds: 1e12", "20:28", "ladder[1].limits.wall_seconds",
                        "most 1e+09"),
    "memory below a megabyte": ("wall_seconds: 120", "memory_mb: 0.5", "20:25", "ladder[1].limits.memory_mb",
                                "least 1"),
    "number too large to square": ("[4.0, 4.6]", "[4.0, 1e308]", "7:19", "objectives[0].window[1]", "is too large"),
    "gate too large to convert": ("{max: 4}", "{max: 1e308}", "14:23", "ladder[0].gate.sa_score.max", "is too large"),
    "limit of zero": ("wall_seconds: 120", "wall_seconds: 0", "20:28", "ladder[1].limits.wall_seconds", "than 0"),
    "label twice": ("rung: checks", "rung: dft", "15:11", "ladder[1].rung", '"dft" also labels ladder[0]'),
    "label": ("rung: checks", "rung: Checks", "11:11", "ladder[0].rung", '"Checks" is no name'),
    "terminal": ("terminal: dft", "terminal: dtf", "21:11", "terminal", 'labelled "dtf"; did you mean "dft"?'),
    "budget of no rung": ("rungs: {dft: 12}", "rungs: {dtf: 12}", "25:11", "budget.rungs.dtf", "no rung is labelled"),
    "budget of half a row": ("{dft: 12}", "{dft: 1.5}", "25:16", "budget.rungs.dft", "must be a whole number"),
    "no budget": ("budget:\n  core_seconds: 3600\n  rungs: {dft: 12}", "budget: {}", "23:9", "budget", "is empty"),
    "goal": ("kind: hits", "kind: hit", "22:14", "goal.kind", 'did you mean "hits"?'),
    "goal of none": ("count: 5", "count: 0", "22:27", "goal.count", "at least 1"),
    "proposer": ("kind: evolve", "kind: evolv", "27:9", "proposer.kind", 'did you mean "evolve"?'),
    "proposer without kind": ("  kind: evolve\n", "", "26:1", "proposer.kind", "required, and missing"),
    "key of another kind": ("kind: evolve", "kind: screen\n  file: seeds.csv", "29:3", "proposer.seeds", "unknown key"),
    "scheduler": ("thresholds}", "treshold}", "29:19", "scheduler.kind", 'did you mean "thresholds"?'),
    "seeds missing": ("seeds: seeds.csv", "seeds: none.csv", "28:10", "proposer.seeds", "does not exist"),
    "seeds a folder": ("seeds: seeds.csv", "seeds: folder.csv", "28:10", "proposer.seeds", "not a regular file"),
    "seeds of no format": ("seeds: seeds.csv", "seeds: seeds.xlsx", "28:10", "proposer.seeds", "no table of molecules"),
    "list for mapping": ("goal: {kind: hits, count: 5}", "goal: [hits]", "22:7", "goal", "a mapping, not a list"),
    "mapping for list": ("workers: 2", "workers: {}", "30:10", "workers", "must be a whole number, not a mapping"),
    "key twice": ("workers: 2", "seed: 2", "30:1", "seed", "stands here twice; the first is in line 4"),
    "alias": ("workers: 2", "workers: &a 2", "30:10", "workers", "anchors and aliases"),
    "tag": ("workers: 2", "workers: !!python/object:os.system 2", "30:10", "workers", "the tag"),
    "date": ("description: gaps", "description: 2026-01-01", "2:14", "description", "put it in quotes"),
    "huge number": ("seed: 1", "seed: 99999999999999999999", "4:7", "seed", "64 bits"),
    "null byte in text": ("description: gaps", 'description: "a\\0b"', "2:14", "description", "null byte"),
    "bracket left open": ("[4.0, 4.6]", "[4.0, 4.6", "7:13", "", "not closed with ]"),
    "tab": ("seed: 1", "seed: 1\n\tx: 2", "5:1", "", "a tab indents this line"),
    "null byte": ("gaps", "ga\0ps", "2:16", "", "U+0000"),
    "bad escape": ("gaps", '"\\UFFFFFFFF"', "2:", "", "not YAML"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_at_its_line_and_column(name: str, folder: Path) -> None:
    old, new, place, path, fragment = MISTAKES[name]
    assert CAMPAIGN.count(old) == 1
    (folder / "folder.csv").mkdir()
    file = folder / "dyes.yaml"
    file.write_text(CAMPAIGN.replace(old, new))
    with pytest.raises(SpecError) as caught:
        load_spec(file)
    places = [line for line in str(caught.value).splitlines() if not line.startswith("  ")]
    assert len(places) == 1, str(caught.value)
    start = f"{file}:{place}"
    assert places[0].startswith(start if place.endswith(":") else f"{start}: {path}{': ' if path else ''}")
    assert fragment in str(caught.value)


def test_the_campaign_of_the_table_is_right(folder: Path) -> None:
    assert parse_spec(CAMPAIGN, base=folder).campaign == "dyes"


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(folder: Path) -> None:
    text = CAMPAIGN
    chosen = (
        "choice",
        "unit",
        "gate not measured",
        "setting",
        "terminal",
        "goal of none",
        "budget of no rung",
        "alias",
    )
    for name in chosen:
        text = text.replace(*MISTAKES[name][:2])
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "dyes.yaml", folder)
    places = [line for line in str(caught.value).splitlines() if not line.startswith("  ")]
    assert [line.split(": ")[0] for line in places] == [f"dyes.yaml:{MISTAKES[name][2]}" for name in chosen]


def test_a_second_line_says_what_is_allowed(folder: Path) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(CAMPAIGN.replace("functional:", "functonal:"), "dyes.yaml", folder)
    assert str(caught.value) == (
        'dyes.yaml:18:7: ladder[1].settings.functonal: unknown setting; did you mean "functional"?\n'
        '  verifier "fake.scf" takes: functional, basis, dispersion, geometry'
    )


@pytest.mark.parametrize(
    ("raw", "place", "fragment"),
    [
        (b"", "1:1", "the file is empty"),
        (b"# only a comment\n", "1:1", "the file is empty"),
        (b"- a\n- b\n", "1:1", "the file holds a list"),
        (b"just text", "1:1", 'the file holds the text "just text"'),
        (b"campaign: a\n---\ncampaign: b\n", "2:1", "a second document"),
        (b"campaign: a\nx: caf\xe9\n", "2:7", "byte 0xe9 is not UTF-8"),
        ("campaign: a\n".encode("utf-16"), "1:1", "save the file as UTF-8"),
        (b"a: " + b"[" * 100_000, "1:1", "levels deep"),
        (b"a: " + b"- " * 60 + b"x", "1:4", "not YAML"),
        (b"a:\n " + b"- " * 60 + b"x", "2:", "levels deep"),
        (b"a:\n " + b"- " * 2000 + b"x", "1:1", "levels deep"),
        (b"#" * 1_000_001, "1:1", "it may have 1000000"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused_with_its_place(
    raw: bytes, place: str, fragment: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(raw)
    with pytest.raises(SpecError) as caught:
        load_spec(file)
    line = next(line for line in str(caught.value).splitlines() if fragment in line)
    assert line.startswith(f"{file}:{place}")


def test_aliases_do_not_multiply() -> None:
    lines = ['a: &a ["x", "x"]'] + [
        f"{b}: &{b} [*{a}, *{a}, *{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    with pytest.raises(SpecError, match="anchors and aliases"):
        parse_spec("\n".join(lines))


def test_a_folder_a_pipe_and_nothing_are_no_campaign_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing.yaml"):
        with pytest.raises(SpecError, match=r":1:1: (not a regular file|cannot be read)"):
            load_spec(path)


def test_a_byte_order_mark_and_windows_line_ends_are_read(folder: Path) -> None:
    file = folder / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + CAMPAIGN.replace("\n", "\r\n").encode())
    assert load_spec(file).hash == parse_spec(CAMPAIGN, base=folder).hash


def test_words_and_numbers_read_as_in_yaml_1_2(folder: Path) -> None:
    spec = parse_spec(CAMPAIGN.replace("gaps", "no").replace("scale: 0.5", "scale: 5e-1"), base=folder)
    assert (spec.description, spec.objectives[0].scale) == ("no", 0.5)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200) | st.text("[]{}:,-&*!|>'\"%@#? \n\t0.aeE\\x<", max_size=80))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    with pytest.raises(SpecError, match=r"^campaign\.yaml:\d+:\d+: "):
        parse_spec(text)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_change_of_a_campaign_is_read_or_refused_with_a_place(folder: Path, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(CAMPAIGN)))
    length = data.draw(st.integers(0, 30))
    filling = data.draw(
        st.text(max_size=10) | st.sampled_from(["null", "[]", "{}", "- ", "\n", "1", "'a'", ".nan", "*a"])
    )
    try:
        parse_spec(CAMPAIGN[:start] + filling + CAMPAIGN[start + length :], "a.yaml", folder)
    except SpecError as error:
        assert str(error).startswith("a.yaml:")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PATHS = [(key,) for key in CampaignSpec.model_fields] + [
    ("objectives", 0),
    ("objectives", 0, "window"),
    ("ladder", 1),
    ("ladder", 1, "settings"),
    ("ladder", 0, "gate"),
    ("ladder", 0, "gate", "sa_score"),
    ("ladder", 1, "verifier"),
    ("ladder", 1, "limits"),
    ("proposer", "seeds"),
    ("ladder", 1, "settings", "geometry"),
    ("budget", "rungs"),
    ("proposer", "kind"),
    ("goal", "kind"),
]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(PATHS), json_values)
def test_any_value_anywhere_is_read_or_refused_with_a_place(
    folder: Path, path: tuple[str | int, ...], value: object
) -> None:
    from sciagent.inputs.yaml_document import read

    whole = read(CAMPAIGN).data
    here = whole
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    try:
        parse_spec(json.dumps(whole), "a.yaml", folder)
    except SpecError as error:
        assert str(error).startswith("a.yaml:")


def test_the_schema_lists_every_key_with_a_description() -> None:
    schema = campaign_schema()
    assert set(schema["properties"]) == set(CampaignSpec.model_fields)
    json.dumps(schema, allow_nan=False)
    for model in [schema, *schema["$defs"].values()]:
        assert model["type"] == "object" and model["additionalProperties"] is False
        assert all("description" in one for one in model["properties"].values()), model["title"]
    named = set(schema["$defs"])
    used = set(part.split('"')[0] for part in json.dumps(schema).split("#/$defs/")[1:])
    assert used == named


SHIPPED = """\
campaign: quickstart
subject: molecule
objectives:
  - {property: homo_lumo_gap, window: [4.0, 4.6], unit: eV}
ladder:
  - verifier: molecule.checks
    gate: {sa_score: {max: 4}}
  - {rung: gfn2, verifier: xtb.singlepoint, gate: {homo_lumo_gap: {min: 1, unit: eV}}}
  - rung: dft
    verifier: pyscf.scf
    settings:
      functional: PBE0
goal: {kind: hits, count: 5}
budget: {rungs: {dft: 12}}
proposer: {kind: evolve, seeds: seeds.csv}
"""


def test_the_verifiers_that_ship_make_a_ladder(tmp_path: Path) -> None:
    (tmp_path / "seeds.csv").write_text("smiles\nCCO\n")
    spec = parse_spec(SHIPPED, base=tmp_path)
    assert [(rung.rung, rung.tier.value) for rung in spec.ladder] == [
        ("molecule_safety", "fast"),
        ("molecule_checks", "fast"),
        ("gfn2", "simulation"),
        ("dft", "high_fidelity"),
    ]
    assert spec.terminal == "dft"


def test_a_mistake_in_the_settings_of_a_shipped_verifier(tmp_path: Path) -> None:
    (tmp_path / "seeds.csv").write_text("smiles\nCCO\n")
    with pytest.raises(SpecError) as caught:
        parse_spec(SHIPPED.replace("functional", "functonal"), "q.yaml", tmp_path)
    first, second = str(caught.value).splitlines()
    assert first == 'q.yaml:12:7: ladder[2].settings.functonal: unknown setting; did you mean "functional"?'
    assert second.startswith('  verifier "pyscf.scf" takes: functional, basis')
