"""Exports of data sets in the forms of other packages."""
