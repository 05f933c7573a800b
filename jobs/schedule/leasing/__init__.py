"""Named leases for work of any kind, and the guard of what is written under them."""
