"""`python -m stoppress_cli` is the `stoppress` command."""

from stoppress_cli.app import app

app()
