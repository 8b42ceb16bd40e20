"""The commands of `stoppress sites` that add, change and remove a site."""

import getpass
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, NoReturn

import typer
from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import bucket, site_versions, sites
from stoppress.aws.clients import client
from stoppress.aws.site_versions import Replaced, same_document
from stoppress.model.file_names import FileTooLarge
from stoppress.model.site import HOST, BadConfiguration, Site
from stoppress.model.site_parts import SHARED_SECRETS, secret_path
from stoppress.rewrite.predict import FileChange, predict
from stoppress.sitemaps.render import BrokenFile
from stoppress_cli.commands.secrets import full_name
from stoppress_cli.commands.sites.read_sites import File, Host, newest as require_site, newest_or_none, read_text
from stoppress_cli.connect import BadRequest
from stoppress_cli.options import WRITES, Commands, DryRun, Yes
from stoppress_cli.output import agrees, counted, end, show, track

app = Commands()

# Settings that no file shows. They apply to events that come after the change.
LATER_KEYS = ("sources", "feeds", "timezone", "shards", "republish", "silent_after_hours")


@dataclass(frozen=True, slots=True)
class Change:
    """A document, and the version that it would replace: 0 for a host without one. `before` is that version's document, if any."""

    text: str
    site: Site
    version: int
    before: str | None

    @property
    def is_same(self) -> bool:
        """Whether the site has this document already."""
        return self.before is not None and same_document(self.text, self.before)


@app.command("put", effect=WRITES, example="stoppress sites put site.json --stack stoppress")
def put(file: File, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Add a site or change its configuration. The command shows what would change in the files, then asks.

    The document replaces the whole configuration: feeds that it does not list are no longer polled. Exit code 0: done, or nothing
    to do; 1: you answered no; 2: the document has errors, somebody else changed the site meanwhile, or the stack cannot be reached.
    """
    planned = change_to(read_text(file))
    if file == "-" and not (planned.is_same or dry_run or yes or sys.stdin.isatty()):
        raise BadRequest("the document came from standard input, which cannot answer the question: give --yes")
    _put(planned, dry_run=dry_run, yes=yes)


@app.command("rollback", effect=WRITES, example="stoppress sites rollback www.example.com --stack stoppress")
def rollback(
    host: Host,
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", help="Version to put again; default: the one before.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Put an earlier version of a site as its next version. The command shows what would change in the files, then asks.

    Exit code 0: done; 1: you answered no; 2: there is no such version, somebody else changed the site meanwhile, or the stack cannot be
    reached.
    """
    _put(earlier_change(host, version), dry_run=dry_run, yes=yes)


def _put(planned: Change, *, dry_run: bool, yes: bool) -> NoReturn:
    """Show the effects of a change, ask, and write it."""
    host, version, is_agreed, is_new = planned.site.host, planned.version, False, planned.before is None
    lines: list[str] = []
    if planned.is_same:
        show(f"{host} has this configuration already, version {version}")
    else:
        show(f"{host} is a new site" if is_new else f"{host} has version {version}; with the document:")
        try:
            lines += list_effects(planned, datetime.now(UTC))
        except (BrokenFile, FileTooLarge) as error:
            raise BadRequest(f"a file of {host} could not be written with this configuration: {error}") from error
        for line in lines:
            show(line)
        is_agreed = agrees(f"Put the configuration of {host}?", yes=yes, dry_run=dry_run)
    if is_agreed:
        try:
            version = site_versions.put(planned.text, version, author(), datetime.now(UTC))
        except Replaced as error:
            raise BadRequest(_explain_replaced(planned) or str(error)) from None
        show(f"{host} has version {version}; the files follow within a minute")
    report = {"site": host, "is_new": is_new, "version": version, "effects": [line.strip() for line in lines]}
    end(report | {"done": is_agreed}, is_ok=planned.is_same or dry_run or is_agreed)


@app.command("remove", effect=WRITES, example="stoppress sites remove www.example.com --stack stoppress")
def remove(
    host: Host,
    delete_files: Annotated[
        bool, typer.Option("--delete-files", help="Delete everything in the site's folder of the bucket.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """End a site, with a version that records its removal. Its files stay as they are, unless you give --delete-files.

    Exit code 0: done; 1: you answered no; 2: the site is unknown, somebody else changed it meanwhile, or the stack cannot be reached.
    """
    current = sites.read_current(host) if HOST.fullmatch(host) else None
    files = [file.file for file in bucket.listed(host)] if current else []
    # An earlier removal may have failed, and left files.
    if current is None or (current.is_removed and not (delete_files and files)):
        require_site(host)  # raises BadRequest
    assert current
    secrets = _own_secrets(host)
    folder = f"s3://{bucket.bucket_name()}/{host}/"
    for name in files:
        show(f"{folder}{name}: {'is deleted' if delete_files else 'stays, and nothing changes it'}")
    is_agreed = agrees(f"Remove {host}?", yes=yes, dry_run=dry_run)
    if is_agreed:
        site_versions.remove(host, current.version, author(), datetime.now(UTC), deletes_files=delete_files)
        show("the removal is recorded")
        if delete_files:
            # A function that still uses the configuration deletes what it writes.
            objects = [{"Key": f"{host}/{file.file}"} for file in bucket.listed(host)]
            for start in track(range(0, len(objects), bucket.DELETED_OBJECTS_MAX), "batches of 1,000 files"):
                bucket.delete_objects(objects[start : start + bucket.DELETED_OBJECTS_MAX])
        show(f"{host} is removed; `stoppress sites rollback {host}` adds it again")
        if files and not delete_files:
            show(f"Delete its files when nobody fetches them: aws s3 rm --recursive {folder}")
        for name in secrets:
            show(f"Its secret stays: aws secretsmanager delete-secret --secret-id {name}")
    report = {"site": host, "version": current.version, "files": files, "deletes_files": delete_files}
    end(report | {"secrets": secrets, "done": is_agreed}, is_ok=dry_run or is_agreed)


def change_to(text: str) -> Change:
    """Return a document as a change of the version in force. Raises BadConfiguration."""
    site = site_versions.check_document(text)
    before = newest_or_none(site.host)
    return Change(text, site, before.number if before else 0, before.document if before else None)


def earlier_change(host: str, number: int | None) -> Change:
    """Return an earlier document of a site as a change; without a number, the newest one that differs. Raises BadRequest."""
    newest = newest_or_none(host)
    for version in site_versions.history(host) if newest else ():
        is_wanted = number or not same_document(str(version.document), str(newest and newest.document))
        if version.document and is_wanted and number in (None, version.number):
            return change_to(version.document)
    raise BadRequest(f"{host} has no such earlier version: `stoppress sites history {host}` lists them")


def list_effects(planned: Change, now: datetime) -> Iterator[str]:
    """Yield what the document would change: a line for the stories, for each file, and for the settings that apply later.

    Raises FileTooLarge and BrokenFile.
    """
    before: set[str] = set()
    after: set[str] = set()
    lines: dict[str, str] = {}
    for file in predict(planned.site, now):
        listed_before, listed_after = file.stories()
        before |= listed_before
        after |= listed_after
        if file.is_change:
            lines[file.file] = _summary(file)
    if before != after:
        leave, enter = counted(len(before - after), "story", "stories"), len(after - before)
        yield f"{leave} {_verb('leave', len(before - after))} the news sitemap, {enter:,} enter"
    yield from [f"  {name}: {lines[name]}" for name in sorted(lines)] or ["  no file changes"]
    if later := _later(planned):
        yield f"For later events alone: {', '.join(later)}"


def _summary(file: FileChange) -> str:
    if file.after is None:
        return "is deleted"
    is_listing = file.file.endswith(".xml")
    lines = file.lines()
    if file.before is None:
        return f"new, {counted(lines.enter, 'line')}" if is_listing else "new"
    counts = {"enter": lines.enter, "leave": lines.leave, "change": lines.change} if is_listing else {}
    parts = [f"{counted(count, 'line')} {_verb(verb, count)}" for verb, count in counts.items() if count]
    return ", ".join(parts) or "changes"


def _verb(verb: str, count: int) -> str:
    return f"{verb}s" if count == 1 else verb


def _later(planned: Change) -> list[str]:
    """Return the settings that differ and that no file shows."""
    if planned.before is None:
        return []
    try:
        before = sites.reload(planned.site.host)
    except BadConfiguration:
        return []
    return [key for key in LATER_KEYS if before and getattr(before, key) != getattr(planned.site, key)]


def _explain_replaced(planned: Change) -> str:
    """Explain what somebody else changed since the version was read; empty for a site that was added or removed meanwhile."""
    host = planned.site.host
    theirs = newest_or_none(host)
    if theirs is None or theirs.document is None or planned.before is None:
        return ""
    old, new = json.loads(planned.before), json.loads(theirs.document)
    keys = ", ".join(sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))) or "nothing"
    return (
        f"{theirs.author} wrote version {theirs.number} of {host} meanwhile, and changed {keys}:"
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


def _own_secrets(host: str) -> list[str]:
    try:
        site = sites.reload(host)
    except BadConfiguration:
        site = None
    names = {source.secret for source in (site.sources.values() if site else ()) if source.secret}
    return sorted(
        full_name(secret_path("webhooks", host, name)) for name in names if not name.startswith(SHARED_SECRETS)
    )
