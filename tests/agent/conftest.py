"""The tiny model, made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sciagent.agent.install_and_find_models import add_folder
from tests.support.once import once
from tests.support.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "tiny", write_tiny_model)


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its name, in a folder of models of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIAGENT_MODELS", str(tmp_path_factory.mktemp("models")))
        yield add_folder(tiny_folder, "tiny", lambda text: None).name
