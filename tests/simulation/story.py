"""What a newsroom does in a run: articles that are published, edited, moved, scheduled, removed; feeds; configuration; nonsense.

All of it from a seed. `Article` has the verbs of an editor; how its acts are sent is the sender's (`senders`).
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
# After so long a new site's files have been written for the second time, and nothing is mended any more by the way.
SETTLED = timedelta(minutes=5)
# After so long an entry of a feed has been polled, and a date of now is no correction of the first one any more.
LONG_SINCE = timedelta(minutes=150)
# Beginnings of paths that an edition may have, and rules of a robots.txt.
EDITIONS = ("/news", "/stra%C3%9Fe", "/feed")
ROBOTS = ("", "User-agent: *\nDisallow: /search")
TITLES = ("Flood closes the harbour", "Vote & count", "Über 30 °C", "“Quiet” day — 東京", "A")


# What a configuration says of a site in a `Story`.
CONFIGURED = ("publication", "outputs", "editions", "robots", "scheme", "kept_out")
# A scheme of signatures whose requests have no id of the delivery.
WITHOUT_IDS = "github"


@dataclass
class Delivery:
    """Something that reaches the stack at an instant. `id` is that of the delivery, the same in all attempts; empty if it has none."""

    at: datetime
    kind: str  # webhook, bus, site, unreadable, rollback, rebuild, backup, name a file, poison, nothing more
    act: Act | None = None
    body: Any = None
    id: str = ""


@dataclass
class Feed:
    """A feed: what it holds from when on. `tells_its_age` where it says when it was changed."""

    host: str
    states: list[tuple[datetime, list[Act]]]
    tells_its_age: bool


@dataclass
class Story:
    """What is done, what is delivered and when, what the feeds hold from when on, and how the sites are configured at last.

    `leaves` are sites that are removed at the end, and come back: True if their files are deleted. `is_damaged`: somebody changes a file.
    `steady` are sites whose editions never change: where they do, an article stays where it was when it was last told of.
    """

    hosts: tuple[str, ...]
    acts: list[Act] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    feeds: dict[str, Feed] = field(default_factory=dict)
    senders: dict[tuple[str, str], Sender] = field(default_factory=dict)
    publication: dict[str, str] = field(default_factory=dict)
    kept_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    outputs: dict[str, dict[str, bool]] = field(default_factory=dict)
    editions: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    robots: dict[str, str | None] = field(default_factory=dict)
    scheme: dict[str, str] = field(default_factory=dict)
    leaves: dict[str, bool] = field(default_factory=dict)
    is_damaged: bool = False
    steady: dict[str, bool] = field(default_factory=dict)
    poison: list[str] = field(default_factory=list)
    ends: datetime = START

    def public_from(self) -> dict[str, datetime]:
        """From when on each page may be named: no word of it, nor of a page that lists it, allows it earlier."""
        found: dict[str, datetime] = {}
        for act in self.acts:
            for url in () if act.removal else (act.url, *(url for _, url in act.alternates)):
                found[url] = min(found.get(url, _public_at(act)), _public_at(act))
        return found


def _public_at(act: Act) -> datetime:
    date = act.published_at or act.at
    if date <= act.at:
        return act.at
    clock_is_ahead = act.source == FEED or (act.stamp is not None and date <= act.stamp)
    return max(act.at, date - TOLERANCE) if clock_is_ahead else date


def tell(chance: random.Random) -> Story:
    versions = random.Random(repr(chance.getstate()))  # so that a story without them stays as it is
    operator, mishaps = (random.Random(f"{name} {chance.getstate()}") for name in ("operator", "mishaps"))
    story = Story(HOSTS[: chance.choice((1, 1, 1, 2))])
    begin = START + chance.choice((timedelta(), SETTLED, SETTLED))
    length = timedelta(minutes=chance.choice((1, 1, 20, 120, 600, 2_400)))
    for host in story.hosts:
        _configure(chance, story, host, begin, length)
        for source in SOURCES:
            story.senders[host, source] = Sender.of(chance, host, source, begin, length)
        _choose_signatures(story, host)
    write(chance, story, begin, length)
    for host in story.hosts:
        for number in range(chance.choice((0, 0, 1, 1, 2))):
            _feed(chance, story, host, f"https://{host}/{('rss', 'blog')[number]}.xml", begin, length)
    for configured in (delivery for delivery in story.deliveries if delivery.kind == "site"):
        own = [url for url, feed in story.feeds.items() if feed.host == configured.body["host"]]
        configured.body["feeds"] = [{"url": url, "take": ["keywords"]} for url in own]  # rules may go by them
    if versions.random() < 0.4:
        list_versions(versions, story)
    for act in story.acts:
        if act.source != FEED:
            _deliver(chance, story, act, length)
    _nonsense(chance, story, begin, length)
    for host in story.hosts:
        if chance.random() < 0.25:
            _waver(chance, story, host, begin + chance.random() * length)
    for host in story.hosts:
        _say_more(chance, story, host)
    _operate(operator, story, begin, length)
    _suffer(mishaps, story, begin, length)
    _spell(chance, story)
    changes = [at for feed in story.feeds.values() for at, _ in feed.states]
    story.ends = max([begin + length, *changes, *(delivery.at for delivery in story.deliveries)])
    story.deliveries.append(Delivery(story.ends, "nothing more"))
    return story


# ── articles ──


def _number(story: Story, at: datetime) -> int:
    return int((at - START).total_seconds() * 1_000) * 10_000 + len(story.acts)


class Article:
    """An article on an editor's desk. Each verb is an act, done at `now`, which `wait` moves."""

    def __init__(self, chance: random.Random, story: Story, sender: Sender, id_: str, url: str, now: datetime) -> None:
        self.chance, self.story, self.sender, self.id, self.now = chance, story, sender, id_, now
        self.url, self.title = url, f"{chance.choice(TITLES)} {id_}"
        self.published_at: datetime | None = None
        self.updated_at: datetime | None = None
        self.noindex, self.news, self.is_there = False, True, False
        self.born_at = now
        self._count = 0

    def wait(self) -> None:
        """Time goes by until the next act."""
        if self.sender.hurries:
            self.now += timedelta(seconds=self.chance.choice((0.2, 1, 8, 40, 90)))
        else:
            self.now += timedelta(minutes=3 + self.chance.random() * self.chance.choice((0, 60, 360)))
        self.now = self.now.replace(microsecond=self.now.microsecond // 1000 * 1000)

    # ── the verbs ──

    def publish(self, ago: timedelta | None = timedelta(minutes=2)) -> None:
        """It appears, dated `ago`; a negative one schedules it."""
        self.published_at = None if ago is None else self.sender.date(self.now - ago, self.now)
        self._change(text=True)
        self._act("publish")

    def edit(self) -> None:
        """Another headline."""
        self.title += " again"
        self._change(text=True)
        self._act("update")

    def turn_back(self) -> None:
        """The headline before."""
        self.title = self.title.removesuffix(" again")
        self._change(text=True)
        self._act("update")

    def edit_text(self) -> None:
        """A change that a sitemap shows as a lastmod, if the sender says it."""
        self._change(text=True)
        self._act("update")

    def save(self) -> None:
        """Nothing changes."""
        self._change(text=False)
        self._act("update")

    def move(self, url: str) -> None:
        """Another slug."""
        self.url = url
        self._change(text=False)
        self._act("update")

    def unpublish(self) -> None:
        """It goes, and may come back."""
        self.is_there = False
        self._act("unpublish")

    def publish_again(self, *, edited: bool) -> None:
        """It comes back as it was, or edited."""
        if edited:
            self.title += " and more"
            self._change(text=True)
        self._act("publish")

    def delete(self) -> None:
        """It goes for good."""
        self.is_there = False
        self._act("delete")
        self._count = 0 if self.sender.counts_anew else self._count

    def be_another(self, url: str) -> None:
        """Another story, under the id of one that was deleted."""
        self.url, self.title, self.updated_at, self.born_at = url, f"Another story {self.id}", None, self.now
        self.publish()

    def redate(self, date: datetime) -> None:
        """Another date of publication: ahead it postpones or schedules, before the first word it corrects."""
        self.published_at = self.sender.date(date, self.now)
        self._change(text=False)
        self._act("update" if self.is_there else "publish", dated=True)

    def hide(self) -> None:
        """Robots are to leave it alone; or not any more."""
        self.noindex = not self.noindex
        self._change(text=False)
        self._act("update")

    def leave_the_news(self) -> None:
        """It is no news; or it is again."""
        self.news = not self.news
        self._change(text=False)
        self._act("update")

    def _change(self, *, text: bool) -> None:
        says = self.sender.updated_at
        if says == "always" or (says == "of the text" and text):
            self.updated_at = self.sender.date(self.now, self.now)

    def _act(self, verb: str, *, dated: bool = False) -> None:
        sender, by = self.sender, self.chance.choice(self.sender.by)
        removal = verb in ("unpublish", "delete")
        says_date = verb == "publish" or dated or sender.dates_edits
        act = Act(
            sender.site, sender.source, self.id, _number(self.story, self.now), self.now, verb, self.url, self.title,
            self.published_at if says_date and not removal else None, self.updated_at, self.noindex, self.news,
            sender.stamp(self.now, by), sender.version(self.now, self._count, removal=removal),
            sender.names, by,
        )  # fmt: skip
        self._count += 1
        self.is_there = not removal
        self.story.acts.append(act)

    @property
    def last(self) -> Act:
        """What was done last."""
        return [act for act in self.story.acts if (act.source, act.id) == (self.sender.source, self.id)][-1]


def write(chance: random.Random, story: Story, begin: datetime, length: timedelta) -> None:
    """A newsroom's articles, from the first word to the last."""
    articles: list[Article] = []
    for number in range(chance.randint(2, 8)):
        sender = story.senders[chance.choice(story.hosts), chance.choice((*SOURCES, "cms"))]
        now = (begin + chance.random() * length).replace(microsecond=0)
        url = f"https://{sender.site}/{chance.choice(('news/', 'sponsored/', 'stra%C3%9Fe/'))}a{number}"
        others = [other for other in articles if other.sender.site == sender.site]
        if others and chance.random() < 0.15:
            url = chance.choice(others).url
        article = Article(chance, story, sender, f"{number}", url, now)
        _begin(chance, article)
        longest = chance.choice((0, 1, 2, 3, 4, 4, 12))
        for _ in range(chance.randint(0, longest)):
            article.wait()
            _go_on(chance, article, others)
        articles.append(article)
    # A URL names an article only where no other has ever had it, and it never had another.
    had = {(act.article, act.url) for act in story.acts}
    for number, act in enumerate(story.acts):
        if sum(act.article == article_ or act.url == url for article_, url in had) > 1 and act.names == "url":
            story.acts[number] = replace(act, names="id")


def _begin(chance: random.Random, article: Article) -> None:
    """How a story comes into the world."""
    hours = timedelta(hours=1)
    article.noindex, article.news = chance.random() < 0.05, chance.random() > 0.05
    match chance.choice(("now", "now", "now", "old", "undated", "scheduled", "scheduled", "by mistake", "mistyped")):
        case "now":
            article.publish()
        case "old":
            article.publish(chance.choice((hours, 47 * hours + 50 * hours / 60, 72 * hours)))
        case "undated":
            article.publish(None)
        case "scheduled":
            article.publish(-_ahead(chance))
        case "by mistake":
            article.publish()
            article.wait()
            article.unpublish()
            article.wait()
            article.redate(article.now + _ahead(chance))
        case "mistyped":
            true = article.now - timedelta(minutes=2)
            wrong = chance.choice((365, -365, 1, -1)) * timedelta(days=1)
            article.publish(article.now - true - wrong)
            article.wait()
            article.redate(true)


def _ahead(chance: random.Random) -> timedelta:
    return timedelta(minutes=chance.choice((3, 20, 90, 700, 1_440, 2_900)))


VERBS = (
    "edit", "edit", "edit", "turn back", "edit text", "save", "move", "unpublish", "unpublish", "delete", "reschedule",
    "postpone", "redate", "hide", "leave the news", "swap", "take over",
)  # fmt: skip


def _go_on(chance: random.Random, article: Article, others: list[Article]) -> None:
    """What an editor does next."""
    verb = chance.choice(VERBS)
    others = [other for other in others if other.url != article.url]
    there = [other for other in others if other.is_there]
    ahead = article.now + _ahead(chance)
    if not article.is_there:
        _bring_back(chance, article)
    elif verb == "move":
        article.move(f"{article.url}-moved")
    elif verb == "take over" and others:
        article.move(chance.choice(others).url)
    elif verb == "swap" and there:
        _swap(chance, article, chance.choice(there))
    elif verb == "postpone" or (verb == "reschedule" and (article.published_at or START) > article.now):
        article.redate(ahead)
    elif verb == "redate" and article.published_at and article.now > article.born_at + LONG_SINCE:
        article.redate(article.now - timedelta(minutes=2))
    else:
        plain: dict[str, Callable[[], None]] = {
            "turn back": article.turn_back,
            "edit text": article.edit_text,
            "save": article.save,
            "unpublish": article.unpublish,
            "delete": article.delete,
            "hide": article.hide,
            "leave the news": article.leave_the_news,
        }
        plain.get(verb, article.edit)()


def _bring_back(chance: random.Random, article: Article) -> None:
    """What becomes of an article that is gone."""
    deleted = article.last.verb == "delete"
    if deleted and chance.random() < 0.5:
        article.be_another(f"{article.url}-new")
    elif not deleted and chance.random() < 0.7:
        article.publish_again(edited=chance.random() < 0.3)
    elif not deleted:
        article.delete()


def _swap(chance: random.Random, article: Article, other: Article) -> None:
    """Two stories exchange their slugs."""
    other.now = article.now = max(article.now, other.now + timedelta(seconds=1))
    urls = article.url, other.url
    article.move(urls[1])
    other.now += timedelta(seconds=chance.choice((0, 1, 30)))
    other.move(urls[0])


# ── language versions ──

LANGUAGES = ("en", "fr", "de", "es")


def list_versions(chance: random.Random, story: Story) -> None:
    """Some articles are versions of each other, on all hosts. Most list the others always; some only at times, some wrongly."""
    for configured in (delivery for delivery in story.deliveries if delivery.kind == "site"):
        configured.body["alternate_hosts"] = [host for host in story.hosts if host != configured.body["host"]]
        if chance.random() < 0.5:
            configured.body["shards"] = {**configured.body["shards"], "per_section": True}
    articles = sorted({(act.site, act.article) for act in story.acts if act.source != FEED and act.id})
    chance.shuffle(articles)
    cluster = dict(zip(articles, chance.sample(LANGUAGES * 2, len(LANGUAGES)), strict=False))
    urls = {article: {act.url for act in story.acts if (act.site, act.article) == article} for article in cluster}
    lists = {article: _versions(chance, article, cluster, urls) for article in cluster}
    wavering = {article for article in cluster if chance.random() < 0.3}
    for number, act in enumerate(story.acts):
        article = act.site, act.article
        if article in cluster and not act.removal:
            listed = lists[article]
            if article in wavering:
                listed = chance.choice((listed, (), _versions(chance, article, cluster, urls)))
            story.acts[number] = replace(act, language=cluster[article], alternates=listed)


def _versions(
    chance: random.Random,
    article: tuple[str, str],
    cluster: dict[tuple[str, str], str],
    urls: dict[tuple[str, str], set[str]],
) -> tuple[tuple[str, str], ...]:
    """The other pages that an article lists: all, some or none of them, at one of their addresses."""
    share = chance.choice((0, 0.5, 1, 1))
    others = [other for other in cluster if other != article and chance.random() < share]
    return tuple({cluster[other]: chance.choice(sorted(urls[other])) for other in others}.items())


# ── feeds ──

# By fault of a feed's dates: how wrong the old software writes them, and by how much the new one moves what the old one wrote.
OLD_AND_NEW = {
    "none": (timedelta(), timedelta()),
    "zone mended": (-timedelta(hours=1), timedelta(hours=1)),
    "zone ahead mended": (timedelta(hours=2), -timedelta(hours=2)),
    "plugin": (timedelta(minutes=1), -timedelta(hours=3)),
}
FAULTS = (*OLD_AND_NEW, "dates begin", "no updated any more")


def _feed(chance: random.Random, story: Story, host: str, url: str, begin: datetime, length: timedelta) -> None:
    """A feed that grows, whose entries are edited and turned back, and whose dates change all at once when its software does.

    Its guids are numbers, which mean another page in another feed. Some of its pages are those that the CMS speaks for.
    """
    fault = chance.choice(FAULTS)
    entries: list[Act] = []
    feed = Feed(host, [(START, [])], chance.random() < 0.5)
    at = begin
    of_cms = [act for act in story.acts if act.site == host and act.source != FEED]
    undated = {act.article for act in of_cms if not act.removal and not act.published_at}
    # Who has no date of its own takes over the feed's, which the oracle knows nothing of.
    pages = sorted({act.url for act in of_cms} - {act.url for act in of_cms if act.article in undated})
    changes_at = chance.randint(1, 5)

    def say(act: Act, at: datetime, **changes: Any) -> Act:
        said = replace(act, number=_number(story, at), at=at, **changes)
        story.acts.append(said)
        return said

    for number in range(chance.randint(1, 6)):
        at = (at + timedelta(seconds=1) + chance.random() * length / 4).replace(microsecond=0)
        if number == changes_at:
            entries[:] = [say(entry, at, **_with_new_software(entry, fault)) for entry in entries]
        elif entries and chance.random() < 0.5:
            place = chance.randrange(len(entries))
            title = entries[place].title
            title = title.removesuffix(" (edited)") if title.endswith(" (edited)") else f"{title} (edited)"
            updated = {"updated_at": at} if entries[place].updated_at else {}
            entries[place] = say(entries[place], at, title=title, **updated)
        elif len(entries) > 1 and chance.random() < 0.15:
            entries.pop(0)
        else:
            page = chance.choice(pages) if pages and chance.random() < 0.25 else f"{url.removesuffix('.xml')}/{number}"
            page = page.replace("/rss/", "/feed/")
            if any(act.url == page and act.source == FEED for act in story.acts):
                continue
            published = (at - timedelta(minutes=chance.choice((2, 600, 2_870)))).replace(microsecond=0)
            entry = Act(host, FEED, f"{url} {number}", 0, at, "publish", page, f"From the feed {number}", published)
            if number > changes_at:  # the software is the new one
                entry = replace(entry, updated_at=None)
            else:
                entry = replace(entry, **_with_old_software(entry, fault))
            entries.append(say(entry, at))
        feed.states.append((at, list(entries)))
    story.feeds[url] = feed
    _remove_by_its_url(chance, story, host, at)


def _with_old_software(entry: Act, fault: str) -> dict[str, Any]:
    assert entry.published_at
    if fault == "dates begin":
        return {"published_at": None}
    if fault == "no updated any more":
        return {"updated_at": entry.at}
    return {"published_at": entry.published_at + OLD_AND_NEW[fault][0]}


def _with_new_software(entry: Act, fault: str) -> dict[str, Any]:
    if fault == "dates begin":
        return {"published_at": entry.at - timedelta(minutes=2)}
    if fault == "no updated any more":
        return {"updated_at": None}
    return {"published_at": entry.published_at and entry.published_at + OLD_AND_NEW[fault][1]}


def _remove_by_its_url(chance: random.Random, story: Story, host: str, at: datetime) -> None:
    """The CMS takes away a page that it has never told of, and that a feed has had for long."""
    others = {act.url for act in story.acts if act.source != FEED}
    pages = sorted({act.url for act in story.acts if act.site == host and act.source == FEED} - others)
    if not pages or chance.random() < 0.7:
        return
    sender, now, by = story.senders[host, "cms"], at + LONG_SINCE, "webhook"
    removal = Act(host, "cms", "", _number(story, now), now, "unpublish", chance.choice(pages), names="url", by=by)
    story.acts.append(replace(removal, stamp=sender.stamp(now, by)))


# ── how it arrives ──


def _deliver(chance: random.Random, story: Story, act: Act, length: timedelta) -> None:
    sender = story.senders[act.site, act.source]
    id_ = f"msg_{act.number}" if sender.has_delivery_ids and act.by == "webhook" else ""
    for at in sender.attempts(chance, act, length):
        story.deliveries.append(Delivery(at, act.by, act, document(act), id_))


def _spell(chance: random.Random, story: Story) -> None:
    """Some acts write the URL of their page in another way."""
    spelled = {
        act.number: replace(act, spelling=_spelling(chance, act.url)) for act in story.acts if chance.random() < 0.1
    }
    story.acts[:] = [spelled.get(act.number, act) for act in story.acts]
    for feed in story.feeds.values():
        feed.states[:] = [(at, [spelled.get(entry.number, entry) for entry in entries]) for at, entries in feed.states]
    for delivery in story.deliveries:
        if delivery.act and (act := spelled.get(delivery.act.number)):
            delivery.act, delivery.body = act, document(act)


def _spelling(chance: random.Random, url: str) -> str:
    """Another spelling of a URL: an escape in small letters, none, or one that is not needed."""
    beginning, _, last = url.rpartition("/")
    spellings = [f"{beginning}/%{ord(last[0]):02x}{last[1:]}"]
    if "%" in url:
        spellings += [url.replace("%C3%9F", "%c3%9f"), unquote(url)]
    return chance.choice(spellings)


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


def _choose_signatures(story: Story, host: str) -> None:
    """Sign the webhooks of a sender without delivery ids by a scheme that has none."""
    for delivery in story.deliveries:
        if delivery.kind == "site" and delivery.body["host"] == host:
            delivery.body["sources"] = {
                source: {"secret": "cms"}
                | ({} if story.senders[host, source].has_delivery_ids else {"settings": {"signature": WITHOUT_IDS}})
                for source in SOURCES
            }


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


def _sites(story: Story, host: str) -> list[Delivery]:
    """The configurations of a site, in the order in which they are put."""
    sites = (one for one in story.deliveries if one.kind == "site" and one.body["host"] == host)
    return sorted(sites, key=lambda one: one.at)


def _say_for_a_while(chance: random.Random, sites: list[Delivery], share: float, said: dict[str, Any]) -> None:
    """Have the configurations of some sites say this: from some change to another, or to the end."""
    first, last = sorted(chance.choices(range(len(sites)), k=2))
    for one in sites[first : chance.choice((last + 1, len(sites)))] if chance.random() < share else []:
        one.body |= said


def _say_more(chance: random.Random, story: Story, host: str) -> None:
    """Some sites have an edition, perhaps with a news sitemap of its own, or keep a robots.txt: from some change to another."""
    sites = _sites(story, host)
    edition = {"prefix": chance.choice(EDITIONS), "publication": "Example Daily"}
    edition |= {"news": "daily"} if chance.random() < 0.7 else {}
    for share, said in ((0.3, {"editions": [edition]}), (0.3, {"robots": chance.choice(ROBOTS)})):
        _say_for_a_while(chance, sites, share, said)
    story.steady[host] = len({json.dumps(one.body.get("editions")) for one in sites}) == 1


def _operate(chance: random.Random, story: Story, begin: datetime, length: timedelta) -> None:
    """Some sites are under http, exclude pages by a keyword, or are rolled back, rebuilt, removed and put again."""
    has_versions = any(act.alternates for act in story.acts)
    for host in story.hosts:
        # Versions on two hosts have to be under https, and such a rule hides a version only with its next event.
        if not (has_versions and len(story.hosts) > 1):
            _say_for_a_while(chance, _sites(story, host), 0.25, {"scheme": "http"})
        for one in _sites(story, host):
            if "rules" in one.body and not has_versions and chance.random() < 0.5:
                one.body["rules"] = [{"keyword": SPONSORED}]
        for kind in ("rollback", "rebuild"):
            if chance.random() < 0.15:
                story.deliveries.append(Delivery(begin + chance.random() * length, kind, body=host))
        if chance.random() < 0.1:
            story.leaves[host] = chance.random() < 0.5
    story.is_damaged = chance.random() < 0.2


def _suffer(chance: random.Random, story: Story, begin: datetime, length: timedelta) -> None:
    """Somebody writes a version that cannot be read, and the table is restored to an earlier instant: feeds forget what they had."""
    hosts = [host for host in story.hosts if chance.random() < 0.2]
    backups = (
        [Delivery(begin + chance.random() * length, "backup")] if not story.feeds and chance.random() < 0.5 else []
    )
    story.deliveries += backups
    story.deliveries += [Delivery(begin + chance.random() * length, "unreadable", body=host) for host in hosts]


def configured(story: Story, document: dict[str, Any]) -> None:
    """A site's configuration is in force. Of two that are put at once the one that came second counts."""
    story.publication[document["host"]] = document["publication"]
    story.outputs[document["host"]] = document["outputs"]
    story.editions[document["host"]] = document.get("editions", [])
    story.robots[document["host"]] = document.get("robots")
    story.scheme[document["host"]] = document.get("scheme", "https")
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
