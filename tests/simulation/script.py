"""Generates a run's script: acts of editors, feeds, changes of the configuration, and invalid messages.

One seed decides everything. `Article` has the verbs of an editor, and `senders` defines how acts are sent.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from tests.simulation.oracle import FEED, TOLERANCE, Act
from tests.simulation.senders import SPONSORED, Sender, document

START = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)
HOSTS = ("www.example.com", "news.example.org")
SOURCES = ("cms", "wire")
# By then, a new site's files have been written a second time, which would repair earlier faults.
SETTLE_TIME = timedelta(minutes=5)
# By then, a feed's entry has been polled, and a new date does not count as a correction of the first date.
CORRECTION_PERIOD = timedelta(minutes=150)
# Path prefixes of editions, and rules of a robots.txt.
EDITIONS = ("/news", "/stra%C3%9Fe", "/feed")
ROBOTS = ("", "User-agent: *\nDisallow: /search")
TITLES = ("Flood closes the harbour", "Vote & count", "Über 30 °C", "“Quiet” day — 東京", "A")


# The fields of a `Script` that a site's configuration sets.
CONFIGURED = ("publication", "outputs", "editions", "robots", "scheme", "excluded")
# A signature scheme without delivery ids.
WITHOUT_IDS = "github"


@dataclass
class Delivery:
    """An input to the stack at an instant. All attempts share the delivery id `id`, empty if there is none."""

    at: datetime
    kind: str  # webhook, bus, site, unreadable, rollback, rebuild, backup, rewrite file, poison, end
    act: Act | None = None
    body: Any = None
    id: str = ""


@dataclass
class Feed:
    """A feed: its entries from each instant on. `has_build_date`: it contains the date of its last change."""

    host: str
    states: list[tuple[datetime, list[Act]]]
    has_build_date: bool


@dataclass
class Script:
    """All acts, deliveries and feed states of a run, and the sites' current configuration.

    `removals` are sites that are removed and put again at the end, with True if their files are deleted. `is_damaged`: a file is changed.
    `fixed_editions` are sites whose editions never change: otherwise an article stays in its files until its next event.
    """

    hosts: tuple[str, ...]
    acts: list[Act] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    feeds: dict[str, Feed] = field(default_factory=dict)
    senders: dict[tuple[str, str], Sender] = field(default_factory=dict)
    publication: dict[str, str] = field(default_factory=dict)
    excluded: dict[str, tuple[str, ...]] = field(default_factory=dict)
    outputs: dict[str, dict[str, bool]] = field(default_factory=dict)
    editions: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    robots: dict[str, str | None] = field(default_factory=dict)
    scheme: dict[str, str] = field(default_factory=dict)
    removals: dict[str, bool] = field(default_factory=dict)
    is_damaged: bool = False
    fixed_editions: dict[str, bool] = field(default_factory=dict)
    poison: list[str] = field(default_factory=list)
    ends: datetime = START

    def public_from(self) -> dict[str, datetime]:
        """Return the instant from which each page may be listed, by its own acts and the acts of pages that list it."""
        public_from: dict[str, datetime] = {}
        for act in self.acts:
            for url in () if act.removal else (act.url, *(url for _, url in act.alternates)):
                public_from[url] = min(public_from.get(url, _public_at(act)), _public_at(act))
        return public_from


def _public_at(act: Act) -> datetime:
    date = act.published_at or act.at
    if date <= act.at:
        return act.at
    clock_is_ahead = act.source == FEED or (act.stamp is not None and date <= act.stamp)
    return max(act.at, date - TOLERANCE) if clock_is_ahead else date


def generate_script(rng: random.Random) -> Script:
    versions = random.Random(repr(rng.getstate()))  # separate, so that other draws stay equal
    operator, mishaps = (random.Random(f"{name} {rng.getstate()}") for name in ("operator", "mishaps"))
    script = Script(HOSTS[: rng.choice((1, 1, 1, 2))])
    begin = START + rng.choice((timedelta(), SETTLE_TIME, SETTLE_TIME))
    length = timedelta(minutes=rng.choice((1, 1, 20, 120, 600, 2_400)))
    for host in script.hosts:
        _configure(rng, script, host, begin, length)
        for source in SOURCES:
            script.senders[host, source] = Sender.draw(rng, host, source, begin, length)
        _choose_signatures(script, host)
    write_articles(rng, script, begin, length)
    for host in script.hosts:
        for number in range(rng.choice((0, 0, 1, 1, 2))):
            _feed(rng, script, host, f"https://{host}/{('rss', 'blog')[number]}.xml", begin, length)
    for site in (delivery for delivery in script.deliveries if delivery.kind == "site"):
        own = [url for url, feed in script.feeds.items() if feed.host == site.body["host"]]
        site.body["feeds"] = [{"url": url, "take": ["keywords"]} for url in own]  # rules may use keywords
    if versions.random() < 0.4:
        link_versions(versions, script)
    for act in script.acts:
        if act.source != FEED:
            _deliver(rng, script, act, length)
    _add_poison(rng, script, begin, length)
    for host in script.hosts:
        if rng.random() < 0.25:
            _toggle_outputs(rng, script, host, begin + rng.random() * length)
    for host in script.hosts:
        _vary_settings(rng, script, host)
    _add_operations(operator, script, begin, length)
    _add_restores(mishaps, script, begin, length)
    _respell(rng, script)
    changes = [at for feed in script.feeds.values() for at, _ in feed.states]
    script.ends = max([begin + length, *changes, *(delivery.at for delivery in script.deliveries)])
    script.deliveries.append(Delivery(script.ends, "end"))
    return script


# ── articles ──


def _number(script: Script, at: datetime) -> int:
    return int((at - START).total_seconds() * 1_000) * 10_000 + len(script.acts)


class Article:
    """An article in the CMS. Each verb is an act at `now`; `wait` advances `now`."""

    def __init__(self, rng: random.Random, script: Script, sender: Sender, id_: str, url: str, now: datetime) -> None:
        self.rng, self.script, self.sender, self.id, self.now = rng, script, sender, id_, now
        self.url, self.title = url, f"{rng.choice(TITLES)} {id_}"
        self.published_at: datetime | None = None
        self.updated_at: datetime | None = None
        self.noindex, self.news, self.is_live = False, True, False
        self.created_at = now
        self._count = 0

    def wait(self) -> None:
        """Advance to the next act."""
        if self.sender.is_fast:
            self.now += timedelta(seconds=self.rng.choice((0.2, 1, 8, 40, 90)))
        else:
            self.now += timedelta(minutes=3 + self.rng.random() * self.rng.choice((0, 60, 360)))
        self.now = self.now.replace(microsecond=self.now.microsecond // 1000 * 1000)

    # ── the verbs ──

    def publish(self, ago: timedelta | None = timedelta(minutes=2)) -> None:
        """Publish, with a date `ago`; a negative value schedules the article."""
        self.published_at = None if ago is None else self.sender.date(self.now - ago, self.now)
        self._change(text=True)
        self._act("publish")

    def edit(self) -> None:
        """Change the headline."""
        self.title += " again"
        self._change(text=True)
        self._act("update")

    def revert_title(self) -> None:
        """Restore the previous headline."""
        self.title = self.title.removesuffix(" again")
        self._change(text=True)
        self._act("update")

    def edit_text(self) -> None:
        """Change the text, which only changes lastmod, if the sender sends `updated_at`."""
        self._change(text=True)
        self._act("update")

    def save(self) -> None:
        """Save without a change."""
        self._change(text=False)
        self._act("update")

    def move(self, url: str) -> None:
        """Change the slug."""
        self.url = url
        self._change(text=False)
        self._act("update")

    def unpublish(self) -> None:
        """Unpublish; the article may be published again."""
        self.is_live = False
        self._act("unpublish")

    def publish_again(self, *, edited: bool) -> None:
        """Publish again, unchanged or edited."""
        if edited:
            self.title += " and more"
            self._change(text=True)
        self._act("publish")

    def delete(self) -> None:
        """Delete permanently."""
        self.is_live = False
        self._act("delete")
        self._count = 0 if self.sender.restarts_counter else self._count

    def reuse_id(self, url: str) -> None:
        """Publish another story under the id of a deleted article."""
        self.url, self.title, self.updated_at, self.created_at = url, f"Another story {self.id}", None, self.now
        self.publish()

    def redate(self, date: datetime) -> None:
        """Change the date of publication: a future date schedules or postpones, an earlier date corrects."""
        self.published_at = self.sender.date(date, self.now)
        self._change(text=False)
        self._act("update" if self.is_live else "publish", dated=True)

    def toggle_noindex(self) -> None:
        """Set or clear noindex."""
        self.noindex = not self.noindex
        self._change(text=False)
        self._act("update")

    def toggle_news(self) -> None:
        """Exclude from the news, or include again."""
        self.news = not self.news
        self._change(text=False)
        self._act("update")

    def _change(self, *, text: bool) -> None:
        when = self.sender.updated_at
        if when == "always" or (when == "for text changes" and text):
            self.updated_at = self.sender.date(self.now, self.now)

    def _act(self, verb: str, *, dated: bool = False) -> None:
        sender, by = self.sender, self.rng.choice(self.sender.by)
        removal = verb in ("unpublish", "delete")
        sends_date = verb == "publish" or dated or sender.dates_edits
        act = Act(
            sender.site, sender.source, self.id, _number(self.script, self.now), self.now, verb, self.url, self.title,
            self.published_at if sends_date and not removal else None, self.updated_at, self.noindex, self.news,
            sender.stamp(self.now, by), sender.version(self.now, self._count, removal=removal),
            sender.ref, by,
        )  # fmt: skip
        self._count += 1
        self.is_live = not removal
        self.script.acts.append(act)

    @property
    def last(self) -> Act:
        """The latest act."""
        return [act for act in self.script.acts if (act.source, act.id) == (self.sender.source, self.id)][-1]


def write_articles(rng: random.Random, script: Script, begin: datetime, length: timedelta) -> None:
    """Generate all acts of a newsroom's articles."""
    articles: list[Article] = []
    for number in range(rng.randint(2, 8)):
        sender = script.senders[rng.choice(script.hosts), rng.choice((*SOURCES, "cms"))]
        now = (begin + rng.random() * length).replace(microsecond=0)
        url = f"https://{sender.site}/{rng.choice(('news/', 'sponsored/', 'stra%C3%9Fe/'))}a{number}"
        others = [other for other in articles if other.sender.site == sender.site]
        if others and rng.random() < 0.15:
            url = rng.choice(others).url
        article = Article(rng, script, sender, f"{number}", url, now)
        _create(rng, article)
        longest = rng.choice((0, 1, 2, 3, 4, 4, 12))
        for _ in range(rng.randint(0, longest)):
            article.wait()
            _apply_next_verb(rng, article, others)
        articles.append(article)
    # A removal by URL is unambiguous only if the URL had one article, and the article one URL.
    pairs = {(act.article, act.url) for act in script.acts}
    for number, act in enumerate(script.acts):
        if sum(act.article == article_ or act.url == url for article_, url in pairs) > 1 and act.ref == "url":
            script.acts[number] = replace(act, ref="id")


def _create(rng: random.Random, article: Article) -> None:
    """Apply an article's first acts."""
    hours = timedelta(hours=1)
    article.noindex, article.news = rng.random() < 0.05, rng.random() > 0.05
    match rng.choice(("now", "now", "now", "old", "undated", "scheduled", "scheduled", "by mistake", "incorrect")):
        case "now":
            article.publish()
        case "old":
            article.publish(rng.choice((hours, 47 * hours + 50 * hours / 60, 72 * hours)))
        case "undated":
            article.publish(None)
        case "scheduled":
            article.publish(-_ahead(rng))
        case "by mistake":
            article.publish()
            article.wait()
            article.unpublish()
            article.wait()
            article.redate(article.now + _ahead(rng))
        case "incorrect":
            true = article.now - timedelta(minutes=2)
            wrong = rng.choice((365, -365, 1, -1)) * timedelta(days=1)
            article.publish(article.now - true - wrong)
            article.wait()
            article.redate(true)


def _ahead(rng: random.Random) -> timedelta:
    return timedelta(minutes=rng.choice((3, 20, 90, 700, 1_440, 2_900)))


VERBS = (
    "edit", "edit", "edit", "revert title", "edit text", "save", "move", "unpublish", "unpublish", "delete", "reschedule",
    "postpone", "redate", "toggle noindex", "toggle news", "swap", "take over",
)  # fmt: skip


def _apply_next_verb(rng: random.Random, article: Article, others: list[Article]) -> None:
    """Apply a random verb to an article."""
    verb = rng.choice(VERBS)
    others = [other for other in others if other.url != article.url]
    live = [other for other in others if other.is_live]
    ahead = article.now + _ahead(rng)
    if not article.is_live:
        _revive(rng, article)
    elif verb == "move":
        article.move(f"{article.url}-moved")
    elif verb == "take over" and others:
        article.move(rng.choice(others).url)
    elif verb == "swap" and live:
        _swap_urls(rng, article, rng.choice(live))
    elif verb == "postpone" or (verb == "reschedule" and (article.published_at or START) > article.now):
        article.redate(ahead)
    elif verb == "redate" and article.published_at and article.now > article.created_at + CORRECTION_PERIOD:
        article.redate(article.now - timedelta(minutes=2))
    else:
        simple: dict[str, Callable[[], None]] = {
            "revert title": article.revert_title,
            "edit text": article.edit_text,
            "save": article.save,
            "unpublish": article.unpublish,
            "delete": article.delete,
            "toggle noindex": article.toggle_noindex,
            "toggle news": article.toggle_news,
        }
        simple.get(verb, article.edit)()


def _revive(rng: random.Random, article: Article) -> None:
    """Republish, reuse or delete a removed article."""
    deleted = article.last.verb == "delete"
    if deleted and rng.random() < 0.5:
        article.reuse_id(f"{article.url}-new")
    elif not deleted and rng.random() < 0.7:
        article.publish_again(edited=rng.random() < 0.3)
    elif not deleted:
        article.delete()


def _swap_urls(rng: random.Random, article: Article, other: Article) -> None:
    """Swap the slugs of two articles."""
    other.now = article.now = max(article.now, other.now + timedelta(seconds=1))
    urls = article.url, other.url
    article.move(urls[1])
    other.now += timedelta(seconds=rng.choice((0, 1, 30)))
    other.move(urls[0])


# ── language versions ──

LANGUAGES = ("en", "fr", "de", "es")


def link_versions(rng: random.Random, script: Script) -> None:
    """Link some articles of all hosts as language versions. Most link to the others always, some only at times or wrongly."""
    for site in (delivery for delivery in script.deliveries if delivery.kind == "site"):
        site.body["alternate_hosts"] = [host for host in script.hosts if host != site.body["host"]]
        if rng.random() < 0.5:
            site.body["shards"] = {**site.body["shards"], "per_section": True}
    articles = sorted({(act.site, act.article) for act in script.acts if act.source != FEED and act.id})
    rng.shuffle(articles)
    cluster = dict(zip(articles, rng.sample(LANGUAGES * 2, len(LANGUAGES)), strict=False))
    urls = {article: {act.url for act in script.acts if (act.site, act.article) == article} for article in cluster}
    lists = {article: _versions(rng, article, cluster, urls) for article in cluster}
    varying = {article for article in cluster if rng.random() < 0.3}
    for number, act in enumerate(script.acts):
        article = act.site, act.article
        if article in cluster and not act.removal:
            listed = lists[article]
            if article in varying:
                listed = rng.choice((listed, (), _versions(rng, article, cluster, urls)))
            script.acts[number] = replace(act, language=cluster[article], alternates=listed)


def _versions(
    rng: random.Random,
    article: tuple[str, str],
    cluster: dict[tuple[str, str], str],
    urls: dict[tuple[str, str], set[str]],
) -> tuple[tuple[str, str], ...]:
    """Return the other versions that an article links to: all, some or none, each by one of its URLs."""
    share = rng.choice((0, 0.5, 1, 1))
    others = [other for other in cluster if other != article and rng.random() < share]
    return tuple({cluster[other]: rng.choice(sorted(urls[other])) for other in others}.items())


# ── feeds ──

# By date fault of a feed: the error of the old software, and by how much the new software moves existing dates.
OLD_AND_NEW = {
    "none": (timedelta(), timedelta()),
    "zone mended": (-timedelta(hours=1), timedelta(hours=1)),
    "zone ahead mended": (timedelta(hours=2), -timedelta(hours=2)),
    "plugin": (timedelta(minutes=1), -timedelta(hours=3)),
}
FAULTS = (*OLD_AND_NEW, "dates begin", "updated ends")


def _feed(rng: random.Random, script: Script, host: str, url: str, begin: datetime, length: timedelta) -> None:
    """Generate a growing feed with edited entries, whose dates all change when its software is replaced.

    Its guids are numbers, which mean another page in another feed. Some of its pages are also sent by the CMS.
    """
    fault = rng.choice(FAULTS)
    entries: list[Act] = []
    feed = Feed(host, [(START, [])], rng.random() < 0.5)
    at = begin
    of_cms = [act for act in script.acts if act.site == host and act.source != FEED]
    undated = {act.article for act in of_cms if not act.removal and not act.published_at}
    # An undated article takes over the feed's date, which the oracle does not know.
    pages = sorted({act.url for act in of_cms} - {act.url for act in of_cms if act.article in undated})
    changes_at = rng.randint(1, 5)

    def add(act: Act, at: datetime, **changes: Any) -> Act:
        changed = replace(act, number=_number(script, at), at=at, **changes)
        script.acts.append(changed)
        return changed

    for number in range(rng.randint(1, 6)):
        at = (at + timedelta(seconds=1) + rng.random() * length / 4).replace(microsecond=0)
        if number == changes_at:
            entries[:] = [add(entry, at, **_with_new_software(entry, fault)) for entry in entries]
        elif entries and rng.random() < 0.5:
            place = rng.randrange(len(entries))
            title = entries[place].title
            title = title.removesuffix(" (edited)") if title.endswith(" (edited)") else f"{title} (edited)"
            updated = {"updated_at": at} if entries[place].updated_at else {}
            entries[place] = add(entries[place], at, title=title, **updated)
        elif len(entries) > 1 and rng.random() < 0.15:
            entries.pop(0)
        else:
            page = rng.choice(pages) if pages and rng.random() < 0.25 else f"{url.removesuffix('.xml')}/{number}"
            page = page.replace("/rss/", "/feed/")
            if any(act.url == page and act.source == FEED for act in script.acts):
                continue
            published = (at - timedelta(minutes=rng.choice((2, 600, 2_870)))).replace(microsecond=0)
            entry = Act(host, FEED, f"{url} {number}", 0, at, "publish", page, f"From the feed {number}", published)
            if number > changes_at:  # the new software
                entry = replace(entry, updated_at=None)
            else:
                entry = replace(entry, **_with_old_software(entry, fault))
            entries.append(add(entry, at))
        feed.states.append((at, list(entries)))
    script.feeds[url] = feed
    _remove_by_its_url(rng, script, host, at)


def _with_old_software(entry: Act, fault: str) -> dict[str, Any]:
    assert entry.published_at
    if fault == "dates begin":
        return {"published_at": None}
    if fault == "updated ends":
        return {"updated_at": entry.at}
    return {"published_at": entry.published_at + OLD_AND_NEW[fault][0]}


def _with_new_software(entry: Act, fault: str) -> dict[str, Any]:
    if fault == "dates begin":
        return {"published_at": entry.at - timedelta(minutes=2)}
    if fault == "updated ends":
        return {"updated_at": None}
    return {"published_at": entry.published_at and entry.published_at + OLD_AND_NEW[fault][1]}


def _remove_by_its_url(rng: random.Random, script: Script, host: str, at: datetime) -> None:
    """Remove a page by its URL, as a CMS does that never sent the page, long after a feed listed it."""
    others = {act.url for act in script.acts if act.source != FEED}
    pages = sorted({act.url for act in script.acts if act.site == host and act.source == FEED} - others)
    if not pages or rng.random() < 0.7:
        return
    sender, now, by = script.senders[host, "cms"], at + CORRECTION_PERIOD, "webhook"
    removal = Act(host, "cms", "", _number(script, now), now, "unpublish", rng.choice(pages), ref="url", by=by)
    script.acts.append(replace(removal, stamp=sender.stamp(now, by)))


# ── deliveries ──


def _deliver(rng: random.Random, script: Script, act: Act, length: timedelta) -> None:
    sender = script.senders[act.site, act.source]
    id_ = f"msg_{act.number}" if sender.has_delivery_ids and act.by == "webhook" else ""
    for at in sender.attempts(rng, act, length):
        script.deliveries.append(Delivery(at, act.by, act, document(act), id_))


def _respell(rng: random.Random, script: Script) -> None:
    """Change the spelling of the URL in some acts."""
    spelled = {act.number: replace(act, spelling=_spelling(rng, act.url)) for act in script.acts if rng.random() < 0.1}
    script.acts[:] = [spelled.get(act.number, act) for act in script.acts]
    for feed in script.feeds.values():
        feed.states[:] = [(at, [spelled.get(entry.number, entry) for entry in entries]) for at, entries in feed.states]
    for delivery in script.deliveries:
        if delivery.act and (act := spelled.get(delivery.act.number)):
            delivery.act, delivery.body = act, document(act)


def _spelling(rng: random.Random, url: str) -> str:
    """Return an equivalent spelling of a URL: an unneeded escape, an escape in lower case, or no escape."""
    beginning, _, last = url.rpartition("/")
    spellings = [f"{beginning}/%{ord(last[0]):02x}{last[1:]}"]
    if "%" in url:
        spellings += [url.replace("%C3%9F", "%c3%9f"), unquote(url)]
    return rng.choice(spellings)


def _configure(rng: random.Random, script: Script, host: str, begin: datetime, length: timedelta) -> None:
    document: dict[str, Any] = {
        "host": host,
        "publication": "Example News",
        "sources": {"cms": {"secret": "cms"}, "wire": {"secret": "cms"}},
        "shards": {"by": rng.choice(("day", "month", "year")), "size": rng.choice((2, 3, 50))},
        "outputs": {"gzip": rng.random() < 0.3, "text": rng.random() < 0.2, "atom": rng.random() < 0.2},
    }
    script.deliveries.append(Delivery(START, "site", body=document))
    for number in range(rng.choice((0, 0, 0, 1, 2))):
        document = {**document, "publication": f"Example News {number}"}
        if rng.random() < 0.5:
            document["rules"] = [{"path": "/sponsored/*"}]
        if rng.random() < 0.3:
            document["outputs"] = {"gzip": rng.random() < 0.5, "atom": rng.random() < 0.5}
        script.deliveries.append(Delivery(begin + rng.random() * length, "site", body=document))


def _choose_signatures(script: Script, host: str) -> None:
    """Sign the webhooks of a sender without delivery ids by a scheme that has none."""
    for delivery in script.deliveries:
        if delivery.kind == "site" and delivery.body["host"] == host:
            delivery.body["sources"] = {
                source: {"secret": "cms"}
                | ({} if script.senders[host, source].has_delivery_ids else {"settings": {"signature": WITHOUT_IDS}})
                for source in SOURCES
            }


def _toggle_outputs(rng: random.Random, script: Script, host: str, begin: datetime) -> None:
    """Turn an output of a site on and off repeatedly, within seconds or minutes."""
    sites = [site for site in script.deliveries if site.kind == "site" and site.body["host"] == host]
    document = max((site for site in sites if site.at <= begin), key=lambda site: site.at, default=sites[0]).body
    outputs, at = document["outputs"], begin
    form, apart_s = rng.choice(("gzip", "gzip", "text", "atom")), rng.choice((2, 20, 70))
    for _ in range(rng.choice((2, 2, 3, 4))):
        outputs = {**outputs, form: not outputs.get(form)}
        script.deliveries.append(Delivery(at, "site", body={**document, "outputs": outputs}))
        at += rng.random() * timedelta(seconds=2 * apart_s)


def _sites(script: Script, host: str) -> list[Delivery]:
    """Return the configurations of a site, in order."""
    sites = (site for site in script.deliveries if site.kind == "site" and site.body["host"] == host)
    return sorted(sites, key=lambda site: site.at)


def _set_for_a_while(rng: random.Random, sites: list[Delivery], share: float, settings: dict[str, Any]) -> None:
    """With probability `share`, add settings to a site's configurations from one change to another, or to the end."""
    first, last = sorted(rng.choices(range(len(sites)), k=2))
    for site in sites[first : rng.choice((last + 1, len(sites)))] if rng.random() < share else []:
        site.body |= settings


def _vary_settings(rng: random.Random, script: Script, host: str) -> None:
    """Add an edition, perhaps with its own news sitemap, or a robots.txt to some configurations."""
    sites = _sites(script, host)
    edition = {"prefix": rng.choice(EDITIONS), "publication": "Example Daily"}
    edition |= {"news": "daily"} if rng.random() < 0.7 else {}
    for share, settings in ((0.3, {"editions": [edition]}), (0.3, {"robots": rng.choice(ROBOTS)})):
        _set_for_a_while(rng, sites, share, settings)
    script.fixed_editions[host] = len({json.dumps(site.body.get("editions")) for site in sites}) == 1


def _add_operations(rng: random.Random, script: Script, begin: datetime, length: timedelta) -> None:
    """Put some sites under http, exclude pages by a keyword, or roll back, rebuild, remove and put them again."""
    has_versions = any(act.alternates for act in script.acts)
    for host in script.hosts:
        # Versions on two hosts must be under https, and a rule by keyword excludes a version only with its next event.
        if not (has_versions and len(script.hosts) > 1):
            _set_for_a_while(rng, _sites(script, host), 0.25, {"scheme": "http"})
        for site in _sites(script, host):
            if "rules" in site.body and not has_versions and rng.random() < 0.5:
                site.body["rules"] = [{"keyword": SPONSORED}]
        for kind in ("rollback", "rebuild"):
            if rng.random() < 0.15:
                script.deliveries.append(Delivery(begin + rng.random() * length, kind, body=host))
        if rng.random() < 0.1:
            script.removals[host] = rng.random() < 0.5
    script.is_damaged = rng.random() < 0.2


def _add_restores(rng: random.Random, script: Script, begin: datetime, length: timedelta) -> None:
    """Add unreadable versions of sites and, unless there are feeds, whose entries would be lost, a restore of the table."""
    hosts = [host for host in script.hosts if rng.random() < 0.2]
    backups = [Delivery(begin + rng.random() * length, "backup")] if not script.feeds and rng.random() < 0.5 else []
    script.deliveries += backups
    script.deliveries += [Delivery(begin + rng.random() * length, "unreadable", body=host) for host in hosts]


def apply_configuration(script: Script, document: dict[str, Any]) -> None:
    """Note a site's current configuration. Of two concurrent changes, the second counts."""
    script.publication[document["host"]] = document["publication"]
    script.outputs[document["host"]] = document["outputs"]
    script.editions[document["host"]] = document.get("editions", [])
    script.robots[document["host"]] = document.get("robots")
    script.scheme[document["host"]] = document.get("scheme", "https")
    script.excluded[document["host"]] = ("sponsored/",) if "rules" in document else ()


def _add_poison(rng: random.Random, script: Script, begin: datetime, length: timedelta) -> None:
    """Add rewrite requests by an operator, and unreadable messages."""
    kinds: list[Callable[[], Delivery]] = [
        lambda: _rewrite_request(rng, script, "sitemap-news.xml"),
        lambda: _rewrite_request(rng, script, "sitemap.xml"),
        lambda: _rewrite_request(rng, script, "sitemap-2026-11.xml"),
    ]
    for _ in range(rng.choice((0, 1, 3))):
        delivery = rng.choice(kinds)()
        script.deliveries.append(replace(delivery, at=begin + rng.random() * length))
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        body = rng.choice(("not json", "{}", '{"site": "www.example.com", "id": ""}', '{"site": "no.example"}'))
        script.poison.append(body)
        script.deliveries.append(Delivery(begin + rng.random() * length, "poison", body=body))


def _rewrite_request(rng: random.Random, script: Script, file: str) -> Delivery:
    return Delivery(START, "rewrite file", body={"site": rng.choice(script.hosts), "file": file})
