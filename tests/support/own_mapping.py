"""A mapping file for a CMS that Stoppress does not support, and a story in that CMS's format."""

from pathlib import Path
from typing import Any

from stoppress.cms.mapping import MappingFile, read_file

GAZETTE = """
name = "gazette"
title = "The Gazette's own system"
reads = "story.live and story.gone"
verified = "its developer's word"
signature = "github"
items = "body.stories"

[settings]
base_url = "the site's own URL"
timezone = "of its dates"
language = "of its stories"

[vars]
story = "item.story"

[[when]]
ignore = "an advertisement"
if = "story.kind == 'advert'"

[action]
from = "item.event"
map = { "story.live" = "publish", "story.changed" = "update", "story.gone" = "delete" }

[fields]
id = "story.number"
url = ["story.link", "fill('/{section}/{number}', story)"]
title = "story.heading"
published_at = ["story.live_since", "story.written"]
updated_at = "story.changed"
language = ["story.tongue", "settings.language"]
section = "story.section"
keywords = "story.words"
news = "story.is_news"
images = "story.pictures"
"""


def mapping(folder: Path, text: str) -> MappingFile:
    (folder / "gazette.toml").write_text(text)
    return read_file(folder / "gazette.toml")


def story(event: str = "story.live", **changes: Any) -> dict[str, Any]:
    live = {"number": 7, "link": "/local/7", "heading": "Harbour & ferry", "live_since": "2026-11-20T08:00:00Z"}
    return {"event": event, "story": live | changes}
