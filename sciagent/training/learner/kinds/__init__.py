"""The kinds of rows that trainings take from data sets, one module each."""
