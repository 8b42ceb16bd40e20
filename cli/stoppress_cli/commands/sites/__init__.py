"""`stoppress sites`: shows the sites of a stack, and adds, changes and removes them."""

from stoppress_cli.commands.sites.read_sites import app
from stoppress_cli.commands.sites.write_sites import put

__all__ = ["app", "put"]  # with `put` the commands that write are registered
