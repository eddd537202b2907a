"""Commands for who trains on campaigns."""
