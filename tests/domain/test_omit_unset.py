"""An unset key enters no hash and no answer; a key that is set enters both."""

from __future__ import annotations

from pydantic import BaseModel

from sciagent.domain.omit_unset import omitted_if_unset


class Settings(BaseModel):
    """Fields with each kind of default."""

    limit: int | None = omitted_if_unset(None, ge=1, description="A limit.")
    kind: str = omitted_if_unset("class")
    names: tuple[str, ...] = omitted_if_unset(default_factory=tuple)


def test_an_unset_key_is_left_out() -> None:
    assert Settings().model_dump() == {}
    assert Settings(limit=None, kind="class", names=()).model_dump_json() == "{}", "a stated default counts as unset"
    assert Settings(limit=1, kind="molecule", names=("a",)).model_dump(mode="json") == {
        "limit": 1,
        "kind": "molecule",
        "names": ["a"],
    }


def test_the_schema_shows_the_field_as_any_other() -> None:
    fields = Settings.model_json_schema()["properties"]
    assert fields["kind"] == {"default": "class", "title": "Kind", "type": "string"}
    assert fields["limit"]["description"] == "A limit."
