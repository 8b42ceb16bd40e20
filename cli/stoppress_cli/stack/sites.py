"""Sites and their configurations in Parameter Store: list, show, put, remove."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from stoppress.aws import bucket, sites
from stoppress.aws.clients import client
from stoppress.aws.sites import SETTLED_AFTER
from stoppress.model.site import BadConfiguration, Site, read_site, secret_path
from stoppress.rewrite.predict import FileChange, predict
from stoppress_cli.inputs.site_file import OWN, SiteFile, joined
from stoppress_cli.printing import counted
from stoppress_cli.stack.find import BadRequest
from stoppress_cli.stack.retire import without_parameter
from stoppress_cli.stack.secrets import full_name

# Settings that no file shows. They apply to events that come after the change.
LATER_KEYS = ("sources", "feeds", "timezone", "shards", "republish", "silent_after_hours")
# SSM API reference, DeleteParameters; S3 API reference, DeleteObjects.
PARAMETERS_A_CALL = 10
OBJECTS_A_CALL = 1_000

APPLIED, WAITING, UNREADABLE, GONE = "applied", "not yet applied", "unreadable", "without its parameter"


@dataclass(frozen=True, slots=True)
class Listing:
    """A site in the list. Version, sources and feeds are None where the parameter is unreadable or gone."""

    host: str
    state: str
    version: int | None = None
    sources: tuple[str, ...] | None = None
    feeds: int | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as it is stored."""

    value: str
    version: int
    type: str


@dataclass(frozen=True, slots=True)
class Change:
    """A document, and the parameters that it replaces, by the last part of their names."""

    file: SiteFile
    current: Mapping[str, Parameter]

    @property
    def host(self) -> str:
        return self.file.site.host

    @property
    def is_new(self) -> bool:
        return OWN not in self.current

    @property
    def version(self) -> int:
        """The version that the site's own parameter has; 0 for a new site."""
        return 0 if self.is_new else self.current[OWN].version

    @property
    def puts(self) -> dict[str, str]:
        """The values that differ, the site's own parameter last. So no feed is missing while feeds move to a further parameter."""
        values = sorted(self.file.values.items(), key=lambda item: item[0] == OWN)
        return {name: value for name, value in values if not self._is_stored(name, value)}

    @property
    def surplus(self) -> list[str]:
        """The parameters with feeds that the document does not need."""
        return sorted(self.current.keys() - self.file.values.keys())

    def _is_stored(self, name: str, value: str) -> bool:
        try:
            return name in self.current and bool(json.loads(self.current[name].value) == json.loads(value))
        except ValueError:
            return False


def listing() -> list[Listing]:
    """All sites, also those whose parameter is unreadable or gone."""
    good, bad = sites.load_all()
    rows = [
        Listing(site.host, _state(site), site.version, tuple(sorted(site.sources)), len(site.feeds)) for site in good
    ]
    rows += [Listing(unreadable.host, UNREADABLE) for unreadable in bad]
    rows += [Listing(host, GONE) for host in without_parameter()]
    return sorted(rows, key=lambda row: row.host)


def _state(site: Site) -> str:
    """Whether roll_window has applied this configuration."""
    applied = sites.last_applied(site.host)
    return APPLIED if applied and _content(applied) == _content(site) else WAITING


def _content(site: Site) -> tuple[int, str, str]:
    return site.version, site.feeds_versions, site.model_dump_json()


def stored(host: str) -> dict[str, Parameter]:
    """A site's parameters by the last part of their names, the site's own first."""
    prefix = sites.parameter_name(host)
    return {
        parameter["Name"].removeprefix(prefix).removeprefix("/"): Parameter(
            parameter["Value"], parameter["Version"], parameter.get("Type", "String")
        )
        for parameter in sites.parameters_of(host)
    }


def report(host: str) -> dict[str, Any]:
    """A site's configuration, version and state. The key `full` has every setting. Raises BadRequest and BadConfiguration."""
    parameters = stored(host)
    if OWN not in parameters:
        raise BadRequest(f"there is no site {host!r}: `stoppress sites list` has the sites")
    good, bad = sites.load_all(host)
    if bad:
        raise BadConfiguration(f"the parameter {bad[0].name} cannot be used: {bad[0].reason}")
    [site] = good
    return {
        "host": host,
        "state": _state(site),
        "version": site.version,
        "parameters": {_name(host, name): parameter.version for name, parameter in parameters.items()},
        "configuration": joined({name: parameter.value for name, parameter in parameters.items()}),
        "full": json.loads(site.model_dump_json()),
    }


# ── put ──


def change(file: SiteFile) -> Change:
    """The document, beside the parameters that the site has now."""
    return Change(file, stored(file.site.host))


def effects(planned: Change, now: datetime) -> Iterator[str]:
    """What the document would change: a line for the stories, for each file, and for the settings that apply later.

    Raises FileTooLarge and BrokenFile.
    """
    site = planned.file.site.model_copy(update={"version": planned.version + 1})
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
        leave, enter = counted(len(before - after), "story", "stories"), len(after - before)
        yield f"{leave} {'leaves' if len(before - after) == 1 else 'leave'} the news sitemap, {enter:,} enter"
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
    """The settings that differ and that no file shows."""
    if planned.is_new:
        return []
    try:
        values = {name: parameter.value for name, parameter in planned.current.items()}
        before = read_site(values.pop(OWN), 0, values)
    except BadConfiguration:
        return []
    return [key for key in LATER_KEYS if getattr(before, key) != getattr(planned.file.site, key)]


def put(planned: Change) -> int:
    """Put the document. Returns the version of the site's own parameter. Raises BadRequest if somebody else changed the site."""
    current = stored(planned.host)
    if _versions(current) != _versions(planned.current):
        raise BadRequest(f"somebody else has changed {planned.host} since it was read: run the command again")
    version = planned.version
    for name, value in planned.puts.items():
        put_version = _put(planned, name, value)
        version = put_version if name == OWN else version
    _delete([_name(planned.host, name) for name in planned.surplus])
    return version


def _put(planned: Change, name: str, value: str) -> int:
    known = planned.current.get(name)
    try:
        answer = client("ssm").put_parameter(
            Name=_name(planned.host, name),
            Value=value,
            Type=known.type if known else "String",
            Tier="Intelligent-Tiering",
            Overwrite=known is not None,
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ParameterAlreadyExists":
            raise
        raise BadRequest(f"somebody else has just added {_name(planned.host, name)}: run the command again") from error
    expected = known.version + 1 if known else 1
    # SSM has no conditional put. If somebody else puts in the same moment, only the version shows it.
    if answer["Version"] != expected:
        raise BadRequest(
            f"{_name(planned.host, name)} has version {answer['Version']} and not {expected}: somebody else wrote it in"
            " the same moment, and this document replaced theirs. Compare `stoppress sites show` with what both of you want"
        )
    return expected


def _versions(parameters: Mapping[str, Parameter]) -> dict[str, int]:
    return {name: parameter.version for name, parameter in parameters.items()}


def _name(host: str, part: str) -> str:
    return f"{sites.parameter_name(host)}/{part}".removesuffix("/")


def _delete(names: Iterable[str]) -> None:
    ordered = list(names)
    for start in range(0, len(ordered), PARAMETERS_A_CALL):
        client("ssm").delete_parameters(Names=ordered[start : start + PARAMETERS_A_CALL])


# ── remove ──


@dataclass(frozen=True, slots=True)
class Removal:
    """What the stack has of a site: its parameters, its files in the bucket and the secrets that only this site uses."""

    host: str
    parameters: list[str]
    files: list[str]
    secrets: list[str]

    @property
    def folder(self) -> str:
        return f"s3://{bucket.bucket_name()}/{self.host}/"


def removal(host: str) -> Removal:
    """What the stack has of a site. Raises BadRequest for a host that no site has."""
    parameters = [_name(host, name) for name in stored(host)]
    if not parameters and host not in without_parameter():
        known = ", ".join(row.host for row in listing()) or "none"
        raise BadRequest(f"there is no site {host!r}: give one of {known}")
    return Removal(host, parameters, [file.file for file in bucket.listed(host)], _own_secrets(host))


def _own_secrets(host: str) -> list[str]:
    try:
        site = sites.load_kept(host)
    except (sites.UnknownSite, BadConfiguration):
        return []
    paths = {secret_path(host, source.secret) for source in site.sources.values() if source.secret}
    return sorted(full_name(path) for path in paths if path.startswith(f"{host}/"))


def remove(
    removed: Removal,
    now: Callable[[], datetime],
    *,
    delete_files: bool,
    show: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Delete a site's parameters, retire the site, and with `delete_files` delete its files.

    Before it retires the site, it waits until no function uses the deleted configuration. Such a function could register the site again,
    or write a file. After an interruption, a second call does the rest.
    """
    if removed.parameters:
        _delete(removed.parameters)
        show(f"its configuration is deleted; waiting {SETTLED_AFTER.total_seconds():.0f} s until no function uses it")
        pause(SETTLED_AFTER.total_seconds())
    sites.retire(removed.host, now())
    if delete_files:
        keys = [{"Key": f"{removed.host}/{file.file}"} for file in bucket.listed(removed.host)]
        for start in range(0, len(keys), OBJECTS_A_CALL):
            answer = client("s3").delete_objects(
                Bucket=bucket.bucket_name(),
                Delete={"Objects": keys[start : start + OBJECTS_A_CALL], "Quiet": True},
            )
            if errors := answer.get("Errors"):
                raise BadRequest(f"S3 did not delete {errors[0].get('Key')}: {errors[0].get('Message')}")
