"""Edits that turn a crystal into another one."""
