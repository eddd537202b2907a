"""A site profile: what is wrong in it is said with line and column, and nothing hostile gets through."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from sciagent.errors import NoPartitionError, SpecError, UsageError
from sciagent.execution.slurm.array_folders_submission_and_polling import render
from sciagent.execution.slurm.site_profile import (
    RESERVED,
    AbsolutePath,
    Module,
    Name,
    Need,
    Option,
    SiteProfile,
    Value,
    Variable,
    choose_partition,
    load_site,
    memory_mb,
    need_of,
    parse_site,
    wall_minutes,
)

PROFILE = """\
site: hpc
partitions:
  - name: short
    max_minutes: 240
    max_memory_mb: 64000
    max_cores: 16
    account: chem-1
python: /home/me/venv/bin/python
spool: /scratch/me/spool
modules: [gcc/12.2, python/3.11]
environment: {OMP_NUM_THREADS: "1"}
options: ["--constraint=skylake"]
"""

# what is replaced, by what, line:column, path, part of the message
MISTAKES = {
    "unknown key": ("    account:", "    acount:", "7:5", "partitions[0].acount", 'did you mean "account"?'),
    "missing": ("python: /home/me/venv/bin/python\n", "", "1:1", "python", "required, and missing"),
    "empty value": ("site: hpc", "site:", "1:1", "site", "has no value"),
    "text for number": ("240", "four", "4:18", "partitions[0].max_minutes", "must be a whole number"),
    "quoted number": ("240", '"240"', "4:18", "partitions[0].max_minutes", "must be a whole number"),
    "zero": ("240", "0", "4:18", "partitions[0].max_minutes", "must be at least 1"),
    "a number in the environment": ('"1"', "1", "11:32", "environment.OMP_NUM_THREADS", "put it in quotes"),
    "a shell in a name": ("name: short", "name: short;id", "3:11", "partitions[0].name", "'short;id' is not taken"),
    "a shell in a value": ('"1"', '"$(id)"', "11:32", "environment.OMP_NUM_THREADS", "no quotes, no $"),
    "a shell in a module": ("gcc/12.2", "gcc;id", "10:11", "modules[0]", "the name of a module"),
    "a relative python": ("/home/me/venv", "venv", "8:9", "python", 'a path from "/" on'),
    "a folder above": ("/scratch/me", "/scratch/../me", "9:8", "spool", 'no folder "." or ".."'),
    "a pattern of Slurm": ("/scratch/me", "/scratch/%u", "9:8", "spool", "is not taken here"),
    "a reserved option": ("--constraint=skylake", "--partition=x", "12:11", "options[0]", "cannot be given here"),
    "a short reserved option": ("--constraint=skylake", "--wra=id", "12:11", "options[0]", "it is short for --wrap"),
    "an option in two words": ("--constraint=skylake", "--constraint a", "12:11", "options[0]", "--key=value"),
    "an option of one letter": ("--constraint=skylake", "-pshort", "12:11", "options[0]", "--key=value"),
    "below the minimum": ("240", "3", "4:18", "partitions[0].max_minutes", "below wall.minimum_minutes (5)"),
}


@pytest.mark.parametrize(("old", "new", "where", "path", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_at_its_line_and_says_what_would_be_right(
    old: str, new: str, where: str, path: str, said: str
) -> None:
    assert old in PROFILE
    with pytest.raises(SpecError) as caught:
        parse_site(PROFILE.replace(old, new, 1))
    lines = str(caught.value).split("\nsite.yaml:")
    assert len(lines) == 1, caught.value
    assert lines[0].startswith(f"site.yaml:{where}: {path}: ")
    assert said in lines[0]


def test_mistakes_are_reported_together_in_the_order_of_the_file() -> None:
    with pytest.raises(SpecError) as caught:
        parse_site(PROFILE.replace("hpc", "h p").replace("/scratch/me/spool", "spool").replace("python:", "pyton:"))
    found = [line for line in str(caught.value).splitlines() if line.startswith("site.yaml:")]
    assert [line.split(":")[3].strip() for line in found] == ["python", "site", "pyton", "spool"]


def test_a_file_is_read_and_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "hpc.yaml"
    with pytest.raises(SpecError, match=r"hpc.yaml:1:1: cannot be read: No such file"):
        load_site(file)
    file.write_text(PROFILE)
    site = load_site(file)
    assert (site.site, site.partitions[0].account, site.options) == ("hpc", "chem-1", ("--constraint=skylake",))
    file.write_text("- a\n")
    with pytest.raises(SpecError, match="a site profile is a mapping that opens with `site: name`"):
        load_site(file)


HOSTILE = [
    "a b",
    "a;b",
    "a\nb",
    "$(id)",
    "`id`",
    "a'b",
    'a"b',
    "a|b",
    "a&b",
    "a>b",
    "a\\b",
    "a\0b",
    "-a",
    "",
    "é",
    "a\n",
]


@pytest.mark.parametrize(
    "kind", [Name, Module, Variable, AbsolutePath, Option], ids=["name", "module", "variable", "path", "option"]
)
@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_a_hostile_text_is_taken_nowhere(kind: object, text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(text)


@given(text=st.text())
def test_what_is_taken_means_nothing_to_a_shell(text: str) -> None:
    try:
        TypeAdapter(Value).validate_python(text)
    except ValidationError:
        return
    assert text.isascii() and text.isprintable() and not set(text) & set("\"'`$\\;&|<>()[]{}*?!#~^")


@pytest.mark.parametrize("name", RESERVED)
def test_an_option_that_we_set_is_refused_also_when_it_is_cut_short(name: str) -> None:
    for cut in range(1, len(name) + 1):
        if name[:cut].endswith("-"):
            continue
        with pytest.raises(ValidationError):
            TypeAdapter(Option).validate_python(f"--{name[:cut]}=1")


def test_an_option_that_says_what_jobs_need_is_refused() -> None:
    own = PROFILE.replace("--constraint=skylake", "--gre=scratch:1")
    assert parse_site(own).options == ("--gre=scratch:1",)
    with pytest.raises(SpecError, match=r"options\[0\]: --gres is said by what jobs need"):
        parse_site(own.replace("max_cores: 16", "max_cores: 16\n    max_gpus: 1"))
    with pytest.raises(SpecError, match="--licenses is said by what jobs need"):
        parse_site(PROFILE.replace("--constraint=skylake", "--licenses=a:1") + "licences: {gaussian: 4}\n")
    with pytest.raises(SpecError, match="takes a lower-case letter"):
        parse_site(PROFILE + "licences: {'a,b': 4}\n")


def test_the_script_has_the_site_s_lines_and_no_others() -> None:
    site = parse_site(PROFILE.replace('"1"', '"a b"'))
    bare = SiteProfile.model_validate({**site.model_dump(), "modules": [], "environment": {}})
    extra = set(render(site).splitlines()) - set(render(bare).splitlines())
    assert extra == {
        ". /etc/profile",
        "module load gcc/12.2 || finish 69",
        "module load python/3.11 || finish 69",
        "export OMP_NUM_THREADS='a b'",
    }


SITE = parse_site("""\
site: hpc
partitions:
  - {name: short, max_minutes: 60, max_memory_mb: 8000, max_cores: 4}
  - {name: fat, max_minutes: 60, max_memory_mb: 64000, max_cores: 4}
  - {name: long, max_minutes: 1440, max_memory_mb: 8000, max_cores: 16}
python: /usr/bin/python3
spool: /tmp/spool
wall: {margin: 2, minimum_minutes: 5, warning_seconds: 60}
memory: {margin: 1.5, minimum_mb: 1000}
""")


@pytest.mark.parametrize(
    ("seconds", "minutes"), [(0, 5), (120, 5), (120.5, 6), (150, 6), (1770, 60), (1770.1, 61), (1e6, 33335)]
)
def test_wall_time_is_the_margin_and_the_warning_in_whole_minutes(seconds: float, minutes: int) -> None:
    assert wall_minutes(SITE, seconds) == minutes
    assert minutes * 60 >= 2 * seconds + 60


@pytest.mark.parametrize(("expected", "asked"), [(None, 1000), (0, 1000), (700, 1050), (701, 1052)])
def test_memory_is_the_margin_in_whole_megabytes(expected: int | None, asked: int) -> None:
    assert memory_mb(SITE, expected) == asked


@pytest.mark.parametrize(
    ("need", "partition"),
    [
        (Need(1770, 5000, 4), "short"),
        (Need(1770, 5400, 4), "fat"),
        (Need(1771, 5000, 4), "long"),
        (Need(60, None, 5), "long"),
    ],
)
def test_a_job_goes_to_the_first_partition_that_holds_it(need: Need, partition: str) -> None:
    assert choose_partition(SITE, need).partition.name == partition


def test_gpus_and_licences_are_asked_for_where_the_profile_has_them() -> None:
    site = parse_site("""\
site: hpc
partitions:
  - {name: short, max_minutes: 60, max_memory_mb: 8000, max_cores: 4}
  - {name: gpus, max_minutes: 60, max_memory_mb: 8000, max_cores: 8, max_gpus: 2}
python: /usr/bin/python3
spool: /tmp/spool
licences: {gaussian: 2}
""")
    found = choose_partition(site, need_of(60, 100, {"cores": 2, "gpu": 1, "gaussian": 2}))
    assert (found.partition.name, found.cores, found.gpus, found.licences) == ("gpus", 2, 1, (("gaussian", 2),))
    assert choose_partition(site, need_of(60, 100, {"cores": 1})).partition.name == "short"
    with pytest.raises(NoPartitionError, match=r"and 3 GPUs .*short: .*, 0 GPUs; gpus: .*, 2 GPUs"):
        choose_partition(site, need_of(60, 100, {"gpu": 3}))
    with pytest.raises(NoPartitionError, match="hpc has 2 gaussian, and a job needs 3"):
        choose_partition(site, need_of(60, 100, {"gaussian": 3}))
    with pytest.raises(NoPartitionError, match="hpc has no orca, and a job needs 1; name it among the licences"):
        choose_partition(site, need_of(60, 100, {"orca": 1}))


@pytest.mark.parametrize("need", [Need(1771, 5400), Need(1e6), Need(1, 50_000), Need(1, 1, 17), Need(60, 6000, 16)])
def test_what_no_partition_holds_is_refused_with_the_limits_of_each(need: Need) -> None:
    with pytest.raises(NoPartitionError, match="no partition of hpc holds") as caught:
        choose_partition(SITE, need)
    assert "short: 60 minutes, 8000 MB, 4 cores; fat: 60 minutes, 64000 MB, 4 cores; long:" in str(caught.value)
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize("need", [Need(math.nan), Need(math.inf), Need(-1)])
def test_what_is_no_amount_is_a_mistake(need: Need) -> None:
    with pytest.raises(ValueError):
        choose_partition(SITE, need)
