"""Sites whose parameter is gone: which there are, and how one is retired on purpose."""

from datetime import datetime

from stoppress.aws import bucket, sites


def without_parameter() -> list[str]:
    """The registered hosts that have no parameter, readable or not."""
    return sorted(sites.registered() - _with_parameter())


def files_left(host: str) -> list[str]:
    """Where the files stand that retiring a site leaves. Raises ValueError for a site that must not be retired."""
    if host in _with_parameter():
        raise ValueError(f"{host} has its parameter: delete {sites.parameter_name(host)} first")
    if host not in sites.registered() and sites.last_applied(host) is None:
        known = ", ".join(without_parameter()) or "none"
        raise ValueError(f"no site {host!r} is kept here; sites without a parameter: {known}")
    return [f"s3://{bucket.bucket_name()}/{host}/{file.file}" for file in bucket.listed(host)]


def retire(host: str, now: datetime) -> list[str]:
    """Retire a site; the files that are left. Raises ValueError as `files_left`."""
    files = files_left(host)
    sites.retire(host, now)
    return files


def _with_parameter() -> set[str]:
    good, bad = sites.load_all()
    return {site.host for site in good} | {unreadable.host for unreadable in bad}
