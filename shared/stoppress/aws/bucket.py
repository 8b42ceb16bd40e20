"""The files in S3 under `<host>/<file>`. A file is written or deleted only if it has not changed since it was read."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import BufferedReader
from operator import itemgetter
from typing import Any

from botocore.exceptions import ClientError

from stoppress.aws.clients import client
from stoppress.primitives.instants import exact, parse, whole

# S3's refusals of a conditional write. 412: the file was written since it was read. 409: it is being written. 404: it
# was deleted (R9.6).
_OVERTAKEN = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "412", "409", "404"}
# S3 API reference, DeleteObjects.
DELETED_OBJECTS_MAX = 1_000
UNVERSIONED = "null"  # the id of a version in a bucket that keeps none, such as the local stack's (S3 user guide)


class Overtaken(Exception):
    """Another writer wrote the file since it was read: read and render it again."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in the bucket, when its bytes last changed, and the digest of the configuration that it was written with.

    `whole`: when it was last rendered from all its entries; None if changes cannot be folded into it (`sitemaps.fold`). `ours` is
    false for another writer's file, which lacks the metadata and may have other headers. `put_at` is S3's time of the PUT.
    """

    body: bytes
    etag: str
    changed: datetime
    config: str = ""
    whole: datetime | None = None
    ours: bool = True
    put_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A file in a listing of the bucket, or a version of it.

    `id` is that of the version, None for a deletion. The version was served until `until`; None: it is the present one.
    """

    file: str
    etag: str
    put_at: datetime
    id: str | None = None
    until: datetime | None = None


def read(site: str, file: str, version: str | None = None) -> StoredFile | None:
    """Return a site's file, or one of its versions by id, or None."""
    version_id = {"VersionId": version} if version else {}
    try:
        answer = client("s3").get_object(Bucket=bucket_name(), Key=f"{site}/{file}", **version_id)
    except ClientError as error:
        if error.response["Error"]["Code"] in ("NoSuchKey", "NoSuchVersion", "404"):
            return None
        raise
    metadata = answer["Metadata"]
    ours, whole = "changed" in metadata, metadata.get("whole")
    return StoredFile(
        answer["Body"].read(),
        answer["ETag"],
        parse(metadata["changed"]) if ours else answer["LastModified"],
        metadata.get("config", ""),
        parse(whole) if whole else None,
        ours,
        answer["LastModified"],
    )


def write(
    site: str,
    file: str,
    body: bytes,
    content_type: str,
    cache_control: str,
    *,
    replaces: StoredFile | None,
    changed: datetime,
    config: str,
    whole: datetime | None = None,
) -> None:
    """Put a file that replaces the one read (None: there was none). Raises Overtaken."""
    condition: dict[str, Any] = {"IfMatch": replaces.etag} if replaces else {"IfNoneMatch": "*"}
    try:
        client("s3").put_object(
            Bucket=bucket_name(),
            Key=f"{site}/{file}",
            Body=body,
            ContentType=content_type,
            CacheControl=cache_control,
            Metadata={
                "changed": exact(changed),
                "config": config,
                **({"whole": exact(whole)} if whole else {}),
            },
            **condition,
        )
    except ClientError as error:
        raise _overtaken_or(error) from error


def listed(site: str) -> Iterator[Listed]:
    """Yield all files in a site's folder, by name."""
    pages = client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket_name(), Prefix=f"{site}/")
    for row in (row for page in pages for row in page.get("Contents", [])):
        yield Listed(row["Key"].removeprefix(f"{site}/"), row["ETag"], row["LastModified"])


def read_all(bucket: str, prefix: str) -> Iterator[BufferedReader]:
    """Yield the objects of any bucket below a prefix, as streams."""
    pages = client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for row in (row for page in pages for row in page.get("Contents", [])):
        yield BufferedReader(client("s3").get_object(Bucket=bucket, Key=row["Key"])["Body"])


def versions(site: str, file: str | None = None) -> Iterator[Listed]:
    """Yield the versions of a site's files, or of one file, by name and the newest first. 1,000 take one call."""
    newer, until = "", None
    pages = client("s3").get_paginator("list_object_versions")
    for page in pages.paginate(Bucket=bucket_name(), Prefix=f"{site}/{file or ''}"):
        rows = [*page.get("Versions", []), *({**row, "VersionId": None} for row in page.get("DeleteMarkers", []))]
        newest_first = sorted(rows, key=itemgetter("LastModified"), reverse=True)
        for row in sorted(newest_first, key=itemgetter("Key")):
            name, put_at = row["Key"].removeprefix(f"{site}/"), whole(row["LastModified"])
            if file in (None, name):
                yield Listed(name, row.get("ETag", ""), put_at, row["VersionId"], until if name == newer else None)
                newer, until = name, put_at


def version_at(of_file: Iterable[Listed], at: datetime, now: datetime) -> Listed | None:
    """Return a file's version at a moment, without an id if there was no file. None: the bucket may have deleted it after its successor."""
    newer = None
    for version in of_file:
        if version.put_at <= at:
            break
        newer = version
    else:
        version = Listed("", "", at)
    kept_since = now - timedelta(days=int(os.environ["FILE_VERSIONS_DAYS"]))
    return version if newer is None or (newer.put_at > kept_since and newer.id != UNVERSIONED) else None


def read_at(site: str, file: str, at: datetime, now: datetime) -> tuple[Listed | None, StoredFile | None]:
    """Return a file's version at a moment as `version_at` does, and its content if there was a file."""
    version = version_at(versions(site, file), at, now)
    return version, read(site, file, version.id) if version and version.id else None


def delete_objects(objects: Iterable[Mapping[str, str]]) -> None:
    """Delete objects, each given by its Key and perhaps a VersionId. Raises ClientError for one that S3 does not delete."""
    identifiers = list(objects)
    for start in range(0, len(identifiers), DELETED_OBJECTS_MAX):
        batch: Any = {"Objects": identifiers[start : start + DELETED_OBJECTS_MAX], "Quiet": True}
        answer = client("s3").delete_objects(Bucket=bucket_name(), Delete=batch)
        for error in answer.get("Errors", ()):
            message = f"{error.get('Key')}: {error.get('Message')}"
            raise ClientError({"Error": {"Code": error.get("Code", ""), "Message": message}}, "DeleteObjects")


def delete(site: str, file: str, stored: StoredFile | Listed) -> None:
    """Delete a file if it has not changed since it was read. Raises Overtaken."""
    try:
        client("s3").delete_object(Bucket=bucket_name(), Key=f"{site}/{file}", IfMatch=stored.etag)
    except ClientError as error:
        raise _overtaken_or(error) from error


def _overtaken_or(error: ClientError) -> Exception:
    return Overtaken(str(error)) if error.response["Error"]["Code"] in _OVERTAKEN else error


def bucket_name() -> str:
    return os.environ["BUCKET_NAME"]
