"""The command ``surehand``: install the embedded model, see a demonstration. Needs the extra ``cli``."""

from __future__ import annotations

import sys

__all__ = ["main"]

_NEEDS_EXTRA = """\
surehand: the command needs {name!r}, which comes with an extra of the package. Install it with

    python -m pip install 'surehand[cli,local]'
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command with these arguments, or with the process's own; gives the exit code.

    Without the extra ``cli`` it says how to get it, and gives 1.
    """
    try:
        from ._app import run
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("typer", "rich", "click"):
            raise
        sys.stderr.write(_NEEDS_EXTRA.format(name=missing))
        return 1
    return run(sys.argv[1:] if arguments is None else arguments)
