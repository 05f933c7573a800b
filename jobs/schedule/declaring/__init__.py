"""What modules declare and deployments change: declarations, executors, and the catalog in force."""
