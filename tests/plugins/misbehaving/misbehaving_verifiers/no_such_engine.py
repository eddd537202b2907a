"""A verifier whose engine is not installed."""

import an_engine_that_nobody_has  # noqa: F401


class Missing: ...
