"""Guards against the exploitation of rewards: statistics of one policy, and of a policy against the first one."""
