"""Types that several parts of a campaign share: ladder positions, interfaces and directives of people."""
