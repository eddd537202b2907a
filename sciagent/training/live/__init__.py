"""Live training: rollouts and training steps in turns."""
