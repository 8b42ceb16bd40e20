"""How the commands print: text as it is, as wide as the terminal or COLUMNS says."""

import os
import sys

from rich.console import Console

# Of tables, where neither a terminal nor COLUMNS says how wide.
WIDTH_PIPED_COLUMNS = 200


def text_console(*, stderr: bool = False) -> Console:
    """A console for text that others wrote: brackets are no markup, and words between colons no emoji."""
    is_known = (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ
    width = None if is_known else WIDTH_PIPED_COLUMNS
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)
