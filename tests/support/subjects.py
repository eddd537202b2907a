"""The subjects, for tests."""

from __future__ import annotations

from sciagent.chemistry.subjects.registry import subject_of

MOLECULES = subject_of("molecule")
