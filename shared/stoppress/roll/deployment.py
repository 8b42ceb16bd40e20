"""What the first run after a deployment does: it adds the first site, and has files rewritten that other code would write differently."""

import json
import os
from datetime import datetime
from hashlib import sha256

from stoppress.aws import bucket, due, site_versions, sites, table
from stoppress.model.site import schema
from stoppress.primitives.instants import exact
from stoppress.roll.window import RECONCILED_EVERY
from stoppress.sitemaps.tags import RENDERER

# The item with the code that ran last.
CODE_KEY = ("clock", "code")


def begin(now: datetime) -> None:
    """Add the first site, and queue the files of all sites if this code reads or renders them differently from the code before."""
    _add_first_site(now)
    code = _code()
    item = table.get(*CODE_KEY)
    if item and item["code"] == code:
        return
    if item:
        for host in sites.hosts():
            due.write(due.configuration(host, now))
    else:
        due.write(due.reconciliation(now + RECONCILED_EVERY))
    pk, sk = CODE_KEY
    table.put_if({"pk": pk, "sk": sk, "code": code, "at": exact(now)})


def _code() -> str:
    """Return a digest that changes with the settings of a site, their defaults, and the form of a line."""
    settings = json.dumps(schema(), sort_keys=True)
    return sha256(f"{RENDERER} {settings}".encode()).hexdigest()[:16]


def _add_first_site(now: datetime) -> None:
    """Write version 1 of the site of the template's parameters, if the host has neither a version nor files."""
    text = os.environ["FIRST_SITE"]
    if not text:
        return
    host = site_versions.check_document(text).host
    if sites.read_current(host) is None and next(bucket.listed(host), None) is None:
        try:
            site_versions.put(text, 0, "the stack's parameters", now)
        except site_versions.Replaced:  # somebody else was faster
            return
