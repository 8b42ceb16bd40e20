"""The version of a file that was served at a moment, unknown if the bucket may have deleted it."""

from datetime import UTC, datetime, timedelta

import pytest

from stoppress.aws.bucket import UNVERSIONED, Listed, version_at

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def versions(*ids: str | None, days: tuple[float, ...]) -> list[Listed]:
    """Return versions with these ages in days, the newest first."""
    instants = [NOW - number * DAY for number in days]
    return [Listed("f", "", at, id_, until) for id_, at, until in zip(ids, instants, [None, *instants], strict=False)]


@pytest.mark.parametrize(
    ("stored", "days_ago", "id_"),
    [
        (versions("b", "a", days=(1, 5)), 0.5, "b"),
        (versions("b", "a", days=(1, 5)), 1, "b"),
        (versions("b", "a", days=(1, 5)), 2, "a"),
        (versions("b", None, "a", days=(1, 2, 5)), 1.5, None),
        (versions("b", "a", days=(1, 5)), 6, None),
        ([], 6, None),
        (versions("a", days=(90,)), 60, "a"),
        (versions("b", "a", days=(13, 90)), 60, "a"),
        # S3 may delete an old version before an older one.
        (versions("b", "a", days=(15, 90)), 60, "unknown"),
        (versions("b", days=(15,)), 16, "unknown"),
        (versions("c", "b", days=(1, 15)), 16, "unknown"),
        (versions(UNVERSIONED, days=(1,)), 2, "unknown"),
        (versions(UNVERSIONED, days=(1,)), 0.5, UNVERSIONED),
    ],
)
def test_a_version_that_the_bucket_may_have_deleted_is_unknown(
    stored: list[Listed], days_ago: float, id_: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILE_VERSIONS_DAYS", "14")
    version = version_at(stored, NOW - days_ago * DAY, NOW)
    assert (version.id if version else "unknown") == id_
