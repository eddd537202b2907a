"""The live ladder as an environment: clients bring the policy; the campaign answers, pays and rewards."""
