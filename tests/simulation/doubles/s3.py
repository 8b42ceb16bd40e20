"""In-memory double of S3 with one bucket."""

import hashlib
import io
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stoppress_cli.local.template import Json
from tests.simulation.doubles.errors import NotSupported, error


@dataclass(frozen=True)
class Stored:
    """An object: its bytes, its ETag and its headers."""

    body: bytes
    etag: str
    headers: Json
    changed: datetime


class S3:
    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        self.objects: dict[str, Stored] = {}
        # The versions of each object with their instants, oldest first; None is a delete marker.
        self.versions: dict[str, list[tuple[datetime, Stored | None]]] = {}

    def get_object(self, *, Bucket: str, Key: str, VersionId: str | None = None) -> Json:  # noqa: N803
        self._check_bucket("GetObject", Bucket)
        stored = self.versions[Key][int(VersionId)][1] if VersionId else self.objects.get(Key)
        if stored is None:
            raise error("GetObject", "NoSuchKey", "The specified key does not exist.")
        return {
            "Body": io.BytesIO(stored.body),
            "ETag": stored.etag,
            "LastModified": stored.changed,
            "ContentLength": len(stored.body),
            "Metadata": {},
            **stored.headers,
            "ResponseMetadata": {"HTTPHeaders": _http_headers(stored.headers)},
        }

    def put_object(
        self,
        *,
        Bucket: str,  # noqa: N803
        Key: str,  # noqa: N803
        Body: bytes,  # noqa: N803
        IfMatch: str | None = None,  # noqa: N803
        IfNoneMatch: str | None = None,  # noqa: N803
        **headers: Any,
    ) -> Json:
        self._check_bucket("PutObject", Bucket)
        if unknown := headers.keys() - {"ContentType", "CacheControl", "Metadata"}:
            raise NotSupported(f"the double does not support {sorted(unknown)} of PutObject")
        stored = self.objects.get(Key)
        if IfMatch and stored is None:
            raise error("PutObject", "NoSuchKey", "The specified key does not exist.")
        if (IfNoneMatch == "*" and stored) or (IfMatch and stored and stored.etag != IfMatch):
            raise error(
                "PutObject", "PreconditionFailed", "At least one of the pre-conditions you specified did not hold"
            )
        etag = f'"{hashlib.md5(Body, usedforsecurity=False).hexdigest()}"'
        self.objects[Key] = Stored(Body, etag, headers, _now())
        self.versions.setdefault(Key, []).append((_now(), self.objects[Key]))
        return {"ETag": etag}

    def list_objects_v2(self, *, Bucket: str, Prefix: str = "") -> Json:  # noqa: N803
        self._check_bucket("ListObjectsV2", Bucket)
        rows = [(key, self.objects[key]) for key in sorted(self.objects) if key.startswith(Prefix)]
        contents = [{"Key": key, "ETag": stored.etag, "LastModified": stored.changed} for key, stored in rows]
        return {"Contents": contents} if contents else {}

    def delete_object(self, *, Bucket: str, Key: str, IfMatch: str | None = None) -> Json:  # noqa: N803
        self._check_bucket("DeleteObject", Bucket)
        stored = self.objects.get(Key)
        if IfMatch and stored is None:
            raise error("DeleteObject", "NoSuchKey", "The specified key does not exist.")
        if IfMatch and stored and stored.etag != IfMatch:
            raise error(
                "DeleteObject", "PreconditionFailed", "At least one of the pre-conditions you specified did not hold"
            )
        self.objects.pop(Key, None)
        self.versions.setdefault(Key, []).append((_now(), None))
        return {}

    def delete_objects(self, *, Bucket: str, Delete: Json) -> Json:  # noqa: N803
        for row in Delete["Objects"]:
            self.delete_object(Bucket=Bucket, Key=row["Key"])
        return {}

    def list_object_versions(self, *, Bucket: str, Prefix: str = "") -> Json:  # noqa: N803
        self._check_bucket("ListObjectVersions", Bucket)
        answer: Json = {"Versions": [], "DeleteMarkers": []}
        for key in sorted(key for key in self.versions if key.startswith(Prefix)):
            for number, (at, stored) in reversed(list(enumerate(self.versions[key]))):
                row = {"Key": key, "VersionId": str(number), "LastModified": at}
                answer["Versions" if stored else "DeleteMarkers"].append(row)
        return answer

    def _check_bucket(self, operation: str, bucket: str) -> None:
        if bucket != self._bucket:
            raise error(operation, "NoSuchBucket", bucket)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _http_headers(headers: Json) -> Json:
    names = {"ContentType": "content-type", "CacheControl": "cache-control"}
    return {names[name]: value for name, value in headers.items() if name in names}
