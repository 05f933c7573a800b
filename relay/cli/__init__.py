"""The command line `selfmanaged`, in small files: one for each group of commands."""


def main() -> None:
    """Run the command line; ends the process with one of `relay.cli.exit_code.ExitCode`."""
    from relay.cli.program import program  # noqa: PLC0415 - other modules of this package load less

    program(prog_name="selfmanaged")
