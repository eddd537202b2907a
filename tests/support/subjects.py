"""The subjects, for tests."""

from __future__ import annotations

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of

MOLECULES = subject_of("molecule")
