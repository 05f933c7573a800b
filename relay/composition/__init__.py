"""Putting an App together: parts, options and loops, checked at once."""
