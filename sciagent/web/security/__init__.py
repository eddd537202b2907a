"""Who may do what: sessions, passwords, roles, and what is refused before a page sees it."""
