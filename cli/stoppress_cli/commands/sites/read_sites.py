"""The commands of `stoppress sites` that change nothing."""

import json
import os
import sys
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from stoppress.aws import bucket, due, secrets, site_versions, sites
from stoppress.aws.inventory import read_indexes
from stoppress.aws.site_versions import Version, check_document
from stoppress.model.file_names import WRITTEN
from stoppress.model.site import HOST, BadConfiguration, read_site, schema as site_schema
from stoppress.primitives.instants import local_time
from stoppress.show.file_versions import read_moment
from stoppress.show.read_page import PAGE_SECRET, page_token
from stoppress.show.stack_status import Access
from stoppress.sitemaps.robots import named_in_robots, robots_lines
from stoppress_cli.commands.secrets import missing_secrets
from stoppress_cli.connect import BadRequest
from stoppress_cli.options import HERE, READS, At, Commands
from stoppress_cli.output import Row, Table, console, counted, end, fail, json_of, print_answer, state, verbatim

app = Commands(help="List, show, check, change, roll back or remove sites and their configurations.")

Host = Annotated[str, typer.Argument(metavar="HOST", help="Host of the site.")]
File = Annotated[
    str, typer.Argument(metavar="FILE", help="JSON document of one site, with all its feeds; - for stdin.")
]
APPLIED, WAITING, UNREADABLE = "applied", "not yet applied", "unreadable"


@app.command("list", effect=READS, example="stoppress sites list --stack stoppress", is_over_sites=True)
def list_sites() -> None:
    """List the sites, and whether each configuration is applied to the files.

    Exit code 1: a configuration is not yet applied.
    """
    good, bad = sites.load_all()
    states = dict.fromkeys(_waiting(), WAITING) | {site.host: UNREADABLE for site in bad}
    rows: list[dict[str, object]] = []
    cells: list[Row] = []
    in_force = {site.host: site for site in good}
    for host in sorted(in_force | dict.fromkeys(site.host for site in bad)):
        word, site = states.get(host, APPLIED), in_force.get(host)
        version, sources, feeds = (site.version, sorted(site.sources), len(site.feeds)) if site else (None, None, None)
        rows.append({"host": host, "state": word, "version": version, "sources": sources, "feeds": feeds})
        cells.append((host, state(word), version, feeds, ", ".join(sources or ())))
    table = Table(("host", "state", "version", "feeds", "sources"), cells)
    end(rows, [table], is_ok=all(row["state"] == APPLIED for row in rows))


@app.command("show", effect=READS, example="stoppress sites show www.example.com --stack stoppress")
def show(host: Host) -> None:
    """Print a site's newest configuration, in the form that `put` reads."""
    version = newest(host)
    try:
        read_site(str(version.document), version.number)
    except BadConfiguration:
        console.print(version.document)
        raise
    document = json.loads(str(version.document))
    applied = WAITING if host in _waiting() else APPLIED
    report = {"host": host, "state": applied, "version": version.number, "at": version.at}
    answer = report | {"author": version.author, "configuration": document}
    print_answer(answer, [verbatim(json_of(document))])


@app.command("history", effect=READS, example="stoppress sites history www.example.com --stack stoppress")
def history(host: Host) -> None:
    """List all versions of a site, with time and author.

    Exit code 1: the host has no version.
    """
    zone = next((site.zone for site in sites.load_all()[0] if site.host == host), ZoneInfo("UTC"))
    rows: list[dict[str, object]] = []
    cells: list[Row] = []
    for version in site_versions.history(host):
        number, author, is_removal = version.number, version.author, version.document is None
        rows.append({"version": number, "at": version.at, "author": author, "is_removal": is_removal})
        cells.append((number, local_time(version.at, zone), author, "removed" if is_removal else ""))
    end(rows, [Table(("version", "at", "author", ""), cells)], is_ok=bool(rows))


@app.command("check", effect=READS, example="stoppress sites check site.json --stack stoppress", may_lack_stack=True)
def check(access: Access | None, file: File) -> None:
    """Check a site's document and, with a stack, whether the secrets of its webhooks exist.

    Exit code 1: the document has errors, or a secret does not exist.
    """
    faults, missing, lines = [], [], []
    try:
        site = check_document(read_text(file))
        missing = missing_secrets(site) if access else []
        lines = [f"{site.host}: {counted(len(site.feeds), 'feed')}, no errors"]
    except BadConfiguration as error:
        faults = lines = str(error).splitlines()
    if missing:
        lines = [
            f"sources.{source}: there is no secret {secret}: `stoppress secrets put` creates it"
            for source, secret in missing
        ]
    rows = [{"source": source, "secret": secret} for source, secret in missing]
    end({"errors": faults, "missing_secrets": rows}, lines, is_ok=not (faults or missing))


@app.command("schema", effect=HERE, example="stoppress sites schema > site.schema.json", has_json=False)
def schema() -> None:
    """Print the JSON Schema of a site's document."""
    console.print(json_of(site_schema()))


@app.command("robots", effect=READS, example="stoppress sites robots www.example.com --stack stoppress")
def robots(host: Host) -> None:
    """Print the `Sitemap:` lines for a site's robots.txt."""
    site = sites.load(host)
    lines = list(robots_lines(site, named_in_robots(site, read_indexes(host))))
    print_answer({"site": host, "lines": lines}, lines)


@app.command("files", effect=READS, example="stoppress sites files www.example.com --stack stoppress")
def files(
    host: Host,
    at: At = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the files; default: one named after the host.")] = None,
) -> None:
    """Write the sitemaps of a site into a folder, by default as they are now.

    Exit code 1: with --at: for some files, the bucket no longer has the version from that time.
    """
    now, site, folder = datetime.now(UTC), sites.load(host), out or Path(host)
    moment = read_moment(at, site, now) if at else now
    written, unknown = list[str](), list[str]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, versions in groupby(bucket.versions(host), key=attrgetter("file")):
            if not WRITTEN.fullmatch(file):
                continue  # another program put it, perhaps with a name that leads out of the folder
            version = bucket.version_at(versions, moment, now)
            if version is None:
                unknown.append(file)
            elif version.id and (stored := bucket.read(host, file, version.id)):
                (folder / file).write_bytes(stored.body)
                written.append(str(folder / file))
    except OSError as error:
        fail(error)
    lines = [*written, *(f"no longer in the bucket: {file}" for file in unknown)]
    end({"site": host, "at": moment, "files": written, "unknown": unknown}, lines, is_ok=not unknown)


@app.command("page", effect=READS, example="stoppress sites page www.example.com --stack stoppress")
def page(host: Host) -> None:
    """Print the address of a site's page for editors, which anyone with the address can read."""
    start = os.environ.get("PAGES_URL")
    if start is None:
        raise BadRequest("the stack has no pages: deploy it with the parameter StatusPage=yes")
    site = sites.load(host)
    address = f"{start}/{site.host}/{page_token(secrets.load(PAGE_SECRET)[0], site.host)}"
    print_answer({"site": site.host, "address": address}, [address])


def _waiting() -> set[str]:
    """Return the hosts whose newest version is not yet applied to the files."""
    names = (record.name.partition("#") for record in due.every(due.SITES))
    return {host for kind, _, host in names if kind == due.CONFIGURATION}


def newest(host: str) -> Version:
    """Return the newest version of a site. Raises BadRequest for a host that is unknown or removed."""
    version = newest_or_none(host)
    if version is None or version.document is None:
        hosts = ", ".join(sites.hosts()) or "none"
        raise BadRequest(f"unknown site {host!r}: choose one of {hosts}")
    return version


def newest_or_none(host: str) -> Version | None:
    """Return the newest version of a site, also of a removed one; None for an unknown host."""
    current = sites.read_current(host) if HOST.fullmatch(host) else None
    return site_versions.version(host, current.version) if current else None


def read_text(file: str) -> str:
    """Return the text of a document. Exits with FAILED if there is no such file."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        return fail(f"{file}: {error}")
