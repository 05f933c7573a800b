"""The command line `selfmanaged`, in small files: one for each group of commands."""

import sys

from relay.own_package import ForeignModuleError, check_own_packages


def main() -> None:
    """Run the command line; ends the process with one of `relay.cli.exit_code.ExitCode`."""
    try:
        check_own_packages()
        from relay.cli.program import program  # noqa: PLC0415 - after the check
    except ForeignModuleError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(3)
    program(prog_name="selfmanaged")
