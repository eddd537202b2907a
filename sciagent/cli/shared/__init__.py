"""Options, messages and progress that commands share."""
