"""The door to the files, in S3: `<host>/<file>`, written only while they are as they were read."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError

from stoppress.aws.clients import client
from stoppress.model.file_names import content_type, is_shard
from stoppress.primitives.instants import exact, parse

# What must be fresh is fetched every minute (R9.3); a shard that somebody edits is late by five at most.
CACHE_FRESH = "public, max-age=60"
CACHE_SHARD = "public, max-age=300"

# 412: somebody wrote meanwhile. 409: somebody is writing. 404: what was to be replaced is gone (R9.6).
_OVERTAKEN = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "412", "409", "404"}


class Overtaken(Exception):
    """Somebody wrote the file since it was read: read again, render again."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as it stands in the bucket, when its bytes last changed, and the configuration it was made by.

    `form` names what its lines were made by, where a change can be folded into them; `whole` is when it was last made from all
    its entries. What somebody else has put there is not `ours`: it has no such metadata, and perhaps other headers.
    """

    body: bytes
    etag: str
    changed: datetime
    config_version: int
    form: str = ""
    whole: datetime | None = None
    ours: bool = True


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as a listing of the bucket names it."""

    file: str
    etag: str
    put_at: datetime


def read(site: str, file: str) -> StoredFile | None:
    """A site's file, or None where there is none."""
    try:
        answer = client("s3").get_object(Bucket=bucket_name(), Key=f"{site}/{file}")
    except ClientError as error:
        if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
            return None
        raise
    metadata = answer["Metadata"]
    if "changed" not in metadata:
        return StoredFile(answer["Body"].read(), answer["ETag"], answer["LastModified"], 0, ours=False)
    whole = metadata.get("whole")
    return StoredFile(
        answer["Body"].read(),
        answer["ETag"],
        parse(metadata["changed"]),
        int(metadata.get("config-version", 0)),
        metadata.get("form", ""),
        parse(whole) if whole else None,
    )


def write(
    site: str,
    file: str,
    body: bytes,
    *,
    replaces: StoredFile | None,
    changed: datetime,
    config_version: int,
    form: str = "",
    whole: datetime | None = None,
) -> None:
    """Put a file in the place of what was read, or where there was none. Raises Overtaken."""
    condition: dict[str, Any] = {"IfMatch": replaces.etag} if replaces else {"IfNoneMatch": "*"}
    try:
        client("s3").put_object(
            Bucket=bucket_name(),
            Key=f"{site}/{file}",
            Body=body,
            ContentType=content_type(file),
            CacheControl=CACHE_SHARD if is_shard(file) else CACHE_FRESH,
            Metadata={
                "changed": exact(changed),
                "config-version": str(config_version),
                **({"form": form} if form else {}),
                **({"whole": exact(whole)} if whole else {}),
            },
            **condition,
        )
    except ClientError as error:
        raise _overtaken_or(error) from error


def listed(site: str) -> Iterator[Listed]:
    """All that stands in a site's folder, in the order of the names."""
    pages = client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket_name(), Prefix=f"{site}/")
    for row in (row for page in pages for row in page.get("Contents", [])):
        yield Listed(row["Key"].removeprefix(f"{site}/"), row["ETag"], row["LastModified"])


def delete(site: str, file: str, stored: StoredFile | Listed) -> None:
    """Take away a file that is as it was read. Raises Overtaken."""
    try:
        client("s3").delete_object(Bucket=bucket_name(), Key=f"{site}/{file}", IfMatch=stored.etag)
    except ClientError as error:
        raise _overtaken_or(error) from error


def _overtaken_or(error: ClientError) -> Exception:
    return Overtaken(str(error)) if error.response["Error"]["Code"] in _OVERTAKEN else error


def bucket_name() -> str:
    return os.environ["BUCKET_NAME"]
