"""The host that turns slots into jobs, the envelope around each run, reports and the client."""
