"""A program, the module that runs it, and the verifier that needs it."""
