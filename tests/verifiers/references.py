"""A small shelf of building blocks and a third party's route finders, for tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sciagent.verification import route_finder_plugins_and_route_checks, verifier_registry
from sciagent_verifiers.fast import molecule_index
from tests.support.plugins import install

PLUGIN = Path(__file__).parent.parent / "plugins" / "retrosynthesis"
BLOCKS = """\
smiles,name
CC(=O)O,acetic acid
Nc1ccc(O)cc1,4-aminophenol
OB(O)c1ccccc1,phenylboronic acid
Brc1ccncc1,4-bromopyridine
O=S(=O)(Cl)c1ccccc1,benzenesulfonyl chloride
C1COCCN1,morpholine
N[C@@H](C)C(=O)O,alanine
CN.Cl,methylamine hydrochloride
CC=O,acetaldehyde
no molecule,a slip of the pen
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with `blocks.csv`, and a cache of its own beside it."""
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path / "cache"))
    molecule_index.index_of.cache_clear()
    folder = tmp_path / "campaign"
    folder.mkdir()
    (folder / "blocks.csv").write_text(BLOCKS)
    yield folder
    molecule_index.index_of.cache_clear()


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The third party's package, installed for this process and its children."""
    target = tmp_path_factory.mktemp("site")
    install(PLUGIN, target)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(target))
        inherited = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", os.pathsep.join([str(target), *([inherited] if inherited else [])]))
        _forget()
        yield
    _forget()


def _forget() -> None:
    verifier_registry.installed.cache_clear()
    route_finder_plugins_and_route_checks.route_finder.cache_clear()
