"""One environment, installed as in the image, for all that look at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docker.place import Image, image


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with image(tmp_path_factory.mktemp("image")) as made:
        yield made
