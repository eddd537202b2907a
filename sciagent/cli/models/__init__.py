"""Commands for language models and their traces."""
