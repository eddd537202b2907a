"""Pages for people: the form of the laboratory, and the window of the chemist."""
