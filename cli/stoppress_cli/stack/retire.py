"""Sites whose parameter is gone, and how to retire one."""

from datetime import datetime

from stoppress.aws import bucket, sites
from stoppress_cli.stack.find import BadRequest


def without_parameter() -> list[str]:
    """The registered hosts that have no parameter, not even an unusable one."""
    return sorted(sites.registered() - with_parameter())


def files_left(host: str) -> list[str]:
    """S3 URLs of the files that stay when a site is retired. Raises BadRequest for a site that must not be retired."""
    if host in with_parameter():
        raise BadRequest(f"{host} has its parameter: `stoppress sites remove {host}` deletes it and retires the site")
    if host not in sites.registered() and sites.last_applied(host) is None:
        known = ", ".join(without_parameter()) or "none"
        raise BadRequest(f"no site {host!r} is known here; sites without a parameter: {known}")
    return [f"s3://{bucket.bucket_name()}/{host}/{file.file}" for file in bucket.listed(host)]


def retire(host: str, now: datetime) -> list[str]:
    """Retires a site. Returns and raises as `files_left`."""
    files = files_left(host)
    sites.retire(host, now)
    return files


def with_parameter() -> set[str]:
    """The hosts that have a parameter, also an unusable one."""
    good, bad = sites.load_all()
    return {site.host for site in good} | {unreadable.host for unreadable in bad}
