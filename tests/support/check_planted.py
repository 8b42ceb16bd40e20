"""Faults to plant in a site whose files keep every rule: at least one for every named rule."""

import gzip
import io
import zipfile
from collections.abc import Callable

from tests.support.check_good_site import (
    ALTERNATES,
    ARTICLE,
    ATOM,
    BASE,
    CONCERT,
    CONTENT,
    DATE,
    DECLARATION,
    FLOOD,
    FRENCH,
    HARBOUR,
    HOST,
    IMAGE,
    INDEX,
    LANGUAGE,
    MEDIA,
    NAME,
    NEWS,
    NEWS_SPACE,
    OLD,
    PAGES,
    ROBOTS,
    RSS,
    SERVED,
    SHARD,
    SITEMAP_SPACE,
    THUMBNAIL,
    TITLE,
    Site,
    good,
    index,
    url,
    urlset,
)

Fault = Callable[[Site], object]


def swap(name: str, old: str, new: str) -> Fault:
    """A fault that stands in one file in place of what was right."""

    def plant(site: Site) -> None:
        assert old.encode() in site.files[name], f"{old} is not in {name}"
        site.files[name] = site.files[name].replace(old.encode(), new.encode("utf-8", "surrogatepass"), 1)

    return plant


def loc(new: str) -> Fault:
    return swap(SHARD, HARBOUR, new)


def put(name: str, body: bytes) -> Fault:
    return lambda site: site.files.update({name: body})


def remove(*names: str) -> Fault:
    return lambda site: [site.files.pop(name) for name in names]


def minified(name: str) -> Fault:
    """The whole file on one line."""
    return lambda site: site.files.update({name: site.files[name].replace(b"\n", b"")})


def served(name: str, **headers: str | None) -> Fault:
    return lambda site: site.headers.update({name: {**SERVED, **headers}})


def listed(name: str, body: bytes) -> Fault:
    """A further file, listed in the index as it should be."""
    return lambda site: site.files.update({name: body, INDEX: index(SHARD, OLD, MEDIA, NEWS, name)})


def both(*faults: Fault) -> Fault:
    return lambda site: [fault(site) for fault in faults]


def zipped() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(SHARD, good().files[SHARD])
    return archive.getvalue()


def videos(old: str, new: str) -> Fault:
    return swap(MEDIA, old, new)


SHARD_BODY, NEWS_BODY = good().files[SHARD], good().files[NEWS]
MANY = [f"{BASE}{number}" for number in range(50_001)]
HARBOUR_DATE = "<lastmod>2026-11-12T10:00:00Z</lastmod>"
NEWS_DATE = "2026-11-20T07:58:00Z"
ENTITIES = '<!DOCTYPE urlset [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>\n<urlset'


# name of the rule, what is planted, and the fault
CASES: list[tuple[str, str, Fault]] = [
    ("not-utf-8", "latin-1", put(SHARD, urlset(url(HARBOUR), url(f"{BASE}\u00fc")).decode().encode("latin-1"))),
    ("not-utf-8", "UTF-16", put(SHARD, SHARD_BODY.decode().encode("utf-16"))),
    ("not-utf-8", "UTF-16 without a mark", put(SHARD, SHARD_BODY.decode().encode("utf-16-be"))),
    ("not-utf-8", "half a character at the end", swap(SHARD, "</urlset>\n", "</urlset>\n\ud83c")),
    ("not-utf-8", "latin-1 in a list", put(PAGES, f"{BASE}\u00fc\n".encode("latin-1"))),
    ("declared-encoding", "latin-1", swap(SHARD, 'encoding="UTF-8"', "encoding='ISO-8859-1'")),
    ("declared-encoding", "an encoding nobody knows", swap(SHARD, 'encoding="UTF-8"', "encoding='klingon'")),
    ("namespace", "https", swap(SHARD, "http://www.sitemaps", "https://www.sitemaps")),
    ("namespace", "a slash at its end", swap(SHARD, 'sitemap/0.9"', 'sitemap/0.9/"')),
    ("namespace", "none", swap(SHARD, f" {SITEMAP_SPACE}", "")),
    ("namespace", "an old one", swap(INDEX, "http://www.sitemaps.org/schemas/sitemap/0.9", "http://www.google.com/schemas/sitemap/0.84")),
    ("root-element", "another", put(SHARD, SHARD_BODY.replace(b"urlset", b"sitemaps"))),
    ("root-element", "a page", put(SHARD, b"<!DOCTYPE html>\n<html><body><p>Not found<br></body></html>")),
    ("root-element", "a page that is no XML", put(SHARD, b"\n<!doctype html><html><head><title>x</title></head></html>")),
    ("root-element", "no XML", put(SHARD, b"Not Found")),
    ("root-prefix", "a prefix", put(SHARD, SHARD_BODY.replace(b"<", b"<s:").replace(b"<s:/", b"</s:").replace(b"<s:?", b"<?").replace(b"xmlns=", b"xmlns:s="))),
    ("unbound-prefix", "not declared", swap(SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<x:y>1</x:y>")),
    ("not-well-formed", "a bare ampersand", loc(f"{HARBOUR}?a=1&b=2")),
    ("not-well-formed", "cut off", put(SHARD, SHARD_BODY[:-20])),
    ("not-well-formed", "an entity of HTML", swap(NEWS, "Flood closes", "Flood&nbsp;closes")),
    ("not-well-formed", "tags crossed", swap(SHARD, "</loc>", "</lok>")),
    ("not-well-formed", "two root elements", put(SHARD, SHARD_BODY + b"<urlset/>")),
    ("not-well-formed", "empty", put(SHARD, b"")),
    ("unescaped", "an apostrophe", loc(f"{HARBOUR}?it's")),
    ("escaped-twice", "in a URL", loc(f"{HARBOUR}?a=1&amp;amp;b=2")),
    ("escaped-twice", "in a title", swap(NEWS, "Flood closes", "Flood &amp;amp; storm close")),
    ("cdata", "a name", swap(NEWS, NAME, "<news:name><![CDATA[Example News]]></news:name>")),
    ("cdata", "a loc", loc(f"<![CDATA[{HARBOUR}]]>")),
    ("loc-empty", "empty", loc("")),
    ("loc-empty", "missing", swap(SHARD, f"<loc>{HARBOUR}</loc>", "")),
    ("loc-not-absolute", "relative", loc("/2026/11/12/harbour")),
    ("loc-not-absolute", "another protocol", loc("ftp://www.example.com/harbour")),
    ("loc-not-absolute", "no host", loc("https:///harbour")),
    ("loc-not-absolute", "in an index", swap(INDEX, f"{BASE}{SHARD}", f"/{SHARD}")),
    ("loc-not-absolute", "in a feed", swap(RSS, f"{BASE}fire", "/fire")),
    ("loc-too-long", "2,048 characters", loc(HARBOUR.ljust(2_048, "x"))),
    ("loc-too-long", "in a list", put(PAGES, HARBOUR.ljust(2_048, "x").encode())),
    ("loc-white-space", "a line break", loc(f"\n  {HARBOUR}\n")),
    ("loc-characters", "not ASCII", loc(f"{BASE}\u00fcber")),
    ("loc-characters", "a space", loc(f"{BASE}a b")),
    ("loc-characters", "a lone percent sign", loc(f"{BASE}100%")),
    ("loc-characters", "in an image", swap(MEDIA, "net/flood.jpg", "net/\u00fc.jpg")),
    ("loc-host", "not ASCII", loc("https://www.ex\u00e4mple.com/")),
    ("loc-host", "no host name", loc("https://www.exa_-.mple..com/")),
    ("loc-fragment", "a fragment", loc(f"{HARBOUR}#comments")),
    ("loc-user-information", "a password", loc("https://me:secret@www.example.com/harbour")),
    ("loc-session", "of Java", loc(f"{HARBOUR};jsessionid=1F")),
    ("loc-session", "of PHP", loc(f"{HARBOUR}?a=1&amp;PHPSESSID=1F")),
    ("loc-tracking", "a campaign", loc(f"{HARBOUR}?id=1&amp;utm_source=feed")),
    ("loc-tracking", "xtor", loc(f"{HARBOUR}#xtor=RSS-1")),
    ("other-host", "without www", loc("https://example.com/harbour")),
    ("other-host", "another port", loc("https://www.example.com:8443/harbour")),
    ("other-host", "in a list", swap(PAGES, CONCERT, "https://example.com/concert")),
    ("other-protocol", "http", loc("http://www.example.com/harbour")),
    ("default-port", "443", loc("https://www.example.com:443/harbour")),
    ("out-of-scope", "beside its folder", listed("news/sitemap.xml", urlset(url(f"{BASE}sport/1")))),
    ("out-of-scope", "a folder of a like name", listed("news/sitemap.xml", urlset(url(f"{BASE}newspaper/1")))),
    ("storage-host", "a bucket", loc("https://news.s3.eu-west-1.amazonaws.com/harbour")),
    ("storage-host", "all of them", put(SHARD, SHARD_BODY.replace(HOST.encode(), b"d111.cloudfront.net"))),
    ("loc-session", "a sid", loc(f"{HARBOUR}?sid=1f0c9a77")),
    ("storage-host", "a distribution", swap(INDEX, f"{BASE}{SHARD}", f"https://d111.cloudfront.net/{SHARD}")),
    ("too-many-urls", "50,001", put(SHARD, urlset(*(url(path) for path in MANY), url(FLOOD)))),
    ("too-many-urls", "in a list", put(PAGES, "\n".join(MANY).encode())),
    ("too-large", "more than 50 MiB", swap(SHARD, "</urlset>", " " * 52_428_800 + "</urlset>")),
    ("too-large", "unpacked", put(OLD, gzip.compress(SHARD_BODY + b" " * 52_428_800, 1))),
    ("child-count", "two lastmods", swap(SHARD, HARBOUR_DATE, HARBOUR_DATE * 2)),
    ("child-count", "no loc in an index", swap(INDEX, f"<loc>{BASE}{SHARD}</loc>", "")),
    ("child-order", "lastmod first", swap(SHARD, f"<loc>{HARBOUR}</loc>{HARBOUR_DATE}", f"{HARBOUR_DATE}<loc>{HARBOUR}</loc>")),
    ("unknown-child", "in a url", swap(SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<title>Harbour</title>")),
    ("unknown-child", "in an index", swap(INDEX, "</lastmod>", "</lastmod><priority>1</priority>")),
    ("unknown-child", "a sitemap in a urlset", swap(SHARD, "</urlset>", f"<sitemap><loc>{BASE}</loc></sitemap></urlset>")),
    ("unknown-child", "an element in a loc", loc(f"<b>{HARBOUR}</b>")),
    ("unknown-child", "a title straight in a url", swap(NEWS, ARTICLE, TITLE)),
    ("stray-text", "in a url", swap(SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}12 November")),
    ("stray-text", "in a urlset", swap(SHARD, "</urlset>", "the end</urlset>")),
    ("stray-text", "a sitemap that is a URL", swap(INDEX, "</sitemapindex>", f"<sitemap>{BASE}x.xml</sitemap></sitemapindex>")),
    ("attribute", "of a loc", swap(SHARD, "<loc>", '<loc type="page">')),
    ("attribute", "of a urlset", swap(SHARD, "<urlset ", '<urlset generator="x" ')),
    ("attribute", "of news", swap(NEWS, "<news:title>", '<news:title lang="en">')),
    ("too-many-sitemaps", "50,001", put(INDEX, index(SHARD, OLD, MEDIA, NEWS, *(f"{number}.xml" for number in range(50_000))))),
    ("changefreq-value", "often", swap(SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<changefreq>often</changefreq>")),
    ("priority-value", "1.5", swap(SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<priority>1.5</priority>")),
    ("priority-value", "high", swap(SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<priority>high</priority>")),
    ("text-line", "a relative URL", swap(PAGES, CONCERT, f"{CONCERT}\n/imprint")),
    ("text-line", "more than a URL", swap(PAGES, CONCERT, f"{CONCERT} 2026-11-19")),
    ("text-line", "a heading", put(PAGES, f"Our pages\n{CONCERT}\n".encode())),
    ("feed-version", "RSS 0.91", swap(RSS, 'version="2.0"', 'version="0.91"')),
    ("feed-version", "Atom 0.3", swap(ATOM, "http://www.w3.org/2005/Atom", "http://purl.org/atom/ns#")),
    ("feed-link", "none in RSS", swap(RSS, f"<link>{BASE}fire</link>", "")),
    ("feed-link", "none in Atom", swap(ATOM, f'<link href="{BASE}storm"/>', "")),
    ("gzip-damaged", "cut off", put(OLD, gzip.compress(SHARD_BODY)[:-20])),
    ("gzip-damaged", "another checksum", put(OLD, gzip.compress(SHARD_BODY)[:-8] + bytes(8))),
    ("gzip-trailing", "a comment", put(OLD, gzip.compress(good().files[MEDIA].replace(BASE.encode(), f"{BASE}x/".encode())) + b"<!-- cached -->")),
    ("forms-differ", "a gzip of yesterday", put(f"{SHARD}.gz", gzip.compress(SHARD_BODY.replace(b"T10", b"T09")))),
    ("forms-differ", "a text that lists less", put(SHARD.replace("xml", "txt"), f"{HARBOUR}\n".encode())),
    ("zip", "an archive", put(OLD, zipped())),
    ("byte-order-mark", "in XML", swap(SHARD, "<?xml", "\ufeff<?xml")),
    ("byte-order-mark", "in a list", put(PAGES, b"\xef\xbb\xbf" + CONCERT.encode())),
    ("leading-bytes", "a line break", swap(SHARD, "<?xml", "\n<?xml")),
    ("leading-bytes", "a warning", swap(SHARD, "<?xml", "<br />\n<b>Warning</b>: Undefined index in x.php<?xml")),
    ("leading-bytes", "words", swap(SHARD, DECLARATION, "Notice: x\n")),
    ("no-declaration", "none", swap(SHARD, DECLARATION, "")),
    ("document-type", "a name", swap(SHARD, "<urlset", "<!DOCTYPE urlset>\n<urlset")),
    ("document-type", "with entities", swap(SHARD, "<urlset", ENTITIES)),
    ("control-character", "C0", swap(NEWS, "Flood closes", "Flood\x0bcloses")),
    ("control-character", "C0 by its number", swap(NEWS, "Flood closes", "Flood&#11;closes")),
    ("control-character", "C1", swap(NEWS, "Flood closes", "Flood\x85closes")),
    ("control-character", "C1 by its number", swap(NEWS, "Flood closes", "Flood&#x85;closes")),
    ("control-character", "no character", swap(NEWS, "Flood closes", "Flood\uffffcloses")),
    ("control-character", "in a loc", loc(f"{BASE}a\x00b")),
    ("date-form", "no zone", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00")),
    ("date-form", "a zone without colon", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00+0000")),
    ("date-form", "a space", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-12 10:00:00Z")),
    ("date-form", "of mail", swap(SHARD, "2026-11-12T10:00:00Z", "Thu, 12 Nov 2026 10:00:00 GMT")),
    ("date-form", "a day that does not exist", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-31")),
    ("date-form", "empty", swap(SHARD, "2026-11-12T10:00:00Z", "")),
    ("date-form", "in an index", swap(INDEX, "2026-11-20T08:00:01Z", "yesterday")),
    ("date-form", "an offset of no place", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00-15:00")),
    ("date-form", "beyond the last offset", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00+14:01")),
    ("date-form", "an offset of 75 minutes", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00+05:75")),
    ("date-form", "without seconds, an offset of no place", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00+15:00")),
    ("date-form", "of a feed", swap(RSS, "Fri, 20 Nov 2026 08:00:00 GMT", "1795161600")),
    ("date-precision", "no seconds", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00Z")),
    ("date-precision", "a month", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11")),
    ("date-white-space", "around a date", swap(SHARD, "2026-11-12T10:00:00Z", " 2026-11-12T10:00:00Z\n")),
    ("date-future", "a second", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-20T09:00:01Z")),
    ("date-future", "a day", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-22")),
    ("date-future", "in an index", swap(INDEX, "2026-11-20T08:00:01Z", "2026-11-21T08:00:00Z")),
    ("news-namespace", "another", swap(NEWS, "sitemap-news/0.9", "sitemap-news/1.0")),
    ("news-namespace", "not declared", swap(NEWS, f" {NEWS_SPACE}", "")),
    ("news-prefix", "of ElementTree", put(NEWS, NEWS_BODY.replace(b"news:", b"ns0:").replace(b":news=", b":ns0="))),
    ("news-child-count", "no title", swap(NEWS, TITLE, "")),
    ("news-child-count", "no date", swap(NEWS, DATE, "")),
    ("news-child-count", "no language", swap(NEWS, LANGUAGE, "")),
    ("news-child-count", "no publication", swap(NEWS, f"<news:publication>{NAME}{LANGUAGE}</news:publication>", "")),
    ("news-child-count", "two titles", swap(NEWS, TITLE, TITLE * 2)),
    ("news-twice", "two", swap(NEWS, ARTICLE, ARTICLE * 2)),
    ("news-mixed", "a page without", swap(NEWS, "</urlset>", f"{url(CONCERT)}</urlset>")),
    ("news-order", "title before date", swap(NEWS, DATE + TITLE, TITLE + DATE)),
    ("news-order", "language before name", swap(NEWS, NAME + LANGUAGE, LANGUAGE + NAME)),
    ("news-order", "before lastmod", swap(NEWS, f"<lastmod>2026-11-20T08:00:00Z</lastmod>{ARTICLE}", f"{ARTICLE}<lastmod>2026-11-20T08:00:00Z</lastmod>")),
    ("too-many-news", "1,001", put(NEWS, urlset(*(url(path, ARTICLE) for path in MANY[:1_001]), spaces=f"{SITEMAP_SPACE} {NEWS_SPACE}"))),
    ("news-duplicate", "in a file", swap(NEWS, "</urlset>", f"{url(FLOOD, ARTICLE)}</urlset>")),
    ("news-duplicate", "on one line", both(swap(NEWS, "</urlset>", f"{url(FLOOD, ARTICLE)}</urlset>"), minified(NEWS))),
    ("news-duplicate", "in two files", listed("sitemap-news-2.xml", NEWS_BODY)),
    ("out-of-window", "a second too old", swap(NEWS, NEWS_DATE, "2026-11-18T08:59:59Z")),
    ("out-of-window", "a day", swap(NEWS, NEWS_DATE, "2026-11-17")),
    ("out-of-window", "another zone", swap(NEWS, NEWS_DATE, "2026-11-18T10:59:59+02:00")),
    ("news-only", "in no shard", put(SHARD, urlset(url(HARBOUR)))),
    ("empty", "no url", put(NEWS, urlset())),
    ("empty", "no sitemap", put(INDEX, index())),
    ("news-name", "parentheses", swap(NEWS, "Example News<", "Example News (subscription)<")),
    ("news-name", "padded", swap(NEWS, ">Example News", "> Example News")),
    ("news-name", "empty", swap(NEWS, NAME, "<news:name/>")),
    ("news-name", "an entity", swap(NEWS, "Example News<", "Example &amp;amp; News<")),
    ("news-language", "with a country", swap(NEWS, ">en<", ">en-US<")),
    ("news-language", "capitals", swap(NEWS, ">en<", ">EN<")),
    ("news-language", "a country", swap(NEWS, ">en<", ">gr<")),
    ("news-language", "which Chinese", swap(NEWS, ">en<", ">zh<")),
    ("news-language", "a word", swap(NEWS, ">en<", ">English<")),
    ("published-form", "no zone", swap(NEWS, NEWS_DATE, "2026-11-20T07:58:00")),
    ("published-form", "an offset of no place", swap(NEWS, NEWS_DATE, "2026-11-19T16:58:00-15:00")),
    ("published-form", "a month", swap(NEWS, NEWS_DATE, "2026-11")),
    ("published-precision", "no seconds", swap(NEWS, NEWS_DATE, "2026-11-20T07:58Z")),
    ("published-future", "a second", swap(NEWS, NEWS_DATE, "2026-11-20T09:00:01Z")),
    ("title-empty", "empty", swap(NEWS, TITLE, "<news:title> </news:title>")),
    ("title-markup", "a tag", swap(NEWS, "Flood closes", "&lt;b&gt;Flood&lt;/b&gt; closes")),
    ("title-markup", "an entity", swap(NEWS, "Flood closes", "Flood&amp;nbsp;closes")),
    ("title-white-space", "two lines", swap(NEWS, "Flood closes", "Flood\n  closes")),
    ("title-with-name", "after a dash", swap(NEWS, "harbour</news", "harbour \u2013 Example News</news")),
    ("news-dead-tag", "keywords", swap(NEWS, TITLE, f"{TITLE}<news:keywords>flood</news:keywords>")),
    ("news-dead-tag", "genres", swap(NEWS, DATE, f"<news:genres>Blog</news:genres>{DATE}")),
    ("news-unknown-tag", "amp", swap(NEWS, TITLE, f"{TITLE}<news:amp>{BASE}amp</news:amp>")),
    ("news-home", "the home page", swap(NEWS, FLOOD, BASE)),
    ("image-namespace", "https", swap(MEDIA, "http://www.google.com/schemas/sitemap-image", "https://www.google.com/schemas/sitemap-image")),
    ("image-loc", "none", swap(MEDIA, "<image:loc>https://img.example.net/flood.jpg</image:loc>", "")),
    ("image-loc", "the page", swap(MEDIA, "https://img.example.net/flood.jpg", f"{BASE}gallery")),
    ("image-loc", "relative", swap(MEDIA, "https://img.example.net/flood.jpg", "/flood.jpg")),
    ("image-unknown-tag", "size", swap(MEDIA, "</image:image>", "<image:size>9</image:size></image:image>")),
    ("too-many-images", "1,001", swap(MEDIA, IMAGE, IMAGE * 1_001)),
    ("image-dead-tag", "caption", swap(MEDIA, "</image:image>", "<image:caption>x</image:caption></image:image>")),
    ("video-namespace", "1.0", swap(MEDIA, "sitemap-video/1.1", "sitemap-video/1.0")),
    ("video-required", "no thumbnail", videos(THUMBNAIL, "")),
    ("video-required", "neither content nor player", videos(CONTENT, "")),
    ("video-required", "an empty title", videos(">Flood</video:title>", "></video:title>")),
    ("video-url", "relative", videos("https://video.example.net/flood.mp4", "/flood.mp4")),
    ("video-url", "the page", videos("https://video.example.net/flood.mp4", f"{BASE}watch")),
    ("video-description", "2,049 characters", videos("The harbour under water.", "x" * 2_049)),
    ("video-title", "101 characters", videos(">Flood</video:title>", f">{'x' * 101}</video:title>")),
    ("video-value", "no duration", videos(">95<", ">0<")),
    ("video-value", "too long", videos(">95<", ">28801<")),
    ("video-value", "rating", videos(">4.5<", ">5.1<")),
    ("video-value", "views", videos(">12<", ">1.5<")),
    ("video-value", "date", videos("2026-11-20T08:00:00+01:00", "20 November")),
    ("video-value", "family", videos("friendly>yes", "friendly>true")),
    ("video-value", "territory", videos("GB FR", "UK FR")),
    ("video-value", "nowhere", videos(">GB FR<", "> <")),
    ("video-value", "territories on a line of their own", videos(">GB FR<", ">\n      GB FR\n    <")),
    ("video-value", "platforms by a tab", videos(">tv<", ">web\ttv<")),
    ("video-value", "relationship", videos(' relationship="allow"', "")),
    ("video-value", "platform", videos(">tv<", ">console<")),
    ("video-value", "subscription", videos("subscription>no", "subscription>0")),
    ("video-value", "live", videos("live>no", "live>maybe")),
    ("video-value", "uploader", videos("News desk", "x" * 256)),
    ("video-value", "uploader elsewhere", videos("https://www.example.com/desk", "https://desk.example.org/")),
    ("video-child-count", "33 tags", videos("<video:tag>flood</video:tag>", "<video:tag>x</video:tag>" * 32)),
    ("video-child-count", "two platforms", videos("<video:live>", '<video:platform relationship="allow">web</video:platform><video:live>')),
    ("video-unknown-tag", "size", videos("<video:live>", "<video:size>1</video:size><video:live>")),
    ("video-dead-tag", "category", videos("<video:live>", "<video:category>x</video:category><video:live>")),
    ("video-dead-tag", "allow_embed", videos(CONTENT, f'<video:player_loc allow_embed="yes">{BASE}player</video:player_loc>')),
    ("alternate-namespace", "with a slash", swap(MEDIA, "1999/xhtml", "1999/xhtml/")),
    ("alternate-attributes", "no rel", swap(MEDIA, 'rel="alternate" hreflang="en"', 'hreflang="en"')),
    ("alternate-attributes", "relative", swap(MEDIA, 'fr-CA" href="https://www.example.com', 'fr-CA" href="')),
    ("alternate-twice", "two for one language", swap(MEDIA, 'hreflang="x-default"', 'hreflang="EN"')),
    ("alternate-without-self", "others only", swap(MEDIA, ALTERNATES, FRENCH)),
    ("alternate-not-mutual", "one side only", swap(MEDIA, url(f"{BASE}fr/about", ALTERNATES), url(f"{BASE}fr/about"))),
    ("alternate-not-mutual", "no such page", swap(MEDIA, url(f"{BASE}fr/about", ALTERNATES), "")),
    ("hreflang", "a country", swap(MEDIA, 'hreflang="en"', 'hreflang="gr"')),
    ("hreflang", "no territory", swap(MEDIA, "fr-CA", "fr-UK")),
    ("hreflang", "a word", swap(MEDIA, "fr-CA", "french")),
    ("hreflang", "an underscore", swap(MEDIA, "fr-CA", "fr_CA")),
    ("hreflang", "three letters", swap(MEDIA, 'hreflang="en"', 'hreflang="eng"')),
    ("index-scope", "another protocol", swap(INDEX, f"{BASE}{SHARD}", f"http://{HOST}/{SHARD}")),
    ("index-scope", "another host", swap(INDEX, f"{BASE}{SHARD}", f"https://example.com/{SHARD}")),
    ("index-scope", "above its directory", put("news/sitemap.xml", index(SHARD))),
    ("nested-index", "itself", put(INDEX, index(SHARD, OLD, MEDIA, NEWS, INDEX))),
    ("nested-index", "another", listed("sitemap-more.xml", index(SHARD))),
    ("index-outdated", "a second", swap(INDEX, "2026-11-20T08:00:01Z", "2026-11-20T07:59:59Z")),
    ("index-outdated", "a day", swap(INDEX, "2026-11-20T08:00:01Z", "2026-11-18")),
    ("generation-time", "a comment", swap(SHARD, "</urlset>", "<!-- generated at 2026-11-20 09:00 --></urlset>")),
    ("child-missing", "a shard", put(INDEX, index(SHARD, OLD, MEDIA, NEWS, "sitemap-2026-09.xml"))),
    ("child-missing", "named by robots.txt", swap(ROBOTS, "pages.txt", "sitemap-2026-09.xml")),
    ("no-entry", "neither sitemap.xml nor robots.txt", remove(INDEX, ROBOTS)),
    ("no-entry", "robots.txt names the news only", both(remove(INDEX), put(ROBOTS, f"Sitemap: {BASE}{NEWS}\n".encode()))),
    ("no-entry", "robots.txt names none", both(remove(INDEX), put(ROBOTS, b"User-agent: *\nDisallow: /search\n"))),
    ("not-in-index", "a shard", put("sitemap-2026-09.xml", urlset(url(f"{BASE}2026/09/01/rain", lastmod="2026-09-01")))),
    ("duplicate", "in a file", swap(SHARD, "</urlset>", f"{url(HARBOUR)}</urlset>")),
    ("duplicate", "on one line", both(swap(SHARD, "</urlset>", f"{url(HARBOUR)}</urlset>"), minified(SHARD))),
    ("duplicate", "in two files", listed("sitemap-2026-09.xml", urlset(url(HARBOUR)))),
    ("duplicate", "in an index", put(INDEX, index(SHARD, SHARD, OLD, MEDIA, NEWS))),
    ("duplicate", "by its gzip too", both(put(INDEX, index(SHARD, f"{SHARD}.gz", OLD, MEDIA, NEWS)), put(f"{SHARD}.gz", gzip.compress(SHARD_BODY)))),
    ("duplicate", "in two indexes", put("sitemap-index-2.xml", index(SHARD))),
    ("group-drops-rules", "of Google News", swap(ROBOTS, "# all are", "User-agent: Googlebot-News\nDisallow: /print\n\n# all are")),
    ("group-drops-rules", "of two crawlers in one group", swap(ROBOTS, "# all are", "User-agent: x\nUser-agent: GPTBot\nDisallow: /print\n\n# all are")),
    ("robots-value", "relative", swap(ROBOTS, f"Sitemap: {BASE}", "Sitemap: /")),
    ("robots-disallowed", "all xml", swap(ROBOTS, "/*.pdf$", "/*.xml$")),
    ("robots-disallowed", "all for Google", put(ROBOTS, f"User-agent: Googlebot\nUser-agent: x\nDisallow: /\nAllow: /p\n\nSitemap: {BASE}{INDEX}\nSitemap: {BASE}{PAGES}".encode())),
    ("robots-disallowed", "the news for Google News", swap(ROBOTS, "# all are", "User-agent: Googlebot-News\nDisallow: /sitemap\n\n# all are")),
    ("robots-unknown", "misspelt", swap(ROBOTS, "Disallow: /search", "Disalow: /search")),
    ("robots-unknown", "two words", swap(ROBOTS, "User-agent:", "User agent:")),
    ("robots-unknown", "no field at all", swap(ROBOTS, "Disallow: /search", "keep out of /search")),
    ("robots-unknown", "of a page, not of robots.txt", swap(ROBOTS, "Disallow: /search", "Noindex: /search")),
    ("crawler-shut-out", "everybody, where no sitemap is named", put(ROBOTS, b"User-agent: *\nDisallow: /\n")),
    ("crawler-shut-out", "everybody, by an asterisk", put(ROBOTS, b"User-agent: *\nDisallow: *\n")),
    ("crawler-shut-out", "Google News", put(ROBOTS, b"User-agent: *\nDisallow:\n\nUser-agent: Googlebot-News\nDisallow: /\n")),
    ("crawler-shut-out", "Bing, among others", put(ROBOTS, b"User-agent: GPTBot\nUser-agent: BingBot/2.0\nUser-agent: CCBot\nDisallow: /\n")),
    ("unknown-extension", "of somebody", swap(SHARD, HARBOUR_DATE, f'{HARBOUR_DATE}<x:y xmlns:x="urn:x">1</x:y>')),
    ("news-in-general", "an article among pages", swap(MEDIA, url(f"{BASE}gallery", IMAGE), url(FLOOD, ARTICLE.replace("<news:news>", f"<news:news {NEWS_SPACE}>")))),
    ("content-type", "S3's default", served(SHARD, ContentType="binary/octet-stream")),
    ("content-type", "none", served(SHARD, ContentType=None)),
    ("content-type", "no charset", served(SHARD, ContentType="text/xml")),
    ("content-type", "another charset", served(SHARD, ContentType="text/xml; charset=ISO-8859-1")),
    ("content-type", "XML under gz", served(OLD, ContentType="application/xml")),
    ("compressed-name", "under .xml", put(SHARD, gzip.compress(SHARD_BODY))),
    ("compressed-name", "plain under .gz", put(OLD, urlset(url(f"{BASE}fog", lastmod="2026-10-01")))),
    ("compressed-name", "twice", put(OLD, gzip.compress(good().files[OLD]))),
    ("content-encoding", "of a plain file", served(SHARD, ContentEncoding="gzip")),
    ("content-encoding", "of a compressed file", served(OLD, ContentType="application/gzip", ContentEncoding="gzip")),
    ("cache-control", "none", served(NEWS, CacheControl=None)),
    ("cache-control", "a day", served(NEWS, CacheControl="public, max-age=86400")),
    ("cache-control", "of an index", served(INDEX, CacheControl="public")),
    ("entities", "billion laughs", swap(SHARD, "<urlset", ENTITIES)),
    ("entities", "a file of the machine", swap(SHARD, "<urlset", '<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<urlset')),
    ("hostile", "nested", swap(SHARD, HARBOUR_DATE, "<a>" * 40 + "</a>" * 40)),
    ("hostile", "a tag of two megabytes", swap(SHARD, "<loc>", f'<loc a="{"x" * 2_097_152}">')),
]  # fmt: skip

# Planted where files are fetched: test_fetching.py.
FETCHED = {"redirected", "not-served"}
