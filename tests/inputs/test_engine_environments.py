"""The list of environments on a machine."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from sciagent.errors import UnknownNameError, UsageError
from sciagent.inputs import engine_environments
from tests.support import bare_environments


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCIAGENT_ENGINES", str(tmp_path / "config" / "engines.toml"))
    return tmp_path / "config" / "engines.toml"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_environments.made(tmp_path_factory.mktemp("environments") / "there")


def test_an_environment_is_added_listed_and_removed(file: Path, python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_environments.environments() == {}
    monkeypatch.setenv("PYTHONPATH", "/nowhere")  # nothing of ours reaches the other Python
    found = engine_environments.add("there", python)
    assert found == {"python": ".".join(map(str, sys.version_info[:3])), "sciagent": version("sciagent")}
    monkeypatch.chdir(python.parent)
    engine_environments.add("a-quote_2", Path(python.name))
    assert engine_environments.environments() == {"a-quote_2": python, "there": python}
    assert list(file.parent.iterdir()) == [file], "no part of a file is left"
    engine_environments.remove("there")
    assert list(engine_environments.environments()) == ["a-quote_2"]
    with pytest.raises(UnknownNameError, match="there"):
        engine_environments.remove("there")


def test_the_few_packages_of_the_install_line_suffice(python: Path) -> None:
    said = bare_environments.run(
        python, "-c", "import sys, sciagent.verification.sandbox.zygote_nursery; print(*sys.modules)"
    )
    loaded = {name.partition(".")[0] for name in said.split()}
    assert {"pydantic", "numpy", "psutil"} <= loaded
    assert not {"sqlalchemy", "rdkit", "pint", "ase", "typer"} & loaded
    assert all(name in engine_environments.INSTALL for name in ("--no-deps sciagent", "pydantic", "numpy", "psutil"))


def test_an_environment_that_cannot_run_sciagent_is_refused_with_what_to_type(tmp_path: Path) -> None:
    bare = bare_environments.made(tmp_path / "bare", ())
    with pytest.raises(UsageError, match=r"No module named .*; in that environment: pip install --no-deps sciagent"):
        engine_environments.add("bare", bare)
    with pytest.raises(UsageError, match="does not start"):
        engine_environments.add("nowhere", tmp_path / "python")
    with pytest.raises(UsageError, match="no name of an environment"):
        engine_environments.add("Ma ce", bare)
    assert engine_environments.environments() == {}


def test_another_sciagent_is_refused(tmp_path: Path, python: Path) -> None:
    site = bare_environments.site_of(python.parent.parent)
    (info,) = site.glob("sciagent-*.dist-info")
    metadata = (info / "METADATA").read_text()
    try:
        (info / "METADATA").write_text(metadata.replace(f"\nVersion: {version('sciagent')}\n", "\nVersion: 0.0.9\n"))
        with pytest.raises(UsageError, match=r"has sciagent 0\.0\.9, and this is"):
            engine_environments.add("old", python)
    finally:
        (info / "METADATA").write_text(metadata)


@pytest.mark.parametrize(
    "text", ["[mace\n", "mace = 3\n", "[mace]\n", "[mace]\npython = 3\n", '["Ma ce"]\npython = "/x"\n']
)
def test_a_file_that_is_not_right_is_named(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(UsageError, match=r"engines\.toml"):
        engine_environments.environments()
