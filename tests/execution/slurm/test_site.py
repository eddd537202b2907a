"""A site profile: what is wrong in it is said with line and column, and nothing hostile gets through."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from sciagent.errors import SpecError
from sciagent.execution.slurm.client import render
from sciagent.execution.slurm.site import (
    RESERVED,
    AbsolutePath,
    Module,
    Name,
    Option,
    SiteProfile,
    Value,
    Variable,
    load_site,
    parse_site,
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
