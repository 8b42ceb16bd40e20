"""The states of the editors' page, as HTML documents: no, some and many stories, and each kind of answer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from stoppress.aws.refusals import Count
from stoppress.model.entries import Mark, NewsEntry
from stoppress.model.event import ArticleEvent
from stoppress.model.site import Site
from stoppress.notify.sitemap_reports import SubmittedSitemap
from stoppress.show.file_versions import Past
from stoppress.show.page import render_content, render_frame
from stoppress.show.question import Match, Several
from stoppress.show.read_page import SitePage
from stoppress.show.read_site import Quarantine, SiteFacts, StackFacts, Unknown
from stoppress.show.read_story import Facts, Received
from stoppress.show.reasons import Reason
from stoppress.show.stack_status import Access, stack_status
from stoppress.show.story import Answer, Story, answer_story
from stoppress.show.timeline import READ_BY_GOOGLE, Stop

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOST = "www.example.com"
SITE = Site.model_validate({"host": HOST, "publication": "News", "timezone": "Europe/Paris"})
TITLES = (
    "Council passes its budget after a night of talks", "Flood closes the harbour", "Ferry sails again", "Market hall reopens",
    "Concert called off", "Bridge opens to traffic", "Train strike ends in the early morning",
)  # fmt: skip
HOSTILE = "<script>alert(1)</script> \u202eevil \u2066title {{ 7 * 7 }}"
RIGHT_TO_LEFT = "رئيس الوزراء يزور الميناء بعد الفيضان"
URL = f"https://{HOST}/news/flood"
FACTS = Facts(asked=URL, site=SITE, url=URL, general={})
DELIVERIES = (
    Received(NOW, "", "cms#9", "refused", "title: is empty: give the headline as readers see it", url=f"https://{HOST}/news/ferry", title=""),
    *(Received(NOW - timedelta(minutes=9 * number), "", "cms", "ignored", "user.created") for number in range(6)),
    *(
        Received(NOW - timedelta(minutes=4 * number), "publish", f"cms#{number}", "listed", url=f"https://{HOST}/news/{number}", title=title)
        for number, title in enumerate(TITLES)
    ),
)  # fmt: skip


def story(reason: Reason) -> Story:
    """Return the answer about a story that no sitemap lists."""
    unlisted = answer_story(FACTS, NOW)
    return replace(unlisted, news=Answer(False, reasons=(reason,)), general=Answer(False, reasons=(reason,)))


def document(
    *titles: str,
    coming: int = 0,
    question: str = "",
    answer: Story | Past | None = None,
    moment: str = "",
    sitemaps: tuple[SubmittedSitemap, ...] = (),
    matches: tuple[Match, ...] = (),
    unknown: tuple[Unknown, ...] = (),
    quarantine: Quarantine | None = None,
) -> str:
    """Return the page with these stories in the news."""
    news = tuple(
        NewsEntry(
            f"https://{HOST}/news/{number}",
            title,
            NOW - timedelta(hours=47.9) * number / len(titles) - timedelta(minutes=4),
        )
        for number, title in enumerate(titles)
    )
    marks = (Mark("sitemap-news.xml", NOW - timedelta(minutes=1), len(titles), 900 * len(titles), "d"),)
    facts = SiteFacts(SITE, {}, (), marks if titles else (), news, None, quarantine or Quarantine())
    facts = replace(facts, submitted=sitemaps, waits_s={sitemap.file: 210.0 for sitemap in sitemaps})
    held = tuple(
        ArticleEvent(
            site=HOST, source="cms", id=str(hours), action="publish", url=f"https://{HOST}/news/report-{hours}",
            title="The long-awaited report", published_at=NOW + timedelta(hours=hours),
        )
        for hours in range(1, coming + 1)
    )  # fmt: skip
    page = SitePage(
        site=SITE,
        status=stack_status(StackFacts((facts,), rolled_at=NOW, unknown=unknown), NOW, Access()),
        news=news,
        coming=held,
        deliveries=DELIVERIES if titles else (),
        answer=Several("flood", f"of {HOST}", matches) if matches else answer,
    )
    return render_frame(HOST, question, render_content(page), moment)


WRONGLY_SIGNED = (Count(day="2026-11-20", source="cms", unverified=3, unverified_at=NOW - timedelta(minutes=13)),)
MATCHES = (
    Match(URL, "Flood closes the harbour", "in the news", NOW - timedelta(hours=1)),
    Match(f"{URL}-report", "The flood report", "held", NOW + timedelta(hours=3)),
    Match("cms#44", "", "refused", NOW - timedelta(days=2)),
)
TIMELINE = (
    Stop("published", NOW - timedelta(minutes=20)),
    Stop("listed", NOW - timedelta(minutes=19), 60),
    Stop(READ_BY_GOOGLE, NOW - timedelta(minutes=15), 240),
    Stop("crawled by Google", NOW - timedelta(minutes=9), 360),
)
STATES = {
    "empty": document(),
    "200 stories": document(*(TITLES * 29)[:200], coming=2),
    "held": document(
        *TITLES,
        coming=3,
        question="flood",
        answer=story(Reason("held", "article cms#1 is held until 2026-11-20 14:00:00 +01:00")),
    ),
    "wrong signature": document(
        *TITLES, question=URL, answer=answer_story(replace(FACTS, unverified=WRONGLY_SIGNED), NOW)
    ),
    "seen by Google": document(
        *TITLES,
        question=URL,
        answer=replace(
            story(Reason("expired", "it is no news any more")),
            news=Answer(True, "sitemap-news.xml", NOW, NOW - timedelta(minutes=19), NOW + timedelta(hours=47)),
            google=f"yes: {READ_BY_GOOGLE} at 2026-11-20 12:45:00 +01:00; crawled by Google at 2026-11-20 12:51:00 +01:00",
            way=TIMELINE,
        ),
        sitemaps=(SubmittedSitemap("sitemap-news.xml", NOW, NOW, NOW - timedelta(minutes=15)),),
    ),
    "then": document(
        *TITLES,
        question=URL,
        moment="2026-11-20T11:03",
        answer={
            "url": URL,
            "at": NOW,
            "listings": [
                {
                    "file": "sitemap-news.xml",
                    "put_at": NOW - timedelta(hours=1),
                    "until": NOW,
                    "title": TITLES[1],
                    "published": "2026-11-20T10:00:00Z",
                    "lastmod": "2026-11-20T10:30:00Z",
                    "next_read_by_google": NOW,
                    "version_read_by_google": NOW,
                }
            ],
            "unknown": ["sitemap-2026-11.xml"],
        },
    ),
    "found": document(*TITLES, question="flood", matches=MATCHES),
    "right to left, and hostile": document(
        RIGHT_TO_LEFT, HOSTILE, "Donaudampfschifffahrtsgesellschaftskapitänsmützenverordnung" * 3, question=HOSTILE
    ),
    "problems": document(
        *TITLES,
        unknown=(Unknown("files in the bucket", "cannot be read; the log of show_site has the reason"),),
        quarantine=Quarantine(2, newest_at=NOW, newest_reason="url: is missing"),
    ),
}
