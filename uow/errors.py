"""Errors by who must act: fix the code, try again, or look at it. Every package roots its own here."""


class SelfManagedError(Exception):
    """Root of everything this framework raises on purpose."""


class FixTheCodeError(SelfManagedError):
    """The program is wrong (a call, a value, a configuration); trying again gives the same answer."""


class TryAgainError(SelfManagedError):
    """Nothing was kept; the same operation with the same identities may succeed next time."""


class LookAtItError(SelfManagedError):
    """A person or the caller must look at stored facts before anything is repeated."""
