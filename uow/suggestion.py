"""Did you mean: the known name that a misspelt one resembles most."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest known name, else `; known are: ...`; fit to end a sentence."""
    names = sorted(map(str, known))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are: {', '.join(names)}" if names else ""
