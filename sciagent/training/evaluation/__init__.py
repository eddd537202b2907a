"""Evaluation: arms, such as policies, on held-out tasks at equal verification cost."""
