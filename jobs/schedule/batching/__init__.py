"""Long work in batches with cursors, for many tenants."""
