"""`stoppress listen`: prints and saves the deliveries that arrive on this machine."""

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from wsgiref.types import WSGIEnvironment

import typer

from stoppress.aws.secrets import split
from stoppress.model.http_request import Request
from stoppress_cli.inputs.delivery import record_of, without_secrets
from stoppress_cli.options import HERE, Commands, Port
from stoppress_cli.output import console, fail

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

app = Commands()

# Headers that do not matter for a delivery.
_OF_TRANSPORT = {
    "accept", "accept-encoding", "accept-language", "cache-control", "connection", "content-length", "host",
    "transfer-encoding", "user-agent",
}  # fmt: skip


@app.command(effect=HERE, example="stoppress listen --out deliveries", has_json=False)
def listen(
    port: Port = 8001,
    out: Annotated[Path | None, typer.Option(help="Folder in which to save each delivery as a file.")] = None,
    secret_env: Annotated[
        str | None,
        typer.Option(
            help="Environment variable with the secrets, separated by spaces, to replace wherever they occur."
        ),
    ] = None,
) -> None:
    """Receive webhooks on this machine and print their headers; with --out, save deliveries for `stoppress adapters try`.

    Without --secret-env, only values with names such as `token` or `secret` are replaced before they are printed or saved.
    """
    from werkzeug.wrappers import Response  # `stoppress --help` does without a server

    from stoppress_cli.serving import request_of, server_on, until_interrupted

    def application(environ: WSGIEnvironment, start_response: "StartResponse") -> Iterable[bytes]:
        _show(without_secrets(request_of(environ), secrets), datetime.now(UTC), out)
        return Response('{"status": "printed"}', mimetype="application/json")(environ, start_response)

    if secret_env and not os.environ.get(secret_env):
        fail(f"the environment variable {secret_env} is not set: put the source's secret into it")
    try:
        secrets = split(os.environ[secret_env]) if secret_env else []
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        # One delivery at a time, so that the lines of two deliveries do not mix.
        server, url = server_on("127.0.0.1", port, application)
    except (OSError, ValueError) as error:
        fail(error)

    console.print(f"listening on {url} (any path); Ctrl-C ends it")
    try:
        with until_interrupted():
            server.serve_forever()
    finally:
        server.server_close()


def _show(request: Request, now: datetime, out: Path | None) -> None:
    """Print a delivery. Save it in the folder, if it has a body."""
    query = f"?{request.query}" if request.query else ""
    console.print(f"{now:%Y-%m-%d %H:%M:%S}  {request.method} {request.path}{query}  {len(request.body):,} bytes")
    for name, value in request.headers.items():
        if name not in _OF_TRANSPORT:
            console.print(f"  {name}: {value}")
    if out is None or not request.body:
        return
    path = out / f"{now:%Y-%m-%dT%H-%M-%S.%fZ}.json"
    text = json.dumps(record_of(request, now), indent=1, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")
    console.print(f"  saved: stoppress adapters try <adapter> {path}")
