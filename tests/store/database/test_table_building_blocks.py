"""Columns take what both databases take, and nothing else."""

from __future__ import annotations

import sqlalchemy as sa

from sciagent.store.database.table_building_blocks import String, Text


def test_columns_of_a_fixed_length_hold_no_half_of_a_surrogate_pair() -> None:
    """Names of models, proposers and people come from outside, too."""
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        names = sa.Table("names", sa.MetaData(), sa.Column("name", String(40)), sa.Column("text", Text))
        names.create(connection)
        connection.execute(names.insert().values(name="m\ud800", text="x\0"))
        assert connection.execute(sa.select(names)).one() == ("m\ufffd", "x\ufffd")
