"""The work of people: tasks, claims, answers and the evidence that is made from them; `pages` has the forms."""
