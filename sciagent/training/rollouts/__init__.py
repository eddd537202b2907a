"""Groups of episodes that begin alike: opened, rolled out in lock-step, and handed to the ladder."""
