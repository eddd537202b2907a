"""Structures from files, as proposers read them."""

from sciagent.chemistry.structure_files import Record, read_structures

__all__ = ["Record", "read_structures"]
