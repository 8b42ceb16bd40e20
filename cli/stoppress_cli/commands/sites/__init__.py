"""`stoppress sites`: what a stack has of its sites, and how a site is added, changed and removed."""

from stoppress_cli.commands.sites import read_sites, write_sites
from stoppress_cli.options import Commands

app = Commands(help="Sites and their configurations: list, show, check, change, roll back, remove.")
app.add_typer(read_sites.app)
app.add_typer(write_sites.app)
