"""`python -m relay` is the command line `selfmanaged`."""

from relay.cli import main

main()
