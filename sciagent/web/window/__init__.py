"""The window of the chemist: campaigns and candidates, live."""
