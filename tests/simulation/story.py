"""What a newsroom does in a run: articles that are published, edited, moved, scheduled, removed; feeds; configuration; nonsense.

All of it from a seed. What the design leaves to the order of arrival (two articles that want one URL, of which the newer moves
on) is not told; everything else is, in any order, twice and late.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.simulation.oracle import Said

START = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)
HOSTS = ("www.example.com", "news.example.org")
# Longer than the skew of any clock in a run: an article's events are further apart.
APART = timedelta(minutes=3)
# And than the skew, so that nobody hears of an event before it was said: what lies ahead is cut to the hearer's clock.
ON_ITS_WAY = timedelta(seconds=6)
# After so long a new site's files have been written for the second time, and nothing is mended any more by the way.
SETTLED = timedelta(minutes=5)
# Beginnings of paths that an edition may have, and rules of a robots.txt.
EDITIONS = ("/news", "/stra%C3%9Fe", "/feed")
ROBOTS = ("", "User-agent: *\nDisallow: /search")
TITLES = ("Flood closes the harbour", "Vote & count", "Über 30 °C", "“Quiet” day — 東京", "A")


@dataclass
class Delivery:
    """Something that reaches the stack at an instant."""

    at: datetime
    kind: str  # webhook, bus, site, name a file, poison, nothing more
    said: Said | None = None
    body: Any = None


@dataclass
class Story:
    """What is said, what is delivered and when, what the feeds hold from when on, and how the sites are configured at last.

    `steady` are sites whose editions never change: where they do, an article stays where it was when it was last told of.
    """

    hosts: tuple[str, ...]
    said: list[Said] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    feeds: dict[str, list[tuple[datetime, list[Said]]]] = field(default_factory=dict)
    publication: dict[str, str] = field(default_factory=dict)
    kept_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    outputs: dict[str, dict[str, bool]] = field(default_factory=dict)
    editions: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    robots: dict[str, str | None] = field(default_factory=dict)
    steady: dict[str, bool] = field(default_factory=dict)
    poison: list[str] = field(default_factory=list)
    ends: datetime = START


def tell(chance: random.Random) -> Story:
    """The story of a seed."""
    story = Story(HOSTS[: chance.choice((1, 1, 1, 2))])
    begin = START + chance.choice((timedelta(), SETTLED, SETTLED))
    length = timedelta(minutes=chance.choice((1, 1, 20, 120, 600, 2_400)))
    for host in story.hosts:
        _configure(chance, story, host, begin, length)
    urls: dict[str, list[str]] = {host: [] for host in story.hosts}
    for number in range(chance.randint(2, 9)):
        host = chance.choice(story.hosts)
        _keep(story, _article(chance, host, number, urls[host], begin, length))
    for host in story.hosts:
        if chance.random() < 0.4:
            _feed(chance, story, host, begin, length)
    for configured in (one for one in story.deliveries if one.kind == "site"):
        configured.body["feeds"] = [feed_of(host) for host in story.feeds if host == configured.body["host"]]
    for said in [one for one in story.said if one.told_by != "feed"]:
        _deliver(chance, story, said, length)
    _nonsense(chance, story, begin, length)
    for host in story.hosts:
        if chance.random() < 0.25:
            _waver(chance, story, host, begin + chance.random() * length)
    for host in story.hosts:
        _say_more(chance, story, host)
    feeds = [at for states in story.feeds.values() for at, _ in states]
    story.ends = max([begin + length, *feeds, *(one.at for one in story.deliveries)])
    story.deliveries.append(Delivery(story.ends, "nothing more"))
    return story


# ── articles ──


def _article(
    chance: random.Random, host: str, number: int, urls: list[str], begin: datetime, length: timedelta
) -> list[Said]:
    """All that is said of one article, oldest first."""
    at = begin + chance.random() * length
    taken = chance.choice(urls) if urls and chance.random() < 0.25 else None
    url = taken or f"https://{host}/{chance.choice(('news/', 'sponsored/', 'stra%C3%9Fe/'))}a{number}"
    scheduled = chance.random() < 0.15
    published: datetime | None = (
        at
        - timedelta(minutes=2)
        - chance.choice((timedelta(), timedelta(hours=1), timedelta(hours=47, minutes=50), timedelta(days=3)))
    )
    if scheduled:
        published = at + timedelta(minutes=chance.choice((20, 90, 700)))
    elif chance.random() < 0.1:
        published = None
    one = Said(
        host, chance.choice(("cms", "cms", "wire")), f"{number}", number * 100, at.replace(microsecond=0),
        url=url, title=f"{chance.choice(TITLES)} {number}", published_at=published and published.replace(microsecond=0),
        dated_by_order=chance.choice(("version", "version", "number", "updated_at")),
        noindex=chance.random() < 0.05, news=chance.random() > 0.05,
    )  # fmt: skip
    one = replace(one, updated_at=one.at if one.dated_by_order == "updated_at" or chance.random() < 0.5 else None)
    told = [one]
    urls.append(url)
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        told.append(_next(chance, told, urls, scheduled=scheduled))
    return told


def _next(chance: random.Random, told: list[Said], urls: list[str], *, scheduled: bool) -> Said:
    last = told[-1]
    at = (last.at + APART + chance.random() * timedelta(hours=chance.choice((0, 1, 6)))).replace(microsecond=0)
    after = replace(last, number=last.number + 1, at=at, updated_at=at, removal=False)
    match chance.choice(("edit", "edit", "move", "remove", "remove", "noindex", "out of news", "redate", "same")):
        case "move" if not last.removal:
            after = replace(after, url=f"{told[0].url}-{len(told)}")
            urls.append(after.url)
        case "remove":
            return replace(after, removal=True)
        case "noindex" if not scheduled:
            return replace(after, noindex=not last.noindex)
        case "out of news":
            return replace(after, news=not last.news)
        case "redate" if not scheduled and last.published_at and urls.count(last.url) == 1:
            return replace(after, published_at=at - timedelta(minutes=2))
        case "same":
            return replace(after, updated_at=at if last.dated_by_order == "updated_at" else last.updated_at or at)
    return replace(after, title=f"{last.title} again")


def _keep(story: Story, told: list[Said]) -> None:
    """Take an article into the story, with a URL of its own where it would depend on the order of arrival who has it."""
    if _depends(story.said + told):
        told = [replace(one, url=f"{one.url}-own-{one.id}") for one in told]
    story.said += [replace(one, told_by="cms") for one in told]


def _depends(said: list[Said]) -> bool:
    """Whether some article ends on a URL that a newer one had and left, or was dated anew where it shares a URL."""
    last = {(one.site, one.source, one.id): one for one in sorted(said, key=lambda one: one.number)}
    for one in said:
        for other in said:
            if one.url != other.url or (one.source, one.id) == (other.source, other.id):
                continue
            end, end_of_other = last[one.site, one.source, one.id], last[other.site, other.source, other.id]
            stays = end_of_other.url == other.url and not end_of_other.removal
            if stays and not (end.url == one.url and not end.removal) and _since(one) >= _since(end_of_other):
                return True
            if len({two.published_at for two in said if (two.source, two.id) == (one.source, one.id)}) > 1:
                return True
    return False


def _since(one: Said) -> datetime:
    return one.updated_at or one.at


# ── feeds ──


def feed_of(host: str) -> str:
    """The URL of a site's feed."""
    return f"https://{host}/rss.xml"


def _feed(chance: random.Random, story: Story, host: str, begin: datetime, length: timedelta) -> None:
    """A feed that grows, and whose entries are edited; one of them may be a page that the CMS speaks for."""
    entries: list[Said] = []
    states: list[tuple[datetime, list[Said]]] = [(START, [])]
    at = begin
    single = [one for one in story.said if one.site == host and not one.removal and _alone(story, one)]
    for number in range(chance.randint(1, 5)):
        at = (at + chance.random() * length / 4).replace(microsecond=0)
        if entries and chance.random() < 0.4:
            place = chance.randrange(len(entries))
            old = entries[place]
            entries[place] = replace(old, number=old.number + 1, at=at, title=f"{old.title} (edited)")
        else:
            page = chance.choice(single).url if single and chance.random() < 0.3 else f"https://{host}/feed/{number}"
            dated = chance.random() < 0.8
            published = (
                (at - timedelta(minutes=chance.choice((2, 600, 2_870)))).replace(microsecond=0) if dated else None
            )
            if page not in {entry.url for entry in entries}:
                title = f"From the feed {number}"
                entry = Said(
                    host, "feed", f"guid-{number}", number * 100, at, url=page, title=title, published_at=published
                )
                entries.append(entry)
        states.append((at, list(entries)))
    story.feeds[host] = states
    story.said += {(one.id, one.number): one for _, state in states for one in state}.values()


def _alone(story: Story, one: Said) -> bool:
    """Whether a page has had one article, and that no other page, no removal and a date."""
    of_it = [other for other in story.said if (other.source, other.id) == (one.source, one.id)]
    its_page = [other for other in story.said if other.url == one.url]
    return (
        of_it == its_page
        and {other.url for other in of_it} == {one.url}
        and all(other.published_at and not other.removal and not other.noindex for other in of_it)
    )


# ── how it arrives ──


def _deliver(chance: random.Random, story: Story, said: Said, length: timedelta) -> None:
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        delay = chance.choice((timedelta(), timedelta(seconds=3), timedelta(minutes=10), length / 2))
        story.deliveries.append(
            Delivery(said.at + ON_ITS_WAY + chance.random() * delay, chance.choice(("webhook", "bus")), said)
        )


def _configure(chance: random.Random, story: Story, host: str, begin: datetime, length: timedelta) -> None:
    document: dict[str, Any] = {
        "host": host,
        "publication": "Example News",
        "sources": {"cms": {"secret": "cms"}, "wire": {"secret": "cms"}},
        "shards": {"by": chance.choice(("day", "month", "year")), "size": chance.choice((2, 3, 50))},
        "outputs": {"gzip": chance.random() < 0.3, "text": chance.random() < 0.2, "atom": chance.random() < 0.2},
    }
    story.deliveries.append(Delivery(START, "site", body=document))
    for number in range(chance.choice((0, 0, 0, 1, 2))):
        document = {**document, "publication": f"Example News {number}"}
        if chance.random() < 0.5:
            document["rules"] = [{"path": "/sponsored/*"}]
        if chance.random() < 0.3:
            document["outputs"] = {"gzip": chance.random() < 0.5, "atom": chance.random() < 0.5}
        story.deliveries.append(Delivery(begin + chance.random() * length, "site", body=document))


def _waver(chance: random.Random, story: Story, host: str, begin: datetime) -> None:
    """Somebody turns a site's outputs off and on, and on and off, within seconds or minutes."""
    sites = [one for one in story.deliveries if one.kind == "site" and one.body["host"] == host]
    document = max((one for one in sites if one.at <= begin), key=lambda one: one.at, default=sites[0]).body
    outputs, at = document["outputs"], begin
    form, apart_s = chance.choice(("gzip", "gzip", "text", "atom")), chance.choice((2, 20, 70))
    for _ in range(chance.choice((2, 2, 3, 4))):
        outputs = {**outputs, form: not outputs.get(form)}
        story.deliveries.append(Delivery(at, "site", body={**document, "outputs": outputs}))
        at += chance.random() * timedelta(seconds=2 * apart_s)


def _say_more(chance: random.Random, story: Story, host: str) -> None:
    """Some sites have an edition, perhaps with a news sitemap of its own, or keep a robots.txt: from some change to another."""
    sites = sorted(
        (one for one in story.deliveries if one.kind == "site" and one.body["host"] == host), key=lambda one: one.at
    )
    edition = {"prefix": chance.choice(EDITIONS), "publication": "Example Daily"}
    edition |= {"news": "daily"} if chance.random() < 0.7 else {}
    for share, said in ((0.3, {"editions": [edition]}), (0.3, {"robots": chance.choice(ROBOTS)})):
        first, last = sorted(chance.choices(range(len(sites)), k=2))
        for one in sites[first : chance.choice((last + 1, len(sites)))] if chance.random() < share else []:
            one.body |= said
    story.steady[host] = len({json.dumps(one.body.get("editions")) for one in sites}) == 1


def configured(story: Story, document: dict[str, Any]) -> None:
    """A site's configuration is in force. Of two that are put at once the one that came second counts, as for SSM."""
    story.publication[document["host"]] = document["publication"]
    story.outputs[document["host"]] = document["outputs"]
    story.editions[document["host"]] = document.get("editions", [])
    story.robots[document["host"]] = document.get("robots")
    story.kept_out[document["host"]] = ("sponsored/",) if "rules" in document else ()


def _nonsense(chance: random.Random, story: Story, begin: datetime, length: timedelta) -> None:
    """Files that an operator names, and messages that nobody can apply."""
    kinds: list[Callable[[], Delivery]] = [
        lambda: _named(chance, story, "sitemap-news.xml"),
        lambda: _named(chance, story, "sitemap.xml"),
        lambda: _named(chance, story, "sitemap-2026-11.xml"),
    ]
    for _ in range(chance.choice((0, 1, 3))):
        delivery = chance.choice(kinds)()
        story.deliveries.append(replace(delivery, at=begin + chance.random() * length))
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        body = chance.choice(("not json", "{}", '{"site": "www.example.com", "id": ""}', '{"site": "no.example"}'))
        story.poison.append(body)
        story.deliveries.append(Delivery(begin + chance.random() * length, "poison", body=body))


def _named(chance: random.Random, story: Story, file: str) -> Delivery:
    return Delivery(START, "name a file", body={"site": chance.choice(story.hosts), "file": file})
