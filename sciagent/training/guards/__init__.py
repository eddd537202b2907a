"""Guards that stop a training run on a live ladder: each checks the facts of a step, and names itself when it stops."""
