"""`stoppress sites`: what a stack has of its sites, and how a site is added, changed and removed."""

from stoppress_cli.commands.sites.read_sites import app
from stoppress_cli.commands.sites.write_sites import put

__all__ = ["app", "put"]  # with `put` the commands that write are registered
