"""Models, wherever they run."""
