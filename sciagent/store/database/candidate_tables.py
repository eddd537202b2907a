"""The tables of candidates and of the notations that name them."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Column, Index, Integer, UniqueConstraint

from sciagent.store.database.column_types import Json, Key, String, Text, UtcDateTime
from sciagent.store.database.table_parts import index_of_some, needed, optional, references, table

candidate = table(
    "candidate",
    needed(Key, "key", unique=True),
    needed(Text, "text", "identity", "formula"),
    Column("inchikey", String(27), index=True),
    needed(Integer, "charge", "multiplicity", "n_atoms"),
    needed(Json, "payload"),
    needed(String(20), "kind", "standardiser"),
    needed(String(60), "library"),
    needed(UtcDateTime, "created_at"),
    optional(Key, "scaffold_hash"),  # None: not computed yet; empty: no molecule
    Index("ix_candidate_scaffold_hash", "scaffold_hash", "id"),
)

# a molecule's text is a SMILES, found by its key; a hash index, since B-trees of PostgreSQL limit the length of a text
is_no_molecule = candidate.c.kind != sa.literal_column("'molecule'")
index_of_some("ix_candidate_text", is_no_molecule, candidate.c.text, postgresql_using="hash")
index_of_some("ix_candidate_formula", is_no_molecule, candidate.c.formula)

candidate_alias = table(
    "candidate_alias",
    references("candidate", index=True),
    needed(String(20), "notation"),
    needed(Text, "text"),
    needed(Key, "text_hash"),
    UniqueConstraint("text_hash", "notation"),
)
