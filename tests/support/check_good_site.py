"""A site whose files keep every rule."""

import gzip
from dataclasses import dataclass, field

HOST = "www.example.com"
BASE = f"https://{HOST}/"
NOW = "2026-11-20T09:00:00Z"

INDEX, NEWS, SHARD, OLD = "sitemap.xml", "sitemap-news.xml", "sitemap-2026-11.xml", "sitemap-2026-10.xml.gz"
MEDIA, PAGES, RSS, ATOM, ROBOTS = "sitemap-media.xml", "pages.txt", "rss.xml", "atom.xml", "robots.txt"

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
SITEMAP_SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
NEWS_SPACE = 'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"'
IMAGE_SPACE = 'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"'
VIDEO_SPACE = 'xmlns:video="http://www.google.com/schemas/sitemap-video/1.1"'
XHTML_SPACE = 'xmlns:xhtml="http://www.w3.org/1999/xhtml"'

FLOOD, HARBOUR, CONCERT = (f"{BASE}2026/11/{page}" for page in ("20/flood", "12/harbour", "19/concert"))
NAME, LANGUAGE = "<news:name>Example News</news:name>", "<news:language>en</news:language>"
DATE = "<news:publication_date>2026-11-20T07:58:00Z</news:publication_date>"
TITLE = "<news:title>Flood closes the harbour</news:title>"
ARTICLE = f"<news:news><news:publication>{NAME}{LANGUAGE}</news:publication>{DATE}{TITLE}</news:news>"
IMAGE = "<image:image><image:loc>https://img.example.net/flood.jpg</image:loc></image:image>"
THUMBNAIL = "<video:thumbnail_loc>https://img.example.net/flood.png</video:thumbnail_loc>"
CONTENT = "<video:content_loc>https://video.example.net/flood.mp4</video:content_loc>"
VIDEO_TEXTS = "<video:title>Flood</video:title><video:description>The harbour under water.</video:description>"
VIDEO = (
    f"<video:video>{THUMBNAIL}{VIDEO_TEXTS}{CONTENT}<video:duration>95</video:duration>"
    "<video:rating>4.5</video:rating><video:view_count>12</video:view_count>"
    "<video:publication_date>2026-11-20T08:00:00+01:00</video:publication_date>"
    "<video:tag>flood</video:tag><video:tag>harbour</video:tag><video:family_friendly>yes</video:family_friendly>"
    '<video:restriction relationship="allow">GB FR</video:restriction>'
    "<video:requires_subscription>no</video:requires_subscription>"
    '<video:uploader info="https://www.example.com/desk">News desk</video:uploader>'
    '<video:platform relationship="deny">tv</video:platform><video:live>no</video:live></video:video>'
)
ENGLISH = '<xhtml:link rel="alternate" hreflang="en" href="https://www.example.com/en/about"/>'
FRENCH = '<xhtml:link rel="alternate" hreflang="fr-CA" href="https://www.example.com/fr/about"/>'
DEFAULT = '<xhtml:link rel="alternate" hreflang="x-default" href="https://www.example.com/en/about"/>'
ALTERNATES = ENGLISH + FRENCH + DEFAULT
SERVED = {"ContentType": "application/xml", "ContentEncoding": None, "CacheControl": "public, max-age=60"}

Headers = dict[str, str | None]


@dataclass
class Site:
    """The files of a host by name, and headers where they differ from the usual."""

    files: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, Headers] = field(default_factory=dict)


def url(loc: str, more: str = "", lastmod: str = "2026-11-20T08:00:00Z") -> str:
    return f"<url><loc>{loc}</loc><lastmod>{lastmod}</lastmod>{more}</url>\n"


def urlset(*urls: str, spaces: str = SITEMAP_SPACE) -> bytes:
    return f"{DECLARATION}<urlset {spaces}>\n{''.join(urls)}</urlset>\n".encode()


def index(*names: str) -> bytes:
    entries = "".join(
        f"<sitemap><loc>{BASE}{name}</loc><lastmod>2026-11-20T08:00:01Z</lastmod></sitemap>\n" for name in names
    )
    return f"{DECLARATION}<sitemapindex {SITEMAP_SPACE}>\n{entries}</sitemapindex>\n".encode()


def good() -> Site:
    return Site(
        {
            INDEX: index(SHARD, OLD, MEDIA, NEWS),
            NEWS: urlset(url(FLOOD, ARTICLE), spaces=f"{SITEMAP_SPACE} {NEWS_SPACE}"),
            SHARD: urlset(url(HARBOUR, lastmod="2026-11-12T10:00:00Z"), url(FLOOD)),
            OLD: gzip.compress(urlset(url(f"{BASE}2026/10/01/fog", lastmod="2026-10-01")), mtime=0),
            MEDIA: urlset(
                url(f"{BASE}gallery", IMAGE),
                url(f"{BASE}watch", VIDEO),
                url(f"{BASE}en/about", ALTERNATES),
                url(f"{BASE}fr/about", ALTERNATES),
                spaces=f"{SITEMAP_SPACE} {IMAGE_SPACE} {VIDEO_SPACE} {XHTML_SPACE}",
            ),
            PAGES: f"{CONCERT}\n{BASE}imprint?a=1&b=2\n".encode(),
            RSS: (
                f'{DECLARATION}<rss version="2.0"><channel><title>News</title><link>{BASE}</link>\n'
                f"<item><title><![CDATA[Fire & water]]></title><link>{BASE}fire</link>\n"
                "<pubDate>Fri, 20 Nov 2026 08:00:00 GMT</pubDate></item>\n</channel></rss>\n"
            ).encode(),
            ATOM: (
                f'{DECLARATION}<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>\n'
                f'<entry><link rel="self" href="{BASE}entry/1"/><link href="{BASE}storm"/>\n'
                "<updated>2026-11-20T08:00:00Z</updated></entry>\n</feed>\n"
            ).encode(),
            ROBOTS: (
                "# all are welcome\nUser-agent: *\nDisallow: /search\nDisallow: /*.pdf$\n\n"
                f"Sitemap: {BASE}{INDEX}\nSitemap: {BASE}{PAGES}\n"
            ).encode(),
        }
    )
