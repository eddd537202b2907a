"""The campaign file: its keys as pydantic models, and the checks between them."""
