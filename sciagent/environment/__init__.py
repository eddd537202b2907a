"""The live ladder as an environment: clients bring the policy, and the campaign answers, pays and rewards."""
