"""The same work done by other projects, each run in the environment in which it is installed."""
