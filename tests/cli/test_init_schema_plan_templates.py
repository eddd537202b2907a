"""The example campaigns are copied with their data, under another name, and overwrite nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.cli import init_schema_plan
from sciagent.errors import UnknownNameError, UsageError


def test_every_template_is_written_with_its_data_and_can_be_read(tmp_path: Path) -> None:
    known = init_schema_plan.templates()
    assert "quickstart" in known and all(template.description for template in known.values())
    for name, template in known.items():
        written = init_schema_plan.write_template(tmp_path / name, name)
        assert [path.name for path in written] == [f"{name}.yaml", "README.md", *(file.name for file in template.data)]
        assert load_spec(written[0]).campaign == name


def test_a_template_takes_another_name_and_overwrites_nothing(tmp_path: Path) -> None:
    spec, readme, *_ = init_schema_plan.write_template(tmp_path / "a", "quickstart", "dyes")
    assert load_spec(spec).campaign == "dyes" and readme.read_text().startswith("# dyes\n")
    readme.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        init_schema_plan.write_template(tmp_path / "a", "quickstart")
    assert readme.read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file, not a folder"):
        init_schema_plan.write_template(tmp_path / "file", "quickstart")
    with pytest.raises(UnknownNameError, match="quickstart"):
        init_schema_plan.write_template(tmp_path / "b", "quikstart")
