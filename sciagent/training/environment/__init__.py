"""The live ladder as an environment for policies that run elsewhere: in this process, over HTTP, for TRL and OpenEnv."""
