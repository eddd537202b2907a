"""Estimators of advantages. A group is several episodes (siblings) of one policy from one opening.

Rewards of a group have shape (siblings, turns); episodes may differ in length. An undecided reward is None. No
estimator divides by a standard deviation, since that would weight groups by how alike their siblings are.
"""
