"""The commands of `stoppress sites` that add, change and remove a site."""

import getpass
import json
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from typing import Annotated, NoReturn

import typer
from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import bucket, site_versions, sites, table
from stoppress.aws.clients import client
from stoppress.aws.inventory import read_marks
from stoppress.aws.items import file_pk
from stoppress.aws.site_versions import Replaced, same_document
from stoppress.model.file_names import INDEX_FILE
from stoppress.model.site import BadConfiguration, Site
from stoppress.model.site_parts import SHARED_SECRETS, secret_path
from stoppress.rewrite.predict import FileChange, predict
from stoppress.sitemaps.render import BrokenFile
from stoppress_cli.commands.secrets import full_name
from stoppress_cli.commands.sites.read_sites import File, Host, app, newest as require_site, newest_or_none, read_text
from stoppress_cli.connect import BadRequest
from stoppress_cli.options import WRITES, DryRun, Yes
from stoppress_cli.output import agrees, counted, end, show, track

# Settings that affect no file by themselves, only the events after the change.
LATER_KEYS = ("sources", "feeds", "timezone", "shards", "republish", "silent_after_hours")


@app.command("put", effect=WRITES, example="stoppress sites put site.json --stack stoppress")
def put(file: File, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Add a site or change its configuration, after showing what would change in the files and asking for confirmation.

    The document replaces the whole configuration: feeds that it does not list are no longer polled.
    """
    _put(read_text(file), dry_run=dry_run, yes=yes, can_ask=file != "-" or sys.stdin.isatty())


@app.command("rollback", effect=WRITES, example="stoppress sites rollback www.example.com --stack stoppress")
def rollback(
    host: Host,
    version: Annotated[
        int | None,
        typer.Argument(
            help="Number of the version to restore; default: the newest that can be read and differs from the current one."
        ),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Restore an earlier version of a site as its next version, after showing the changes and asking for confirmation."""
    _put(find_earlier(host, version), dry_run=dry_run, yes=yes)


def _put(text: str, *, dry_run: bool, yes: bool, can_ask: bool = True) -> NoReturn:
    """Show the effects of a document on its site, ask, and write it. Raises BadConfiguration and BadRequest."""
    site = site_versions.check_document(text)
    host, before, is_agreed = site.host, newest_or_none(site.host), False
    version, document = (before.number, before.document) if before else (0, None)
    is_same = document is not None and same_document(text, document)
    if not (is_same or dry_run or yes or can_ask):
        raise BadRequest("the document came from standard input, which cannot answer the question: give --yes")
    lines: list[str] = []
    if is_same:
        show(f"{host} has this configuration already, version {version}")
    else:
        show(f"{host} is a new site" if document is None else f"{host} has version {version}; with the document:")
        try:
            lines += list_effects(site, datetime.now(UTC), is_new=document is None)
        except BrokenFile as error:
            raise BadRequest(f"a file of {host} could not be written with this configuration: {error}") from error
        for line in lines:
            show(line)
        is_agreed = agrees(f"Put the configuration of {host}?", yes=yes, dry_run=dry_run)
    if is_agreed:
        try:
            version = site_versions.put(text, version, author(), datetime.now(UTC))
        except Replaced as error:
            raise BadRequest((document and _explain_replaced(host, document)) or str(error)) from None
        show(f"{host} has version {version}; the files follow within a minute")
    report = {"site": host, "is_new": document is None, "version": version, "effects": [line.strip() for line in lines]}
    end(report | {"done": is_agreed}, is_ok=is_same or dry_run or is_agreed)


@app.command("remove", effect=WRITES, example="stoppress sites remove www.example.com --stack stoppress")
def remove(
    host: Host,
    delete_files: Annotated[
        bool, typer.Option("--delete-files", help="Delete the site's folder in the bucket.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove a site from the stack, but keep its files unless you add --delete-files."""
    newest = newest_or_none(host)
    files = [file.file for file in bucket.listed(host)] if newest else []
    # An earlier removal may have failed, and left files.
    if newest is None or (newest.document is None and not (delete_files and files)):
        newest = require_site(host)  # raises BadRequest
    secrets = _own_secrets(host)
    folder = f"s3://{bucket.bucket_name()}/{host}/"
    for name in files:
        show(f"{folder}{name}: {'is deleted' if delete_files else 'stays, and nothing changes it'}")
    is_agreed = agrees(f"Remove {host}?", yes=yes, dry_run=dry_run)
    if is_agreed:
        _remove(host, newest.number, delete_files=delete_files)
        if files and not delete_files:
            show(f"Delete its files when no crawler fetches them any more: {aws_command()} s3 rm --recursive {folder}")
        for name in secrets:
            show(f"Its secret stays: {aws_command()} secretsmanager delete-secret --secret-id {name}")
    report = {"site": host, "version": newest.number, "files": files, "deletes_files": delete_files}
    end(report | {"secrets": secrets, "done": is_agreed}, is_ok=dry_run or is_agreed)


def _remove(host: str, version: int, *, delete_files: bool) -> None:
    """Record the removal of a site. Then delete its files, also what a function that still uses the configuration wrote.

    The commit marks go first: if the site is put again, its index must not list files that are not yet written.
    """
    site_versions.remove(host, version, author(), datetime.now(UTC), deletes_files=delete_files)
    show("the removal is recorded")
    if delete_files:
        for mark in track(read_marks(host)[1], "commit marks"):
            table.delete(file_pk(host, INDEX_FILE), mark.file)
        objects = [{"Key": f"{host}/{file.file}"} for file in bucket.listed(host)]
        for start in track(range(0, len(objects), bucket.DELETED_OBJECTS_MAX), "batches of 1,000 files"):
            bucket.delete_objects(objects[start : start + bucket.DELETED_OBJECTS_MAX])
    show(f"{host} is removed; `stoppress sites rollback {host}` adds it again")


def find_earlier(host: str, number: int | None) -> str:
    """Return an earlier document of a site; without a number, the newest readable one that differs. Raises BadRequest, BadConfiguration."""
    newest = newest_or_none(host)
    for version in site_versions.history(host) if newest else ():
        is_match = number or not same_document(str(version.document), str(newest and newest.document))
        if version.document and is_match and number in (None, version.number):
            with nullcontext() if number else suppress(BadConfiguration):
                site_versions.check_document(version.document)
                return version.document
    raise BadRequest(f"{host} has no such earlier version: `stoppress sites history {host}` lists them")


def list_effects(site: Site, now: datetime, *, is_new: bool) -> Iterator[str]:
    """Yield what a configuration would change: a line for the stories, for each file, and for the settings that apply later.

    Raises BrokenFile.
    """
    before: set[str] = set()
    after: set[str] = set()
    lines: dict[str, str] = {}
    for file in predict(site, now):
        listed_before, listed_after = file.stories()
        before |= listed_before
        after |= listed_after
        if file.is_change:
            lines[file.file] = _summary(file)
    if before != after:
        leave, enter = len(before - after), len(after - before)
        leaving = f"{counted(leave, 'story', 'stories')} {'leaves' if leave == 1 else 'leave'}"
        yield f"{leaving} the news sitemap, {enter:,} enter"
    yield from [f"  {name}: {lines[name]}" for name in sorted(lines)] or ["  no file changes"]
    in_force = None if is_new else _read_in_force(site.host)
    later = [key for key in LATER_KEYS if in_force and getattr(in_force, key) != getattr(site, key)]
    if later:
        yield f"For later events alone: {', '.join(later)}"


def _summary(file: FileChange) -> str:
    if file.after is None:
        return "is deleted"
    is_listing = file.file.endswith(".xml")
    counts = file.lines() if is_listing else {}
    if file.before is None:
        return f"new, {counted(counts['enter'], 'line')}" if is_listing else "new"
    parts = [f"{counted(count, 'line')} {verb}{'s' * (count == 1)}" for verb, count in counts.items() if count]
    return ", ".join(parts) or "changes"


def _read_in_force(host: str) -> Site | None:
    """Return the configuration in force; None if there is none that can be read."""
    try:
        return sites.reload(host)
    except BadConfiguration:
        return None


def _explain_replaced(host: str, document: str) -> str:
    """Explain what another user changed in a site's document since it was read; empty for a site that was removed meanwhile."""
    current = newest_or_none(host)
    if current is None or current.document is None:
        return ""
    old, new = json.loads(document), json.loads(current.document)
    keys = ", ".join(sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))) or "nothing"
    return (
        f"{current.author} wrote version {current.number} of {host} meanwhile, and changed {keys}:"
        f" `stoppress sites show {host}` prints it; run the command again"
    )


def author() -> str:
    """Return who runs the command: the identity of AWS, or the user of a local stack."""
    if os.environ.get("AWS_ENDPOINT_URL"):
        return getpass.getuser()
    try:
        return str(client("sts").get_caller_identity()["Arn"])
    except (ClientError, BotoCoreError):
        return "unknown"


def aws_command() -> str:
    """Return how a printed command of the AWS CLI begins: one for a local stack must not reach AWS."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    return f"aws --endpoint-url {endpoint}" if endpoint else "aws"


def _own_secrets(host: str) -> list[str]:
    site = _read_in_force(host)
    names = {source.secret for source in (site.sources.values() if site else ()) if source.secret}
    return sorted(
        full_name(secret_path("webhooks", host, name)) for name in names if not name.startswith(SHARED_SECRETS)
    )
