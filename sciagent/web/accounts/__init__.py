"""Log in, log out, choose a password."""
