"""The registry of models: names, what packages may register, and errors while a model is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from sciagent.errors import SimulatorError, UnknownNameError, UsageError
from sciagent_simulators import model_registry

GROUP = "sciagent.test_models"


@dataclass(frozen=True)
class Acme:
    name: str = "acme"
    package: str = "acme_models"
    ships_weights: bool = True

    def __call__(self, weights: Path | None, device: str) -> str:
        print("a banner of the package")
        if weights is not None:
            weights.read_bytes()
        if device == "cuda":
            import acme_models  # noqa: F401
        return "loaded"


ACME = Acme()
OTHER_NAME = Acme("other")


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """The entry points of the group, which a test may add to."""
    registered = [EntryPoint("acme", f"{__name__}:ACME", GROUP)]
    monkeypatch.setattr(model_registry, "entry_points", lambda group: registered)
    model_registry.registered_models.cache_clear()
    yield registered
    model_registry.registered_models.cache_clear()


def declared(name: str) -> Acme:
    return model_registry.declared_model(GROUP, "test model", name, Acme)


def test_an_unknown_name_lists_the_known_ones(points: list[EntryPoint]) -> None:
    with pytest.raises(UnknownNameError, match="acme"):
        declared("acne")


def test_one_name_of_two_packages_is_an_error(points: list[EntryPoint]) -> None:
    points.append(EntryPoint("acme", "elsewhere:ACME", GROUP))
    with pytest.raises(UsageError, match='two installed packages offer a test model named "acme"'):
        declared("acme")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("gone", "no_such_package:ACME", "does not load"), ("path", "pathlib:Path", "is no Acme of that name")],
)
def test_what_is_no_model_is_named(points: list[EntryPoint], name: str, value: str, message: str) -> None:
    points.append(EntryPoint(name, value, GROUP))
    with pytest.raises(UsageError, match=message):
        declared(name)


def test_a_model_is_loaded_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    assert model_registry.load_model(ACME, None, "cpu", "test model", extra="mlff") == "loaded"
    assert capsys.readouterr().out == ""


def test_missing_packages_and_files_have_names(tmp_path: Path) -> None:
    with pytest.raises(SimulatorError, match=r"import_failed.*sciagent\[so3lr\]"):
        model_registry.load_model(ACME, None, "cuda", "test model", extra="so3lr")
    with pytest.raises(SimulatorError, match=r"reference_file.*cannot read its weights"):
        model_registry.load_model(ACME, tmp_path / "gone.pt", "cpu", "test model", extra="so3lr")
    with pytest.raises(UsageError, match="weights: FILE"):
        model_registry.load_model(Acme(ships_weights=False), None, "cpu", "test model", extra="so3lr")
