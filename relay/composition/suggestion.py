"""Did you mean: the suggestion of `uow.suggestion`, by the name it had before."""

from uow.suggestion import did_you_mean

__all__ = ["did_you_mean"]
