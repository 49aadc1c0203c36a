"""The entry point of ``knime-mcp``: says what is missing, and otherwise hands over to the commands."""

import sys

_EXTRA = "cli"


def main() -> None:
    """Runs ``knime-mcp`` with the arguments of this process, and ends the process with its exit code."""
    try:
        from .commands import build_app
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit(
            f"The command line needs the extra '{_EXTRA}'. Install it with: pip install 'knime-mcp[{_EXTRA}]'"
        )
    try:
        build_app()(prog_name="knime-mcp")
    except KeyboardInterrupt:  # before or after a command, which handles its own
        sys.exit(3)


if __name__ == "__main__":
    main()
