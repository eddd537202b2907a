"""Subjects: the kinds of candidates, such as molecules and crystals, each as one plug-in."""
