"""Where a site's articles come from: its feeds and its CMSs, with their secrets."""

from typing import Any, Literal, TypeAlias

import pydantic
from pydantic import ConfigDict, Field

from stoppress.model.validation import Part, WebUrl

Taken: TypeAlias = Literal["images", "videos", "language", "keywords", "alternates"]


class Feed(Part):
    """A feed that is polled for a site. Other keys, such as a title, are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str = Field(
        pattern=r"^https?://\S+$",
        max_length=2_000,
        description="URL of an RSS or Atom feed, a sitemap, or an index of sitemaps",
    )
    interval_minutes: int = Field(default=1, ge=1, le=1_440, description="shortest time between two polls")
    interval_max_minutes: int | None = Field(
        default=None, ge=1, le=1_440, description="longest time between two polls, while nothing new comes"
    )
    own: bool | None = Field(
        default=None, description="whether the publisher itself makes the feed; null: the feed's host decides"
    )
    take: tuple[Taken, ...] = Field(default=(), description="what to read besides a page's URL, title and dates")
    websub: bool = Field(default=True, description="whether to subscribe at the WebSub hub that the feed names")


# Name of the stack's secret for WebSub (template.yaml).
HUBS_SECRET = "websub"
# Several sites may share a secret only if its name begins with this.
SHARED_SECRETS = "shared/"
SECRET_NAME = r"^[A-Za-z0-9/_+=.@-]{1,200}$"
# A secret's purpose is the first part of its path: receive_webhook, audit_sources and notify_engines may each read only one of them.
SecretPurpose = Literal["webhooks", "lists", "engines"]


def secret_path(purpose: SecretPurpose, host: str, name: str) -> str:
    """Return the path of a site's secret in Secrets Manager, below the stack's path.

    A signature does not cover the URL of the webhook. If two sites used one secret by accident, a captured delivery to one site
    could be sent to the other. So each site has its own secrets. Sites share a secret only if its name begins with `shared/`.
    """
    return f"{purpose}/{name}" if name.startswith(SHARED_SECRETS) else f"{purpose}/{host}/{name}"


class SourceList(Part):
    """The API that lists a source's articles, for `stoppress import` and the hourly audit."""

    url: WebUrl = Field(description="URL of the list; docs/how-to/audit.md has it for each CMS")
    adapter: str | None = Field(
        default=None,
        description="adapter that reads the list; null: the source's own, if it can read one, as `standard` cannot",
    )
    secret: str | None = Field(default=None, pattern=SECRET_NAME, description="name of the secret with the API's key")
    audit: bool = Field(
        default=True, description="whether an audit compares the list with what was recorded, each hour"
    )

    @pydantic.model_validator(mode="after")
    def _keys_need_https(self) -> "SourceList":
        if self.secret and not self.url.startswith("https:"):
            raise ValueError("url: the key would be sent unencrypted: give an address that begins with https://")
        return self


class Source(Part):
    """A CMS that posts webhooks or puts events on the bus."""

    # Any adapter but `standard` is a file in `cms/mappings/`.
    adapter: str = Field(default="standard", description="the CMS; `standard` is Stoppress's own event format")
    secret: str | None = Field(
        default=None,
        pattern=SECRET_NAME,
        description="name of the source's secret; without one only the event bus may use the source",
    )
    settings: dict[str, Any] = Field(default={}, description="what the adapter needs to know; the signature's settings")
    list: SourceList | None = Field(default=None, description="the API that lists the source's articles")

    @pydantic.field_validator("adapter")
    @classmethod
    def _known_adapter(cls, adapter: str) -> str:
        if adapter != "standard":
            from stoppress.model.adapters import check_name  # most sites do not need it

            check_name(adapter)
        return adapter

    @pydantic.model_validator(mode="after")
    def _known_settings(self) -> "Source":
        if self.settings:
            from stoppress.model.adapters import check_settings

            check_settings(self.adapter, self.settings)
        if self.list:
            from stoppress.model.adapters import check_list

            check_list(self.list_adapter)
        return self

    @property
    def list_adapter(self) -> str:
        """The adapter that reads the source's list. Both must give an article the same id, as WordPress and our plugin do."""
        assert self.list
        return self.list.adapter or self.adapter
