"""Running jobs: handlers and their registry, the executor, and the loops and steps it is made of."""
