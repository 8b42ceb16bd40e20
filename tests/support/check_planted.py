"""Faults to plant in a site whose files keep every rule: at least one for every named rule."""

import gzip
import io
import zipfile
from collections.abc import Callable

from tests.support import check_good_site

Fault = Callable[[check_good_site.Site], object]


def swap(name: str, old: str, new: str) -> Fault:
    """A fault that stands in one file in place of what was right."""

    def plant(site: check_good_site.Site) -> None:
        assert old.encode() in site.files[name], f"{old} is not in {name}"
        site.files[name] = site.files[name].replace(old.encode(), new.encode("utf-8", "surrogatepass"), 1)

    return plant


def loc(new: str) -> Fault:
    return swap(check_good_site.SHARD, check_good_site.HARBOUR, new)


def put(name: str, body: bytes) -> Fault:
    return lambda site: site.files.update({name: body})


def remove(*names: str) -> Fault:
    return lambda site: [site.files.pop(name) for name in names]


def minified(name: str) -> Fault:
    """The whole file on one line."""
    return lambda site: site.files.update({name: site.files[name].replace(b"\n", b"")})


def served(name: str, **headers: str | None) -> Fault:
    return lambda site: site.headers.update({name: {**check_good_site.SERVED, **headers}})


def listed(name: str, body: bytes) -> Fault:
    """A further file, listed in the index as it should be."""
    return lambda site: site.files.update(
        {
            name: body,
            check_good_site.INDEX: check_good_site.index(
                check_good_site.SHARD, check_good_site.OLD, check_good_site.MEDIA, check_good_site.NEWS, name
            ),
        }
    )


def both(*faults: Fault) -> Fault:
    return lambda site: [fault(site) for fault in faults]


def zipped() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(check_good_site.SHARD, check_good_site.good().files[check_good_site.SHARD])
    return archive.getvalue()


def videos(old: str, new: str) -> Fault:
    return swap(check_good_site.MEDIA, old, new)


SHARD_BODY, NEWS_BODY = (
    check_good_site.good().files[check_good_site.SHARD],
    check_good_site.good().files[check_good_site.NEWS],
)
MANY = [f"{check_good_site.BASE}{number}" for number in range(50_001)]
HARBOUR_DATE = "<lastmod>2026-11-12T10:00:00Z</lastmod>"
NEWS_DATE = "2026-11-20T07:58:00Z"
ENTITIES = '<!DOCTYPE urlset [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>\n<urlset'


# name of the rule, what is planted, and the fault
CASES: list[tuple[str, str, Fault]] = [
    ("not-utf-8", "latin-1", put(check_good_site.SHARD, check_good_site.urlset(check_good_site.url(check_good_site.HARBOUR), check_good_site.url(f"{check_good_site.BASE}\u00fc")).decode().encode("latin-1"))),
    ("not-utf-8", "UTF-16", put(check_good_site.SHARD, SHARD_BODY.decode().encode("utf-16"))),
    ("not-utf-8", "UTF-16 without a mark", put(check_good_site.SHARD, SHARD_BODY.decode().encode("utf-16-be"))),
    ("not-utf-8", "half a character at the end", swap(check_good_site.SHARD, "</urlset>\n", "</urlset>\n\ud83c")),
    ("not-utf-8", "latin-1 in a list", put(check_good_site.PAGES, f"{check_good_site.BASE}\u00fc\n".encode("latin-1"))),
    ("declared-encoding", "latin-1", swap(check_good_site.SHARD, 'encoding="UTF-8"', "encoding='ISO-8859-1'")),
    ("declared-encoding", "an encoding nobody knows", swap(check_good_site.SHARD, 'encoding="UTF-8"', "encoding='klingon'")),
    ("namespace", "https", swap(check_good_site.SHARD, "http://www.sitemaps", "https://www.sitemaps")),
    ("namespace", "a slash at its end", swap(check_good_site.SHARD, 'sitemap/0.9"', 'sitemap/0.9/"')),
    ("namespace", "none", swap(check_good_site.SHARD, f" {check_good_site.SITEMAP_SPACE}", "")),
    ("namespace", "an old one", swap(check_good_site.INDEX, "http://www.sitemaps.org/schemas/sitemap/0.9", "http://www.google.com/schemas/sitemap/0.84")),
    ("root-element", "another", put(check_good_site.SHARD, SHARD_BODY.replace(b"urlset", b"sitemaps"))),
    ("root-element", "a page", put(check_good_site.SHARD, b"<!DOCTYPE html>\n<html><body><p>Not found<br></body></html>")),
    ("root-element", "a page that is no XML", put(check_good_site.SHARD, b"\n<!doctype html><html><head><title>x</title></head></html>")),
    ("root-element", "no XML", put(check_good_site.SHARD, b"Not Found")),
    ("root-prefix", "a prefix", put(check_good_site.SHARD, SHARD_BODY.replace(b"<", b"<s:").replace(b"<s:/", b"</s:").replace(b"<s:?", b"<?").replace(b"xmlns=", b"xmlns:s="))),
    ("unbound-prefix", "not declared", swap(check_good_site.SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<x:y>1</x:y>")),
    ("not-well-formed", "a bare ampersand", loc(f"{check_good_site.HARBOUR}?a=1&b=2")),
    ("not-well-formed", "cut off", put(check_good_site.SHARD, SHARD_BODY[:-20])),
    ("not-well-formed", "an entity of HTML", swap(check_good_site.NEWS, "Flood closes", "Flood&nbsp;closes")),
    ("not-well-formed", "tags crossed", swap(check_good_site.SHARD, "</loc>", "</lok>")),
    ("not-well-formed", "two root elements", put(check_good_site.SHARD, SHARD_BODY + b"<urlset/>")),
    ("not-well-formed", "empty", put(check_good_site.SHARD, b"")),
    ("unescaped", "an apostrophe", loc(f"{check_good_site.HARBOUR}?it's")),
    ("escaped-twice", "in a URL", loc(f"{check_good_site.HARBOUR}?a=1&amp;amp;b=2")),
    ("escaped-twice", "in a title", swap(check_good_site.NEWS, "Flood closes", "Flood &amp;amp; storm close")),
    ("cdata", "a name", swap(check_good_site.NEWS, check_good_site.NAME, "<news:name><![CDATA[Example News]]></news:name>")),
    ("cdata", "a loc", loc(f"<![CDATA[{check_good_site.HARBOUR}]]>")),
    ("loc-empty", "empty", loc("")),
    ("loc-empty", "missing", swap(check_good_site.SHARD, f"<loc>{check_good_site.HARBOUR}</loc>", "")),
    ("loc-not-absolute", "relative", loc("/2026/11/12/harbour")),
    ("loc-not-absolute", "another protocol", loc("ftp://www.example.com/harbour")),
    ("loc-not-absolute", "no host", loc("https:///harbour")),
    ("loc-not-absolute", "in an index", swap(check_good_site.INDEX, f"{check_good_site.BASE}{check_good_site.SHARD}", f"/{check_good_site.SHARD}")),
    ("loc-not-absolute", "in a feed", swap(check_good_site.RSS, f"{check_good_site.BASE}fire", "/fire")),
    ("loc-too-long", "2,048 characters", loc(check_good_site.HARBOUR.ljust(2_048, "x"))),
    ("loc-too-long", "in a list", put(check_good_site.PAGES, check_good_site.HARBOUR.ljust(2_048, "x").encode())),
    ("loc-white-space", "a line break", loc(f"\n  {check_good_site.HARBOUR}\n")),
    ("loc-characters", "not ASCII", loc(f"{check_good_site.BASE}\u00fcber")),
    ("loc-characters", "a space", loc(f"{check_good_site.BASE}a b")),
    ("loc-characters", "a lone percent sign", loc(f"{check_good_site.BASE}100%")),
    ("loc-characters", "in an image", swap(check_good_site.MEDIA, "net/flood.jpg", "net/\u00fc.jpg")),
    ("loc-host", "not ASCII", loc("https://www.ex\u00e4mple.com/")),
    ("loc-host", "no host name", loc("https://www.exa_-.mple..com/")),
    ("loc-fragment", "a fragment", loc(f"{check_good_site.HARBOUR}#comments")),
    ("loc-user-information", "a password", loc("https://me:secret@www.example.com/harbour")),
    ("loc-session", "of Java", loc(f"{check_good_site.HARBOUR};jsessionid=1F")),
    ("loc-session", "of PHP", loc(f"{check_good_site.HARBOUR}?a=1&amp;PHPSESSID=1F")),
    ("loc-tracking", "a campaign", loc(f"{check_good_site.HARBOUR}?id=1&amp;utm_source=feed")),
    ("loc-tracking", "xtor", loc(f"{check_good_site.HARBOUR}#xtor=RSS-1")),
    ("other-host", "without www", loc("https://example.com/harbour")),
    ("other-host", "another port", loc("https://www.example.com:8443/harbour")),
    ("other-host", "in a list", swap(check_good_site.PAGES, check_good_site.CONCERT, "https://example.com/concert")),
    ("other-protocol", "http", loc("http://www.example.com/harbour")),
    ("default-port", "443", loc("https://www.example.com:443/harbour")),
    ("out-of-scope", "beside its folder", listed("news/sitemap.xml", check_good_site.urlset(check_good_site.url(f"{check_good_site.BASE}sport/1")))),
    ("out-of-scope", "a folder of a like name", listed("news/sitemap.xml", check_good_site.urlset(check_good_site.url(f"{check_good_site.BASE}newspaper/1")))),
    ("storage-host", "a bucket", loc("https://news.s3.eu-west-1.amazonaws.com/harbour")),
    ("storage-host", "all of them", put(check_good_site.SHARD, SHARD_BODY.replace(check_good_site.HOST.encode(), b"d111.cloudfront.net"))),
    ("loc-session", "a sid", loc(f"{check_good_site.HARBOUR}?sid=1f0c9a77")),
    ("storage-host", "a distribution", swap(check_good_site.INDEX, f"{check_good_site.BASE}{check_good_site.SHARD}", f"https://d111.cloudfront.net/{check_good_site.SHARD}")),
    ("too-many-urls", "50,001", put(check_good_site.SHARD, check_good_site.urlset(*(check_good_site.url(path) for path in MANY), check_good_site.url(check_good_site.FLOOD)))),
    ("too-many-urls", "in a list", put(check_good_site.PAGES, "\n".join(MANY).encode())),
    ("too-large", "more than 50 MiB", swap(check_good_site.SHARD, "</urlset>", " " * 52_428_800 + "</urlset>")),
    ("too-large", "unpacked", put(check_good_site.OLD, gzip.compress(SHARD_BODY + b" " * 52_428_800, 1))),
    ("child-count", "two lastmods", swap(check_good_site.SHARD, HARBOUR_DATE, HARBOUR_DATE * 2)),
    ("child-count", "no loc in an index", swap(check_good_site.INDEX, f"<loc>{check_good_site.BASE}{check_good_site.SHARD}</loc>", "")),
    ("child-order", "lastmod first", swap(check_good_site.SHARD, f"<loc>{check_good_site.HARBOUR}</loc>{HARBOUR_DATE}", f"{HARBOUR_DATE}<loc>{check_good_site.HARBOUR}</loc>")),
    ("unknown-child", "in a url", swap(check_good_site.SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<title>Harbour</title>")),
    ("unknown-child", "in an index", swap(check_good_site.INDEX, "</lastmod>", "</lastmod><priority>1</priority>")),
    ("unknown-child", "a sitemap in a urlset", swap(check_good_site.SHARD, "</urlset>", f"<sitemap><loc>{check_good_site.BASE}</loc></sitemap></urlset>")),
    ("unknown-child", "an element in a loc", loc(f"<b>{check_good_site.HARBOUR}</b>")),
    ("unknown-child", "a title straight in a url", swap(check_good_site.NEWS, check_good_site.ARTICLE, check_good_site.TITLE)),
    ("stray-text", "in a url", swap(check_good_site.SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}12 November")),
    ("stray-text", "in a urlset", swap(check_good_site.SHARD, "</urlset>", "the end</urlset>")),
    ("stray-text", "a sitemap that is a URL", swap(check_good_site.INDEX, "</sitemapindex>", f"<sitemap>{check_good_site.BASE}x.xml</sitemap></sitemapindex>")),
    ("attribute", "of a loc", swap(check_good_site.SHARD, "<loc>", '<loc type="page">')),
    ("attribute", "of a urlset", swap(check_good_site.SHARD, "<urlset ", '<urlset generator="x" ')),
    ("attribute", "of news", swap(check_good_site.NEWS, "<news:title>", '<news:title lang="en">')),
    ("too-many-sitemaps", "50,001", put(check_good_site.INDEX, check_good_site.index(check_good_site.SHARD, check_good_site.OLD, check_good_site.MEDIA, check_good_site.NEWS, *(f"{number}.xml" for number in range(50_000))))),
    ("changefreq-value", "often", swap(check_good_site.SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<changefreq>often</changefreq>")),
    ("priority-value", "1.5", swap(check_good_site.SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<priority>1.5</priority>")),
    ("priority-value", "high", swap(check_good_site.SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<priority>high</priority>")),
    ("text-line", "a relative URL", swap(check_good_site.PAGES, check_good_site.CONCERT, f"{check_good_site.CONCERT}\n/imprint")),
    ("text-line", "more than a URL", swap(check_good_site.PAGES, check_good_site.CONCERT, f"{check_good_site.CONCERT} 2026-11-19")),
    ("text-line", "a heading", put(check_good_site.PAGES, f"Our pages\n{check_good_site.CONCERT}\n".encode())),
    ("feed-version", "RSS 0.91", swap(check_good_site.RSS, 'version="2.0"', 'version="0.91"')),
    ("feed-version", "Atom 0.3", swap(check_good_site.ATOM, "http://www.w3.org/2005/Atom", "http://purl.org/atom/ns#")),
    ("feed-link", "none in RSS", swap(check_good_site.RSS, f"<link>{check_good_site.BASE}fire</link>", "")),
    ("feed-link", "none in Atom", swap(check_good_site.ATOM, f'<link href="{check_good_site.BASE}storm"/>', "")),
    ("gzip-damaged", "cut off", put(check_good_site.OLD, gzip.compress(SHARD_BODY)[:-20])),
    ("gzip-damaged", "another checksum", put(check_good_site.OLD, gzip.compress(SHARD_BODY)[:-8] + bytes(8))),
    ("gzip-trailing", "a comment", put(check_good_site.OLD, gzip.compress(check_good_site.good().files[check_good_site.MEDIA].replace(check_good_site.BASE.encode(), f"{check_good_site.BASE}x/".encode())) + b"<!-- cached -->")),
    ("forms-differ", "a gzip of yesterday", put(f"{check_good_site.SHARD}.gz", gzip.compress(SHARD_BODY.replace(b"T10", b"T09")))),
    ("forms-differ", "a text that lists less", put(check_good_site.SHARD.replace("xml", "txt"), f"{check_good_site.HARBOUR}\n".encode())),
    ("zip", "an archive", put(check_good_site.OLD, zipped())),
    ("byte-order-mark", "in XML", swap(check_good_site.SHARD, "<?xml", "\ufeff<?xml")),
    ("byte-order-mark", "in a list", put(check_good_site.PAGES, b"\xef\xbb\xbf" + check_good_site.CONCERT.encode())),
    ("leading-bytes", "a line break", swap(check_good_site.SHARD, "<?xml", "\n<?xml")),
    ("leading-bytes", "a warning", swap(check_good_site.SHARD, "<?xml", "<br />\n<b>Warning</b>: Undefined index in x.php<?xml")),
    ("leading-bytes", "words", swap(check_good_site.SHARD, check_good_site.DECLARATION, "Notice: x\n")),
    ("no-declaration", "none", swap(check_good_site.SHARD, check_good_site.DECLARATION, "")),
    ("document-type", "a name", swap(check_good_site.SHARD, "<urlset", "<!DOCTYPE urlset>\n<urlset")),
    ("document-type", "with entities", swap(check_good_site.SHARD, "<urlset", ENTITIES)),
    ("control-character", "C0", swap(check_good_site.NEWS, "Flood closes", "Flood\x0bcloses")),
    ("control-character", "C0 by its number", swap(check_good_site.NEWS, "Flood closes", "Flood&#11;closes")),
    ("control-character", "C1", swap(check_good_site.NEWS, "Flood closes", "Flood\x85closes")),
    ("control-character", "C1 by its number", swap(check_good_site.NEWS, "Flood closes", "Flood&#x85;closes")),
    ("control-character", "no character", swap(check_good_site.NEWS, "Flood closes", "Flood\uffffcloses")),
    ("control-character", "in a loc", loc(f"{check_good_site.BASE}a\x00b")),
    ("date-form", "no zone", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00")),
    ("date-form", "a zone without colon", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00+0000")),
    ("date-form", "a space", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11-12 10:00:00Z")),
    ("date-form", "of mail", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "Thu, 12 Nov 2026 10:00:00 GMT")),
    ("date-form", "a day that does not exist", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11-31")),
    ("date-form", "empty", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "")),
    ("date-form", "in an index", swap(check_good_site.INDEX, "2026-11-20T08:00:01Z", "yesterday")),
    ("date-form", "an offset of no place", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00-15:00")),
    ("date-form", "beyond the last offset", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00+14:01")),
    ("date-form", "an offset of 75 minutes", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00+05:75")),
    ("date-form", "without seconds, an offset of no place", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00+15:00")),
    ("date-form", "of a feed", swap(check_good_site.RSS, "Fri, 20 Nov 2026 08:00:00 GMT", "1795161600")),
    ("date-precision", "no seconds", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00Z")),
    ("date-precision", "a month", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11")),
    ("date-white-space", "around a date", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", " 2026-11-12T10:00:00Z\n")),
    ("date-future", "a second", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11-20T09:00:01Z")),
    ("date-future", "a day", swap(check_good_site.SHARD, "2026-11-12T10:00:00Z", "2026-11-22")),
    ("date-future", "in an index", swap(check_good_site.INDEX, "2026-11-20T08:00:01Z", "2026-11-21T08:00:00Z")),
    ("news-namespace", "another", swap(check_good_site.NEWS, "sitemap-news/0.9", "sitemap-news/1.0")),
    ("news-namespace", "not declared", swap(check_good_site.NEWS, f" {check_good_site.NEWS_SPACE}", "")),
    ("news-prefix", "of ElementTree", put(check_good_site.NEWS, NEWS_BODY.replace(b"news:", b"ns0:").replace(b":news=", b":ns0="))),
    ("news-child-count", "no title", swap(check_good_site.NEWS, check_good_site.TITLE, "")),
    ("news-child-count", "no date", swap(check_good_site.NEWS, check_good_site.DATE, "")),
    ("news-child-count", "no language", swap(check_good_site.NEWS, check_good_site.LANGUAGE, "")),
    ("news-child-count", "no publication", swap(check_good_site.NEWS, f"<news:publication>{check_good_site.NAME}{check_good_site.LANGUAGE}</news:publication>", "")),
    ("news-child-count", "two titles", swap(check_good_site.NEWS, check_good_site.TITLE, check_good_site.TITLE * 2)),
    ("news-twice", "two", swap(check_good_site.NEWS, check_good_site.ARTICLE, check_good_site.ARTICLE * 2)),
    ("news-mixed", "a page without", swap(check_good_site.NEWS, "</urlset>", f"{check_good_site.url(check_good_site.CONCERT)}</urlset>")),
    ("news-order", "title before date", swap(check_good_site.NEWS, check_good_site.DATE + check_good_site.TITLE, check_good_site.TITLE + check_good_site.DATE)),
    ("news-order", "language before name", swap(check_good_site.NEWS, check_good_site.NAME + check_good_site.LANGUAGE, check_good_site.LANGUAGE + check_good_site.NAME)),
    ("news-order", "before lastmod", swap(check_good_site.NEWS, f"<lastmod>2026-11-20T08:00:00Z</lastmod>{check_good_site.ARTICLE}", f"{check_good_site.ARTICLE}<lastmod>2026-11-20T08:00:00Z</lastmod>")),
    ("too-many-news", "1,001", put(check_good_site.NEWS, check_good_site.urlset(*(check_good_site.url(path, check_good_site.ARTICLE) for path in MANY[:1_001]), spaces=f"{check_good_site.SITEMAP_SPACE} {check_good_site.NEWS_SPACE}"))),
    ("news-duplicate", "in a file", swap(check_good_site.NEWS, "</urlset>", f"{check_good_site.url(check_good_site.FLOOD, check_good_site.ARTICLE)}</urlset>")),
    ("news-duplicate", "on one line", both(swap(check_good_site.NEWS, "</urlset>", f"{check_good_site.url(check_good_site.FLOOD, check_good_site.ARTICLE)}</urlset>"), minified(check_good_site.NEWS))),
    ("news-duplicate", "in two files", listed("sitemap-news-2.xml", NEWS_BODY)),
    ("out-of-window", "a second too old", swap(check_good_site.NEWS, NEWS_DATE, "2026-11-18T08:59:59Z")),
    ("out-of-window", "a day", swap(check_good_site.NEWS, NEWS_DATE, "2026-11-17")),
    ("out-of-window", "another zone", swap(check_good_site.NEWS, NEWS_DATE, "2026-11-18T10:59:59+02:00")),
    ("news-only", "in no shard", put(check_good_site.SHARD, check_good_site.urlset(check_good_site.url(check_good_site.HARBOUR)))),
    ("empty", "no url", put(check_good_site.NEWS, check_good_site.urlset())),
    ("empty", "no sitemap", put(check_good_site.INDEX, check_good_site.index())),
    ("news-name", "parentheses", swap(check_good_site.NEWS, "Example News<", "Example News (subscription)<")),
    ("news-name", "padded", swap(check_good_site.NEWS, ">Example News", "> Example News")),
    ("news-name", "empty", swap(check_good_site.NEWS, check_good_site.NAME, "<news:name/>")),
    ("news-name", "an entity", swap(check_good_site.NEWS, "Example News<", "Example &amp;amp; News<")),
    ("news-language", "with a country", swap(check_good_site.NEWS, ">en<", ">en-US<")),
    ("news-language", "capitals", swap(check_good_site.NEWS, ">en<", ">EN<")),
    ("news-language", "a country", swap(check_good_site.NEWS, ">en<", ">gr<")),
    ("news-language", "which Chinese", swap(check_good_site.NEWS, ">en<", ">zh<")),
    ("news-language", "a word", swap(check_good_site.NEWS, ">en<", ">English<")),
    ("published-form", "no zone", swap(check_good_site.NEWS, NEWS_DATE, "2026-11-20T07:58:00")),
    ("published-form", "an offset of no place", swap(check_good_site.NEWS, NEWS_DATE, "2026-11-19T16:58:00-15:00")),
    ("published-form", "a month", swap(check_good_site.NEWS, NEWS_DATE, "2026-11")),
    ("published-precision", "no seconds", swap(check_good_site.NEWS, NEWS_DATE, "2026-11-20T07:58Z")),
    ("published-future", "a second", swap(check_good_site.NEWS, NEWS_DATE, "2026-11-20T09:00:01Z")),
    ("title-empty", "empty", swap(check_good_site.NEWS, check_good_site.TITLE, "<news:title> </news:title>")),
    ("title-markup", "a tag", swap(check_good_site.NEWS, "Flood closes", "&lt;b&gt;Flood&lt;/b&gt; closes")),
    ("title-markup", "an entity", swap(check_good_site.NEWS, "Flood closes", "Flood&amp;nbsp;closes")),
    ("title-white-space", "two lines", swap(check_good_site.NEWS, "Flood closes", "Flood\n  closes")),
    ("title-with-name", "after a dash", swap(check_good_site.NEWS, "harbour</news", "harbour \u2013 Example News</news")),
    ("news-dead-tag", "keywords", swap(check_good_site.NEWS, check_good_site.TITLE, f"{check_good_site.TITLE}<news:keywords>flood</news:keywords>")),
    ("news-dead-tag", "genres", swap(check_good_site.NEWS, check_good_site.DATE, f"<news:genres>Blog</news:genres>{check_good_site.DATE}")),
    ("news-unknown-tag", "amp", swap(check_good_site.NEWS, check_good_site.TITLE, f"{check_good_site.TITLE}<news:amp>{check_good_site.BASE}amp</news:amp>")),
    ("news-home", "the home page", swap(check_good_site.NEWS, check_good_site.FLOOD, check_good_site.BASE)),
    ("image-namespace", "https", swap(check_good_site.MEDIA, "http://www.google.com/schemas/sitemap-image", "https://www.google.com/schemas/sitemap-image")),
    ("image-loc", "none", swap(check_good_site.MEDIA, "<image:loc>https://img.example.net/flood.jpg</image:loc>", "")),
    ("image-loc", "the page", swap(check_good_site.MEDIA, "https://img.example.net/flood.jpg", f"{check_good_site.BASE}gallery")),
    ("image-loc", "relative", swap(check_good_site.MEDIA, "https://img.example.net/flood.jpg", "/flood.jpg")),
    ("image-unknown-tag", "size", swap(check_good_site.MEDIA, "</image:image>", "<image:size>9</image:size></image:image>")),
    ("too-many-images", "1,001", swap(check_good_site.MEDIA, check_good_site.IMAGE, check_good_site.IMAGE * 1_001)),
    ("image-dead-tag", "caption", swap(check_good_site.MEDIA, "</image:image>", "<image:caption>x</image:caption></image:image>")),
    ("video-namespace", "1.0", swap(check_good_site.MEDIA, "sitemap-video/1.1", "sitemap-video/1.0")),
    ("video-required", "no thumbnail", videos(check_good_site.THUMBNAIL, "")),
    ("video-required", "neither content nor player", videos(check_good_site.CONTENT, "")),
    ("video-required", "an empty title", videos(">Flood</video:title>", "></video:title>")),
    ("video-url", "relative", videos("https://video.example.net/flood.mp4", "/flood.mp4")),
    ("video-url", "the page", videos("https://video.example.net/flood.mp4", f"{check_good_site.BASE}watch")),
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
    ("video-dead-tag", "allow_embed", videos(check_good_site.CONTENT, f'<video:player_loc allow_embed="yes">{check_good_site.BASE}player</video:player_loc>')),
    ("alternate-namespace", "with a slash", swap(check_good_site.MEDIA, "1999/xhtml", "1999/xhtml/")),
    ("alternate-attributes", "no rel", swap(check_good_site.MEDIA, 'rel="alternate" hreflang="en"', 'hreflang="en"')),
    ("alternate-attributes", "relative", swap(check_good_site.MEDIA, 'fr-CA" href="https://www.example.com', 'fr-CA" href="')),
    ("alternate-twice", "two for one language", swap(check_good_site.MEDIA, 'hreflang="x-default"', 'hreflang="EN"')),
    ("alternate-without-self", "others only", swap(check_good_site.MEDIA, check_good_site.ALTERNATES, check_good_site.FRENCH)),
    ("alternate-not-mutual", "one side only", swap(check_good_site.MEDIA, check_good_site.url(f"{check_good_site.BASE}fr/about", check_good_site.ALTERNATES), check_good_site.url(f"{check_good_site.BASE}fr/about"))),
    ("alternate-not-mutual", "no such page", swap(check_good_site.MEDIA, check_good_site.url(f"{check_good_site.BASE}fr/about", check_good_site.ALTERNATES), "")),
    ("hreflang", "a country", swap(check_good_site.MEDIA, 'hreflang="en"', 'hreflang="gr"')),
    ("hreflang", "no territory", swap(check_good_site.MEDIA, "fr-CA", "fr-UK")),
    ("hreflang", "a word", swap(check_good_site.MEDIA, "fr-CA", "french")),
    ("hreflang", "an underscore", swap(check_good_site.MEDIA, "fr-CA", "fr_CA")),
    ("hreflang", "three letters", swap(check_good_site.MEDIA, 'hreflang="en"', 'hreflang="eng"')),
    ("index-scope", "another protocol", swap(check_good_site.INDEX, f"{check_good_site.BASE}{check_good_site.SHARD}", f"http://{check_good_site.HOST}/{check_good_site.SHARD}")),
    ("index-scope", "another host", swap(check_good_site.INDEX, f"{check_good_site.BASE}{check_good_site.SHARD}", f"https://example.com/{check_good_site.SHARD}")),
    ("index-scope", "above its directory", put("news/sitemap.xml", check_good_site.index(check_good_site.SHARD))),
    ("nested-index", "itself", put(check_good_site.INDEX, check_good_site.index(check_good_site.SHARD, check_good_site.OLD, check_good_site.MEDIA, check_good_site.NEWS, check_good_site.INDEX))),
    ("nested-index", "another", listed("sitemap-more.xml", check_good_site.index(check_good_site.SHARD))),
    ("index-outdated", "a second", swap(check_good_site.INDEX, "2026-11-20T08:00:01Z", "2026-11-20T07:59:59Z")),
    ("index-outdated", "a day", swap(check_good_site.INDEX, "2026-11-20T08:00:01Z", "2026-11-18")),
    ("generation-time", "a comment", swap(check_good_site.SHARD, "</urlset>", "<!-- generated at 2026-11-20 09:00 --></urlset>")),
    ("child-missing", "a shard", put(check_good_site.INDEX, check_good_site.index(check_good_site.SHARD, check_good_site.OLD, check_good_site.MEDIA, check_good_site.NEWS, "sitemap-2026-09.xml"))),
    ("child-missing", "named by robots.txt", swap(check_good_site.ROBOTS, "pages.txt", "sitemap-2026-09.xml")),
    ("no-entry", "neither sitemap.xml nor robots.txt", remove(check_good_site.INDEX, check_good_site.ROBOTS)),
    ("no-entry", "robots.txt names the news only", both(remove(check_good_site.INDEX), put(check_good_site.ROBOTS, f"Sitemap: {check_good_site.BASE}{check_good_site.NEWS}\n".encode()))),
    ("no-entry", "robots.txt names none", both(remove(check_good_site.INDEX), put(check_good_site.ROBOTS, b"User-agent: *\nDisallow: /search\n"))),
    ("not-in-index", "a shard", put("sitemap-2026-09.xml", check_good_site.urlset(check_good_site.url(f"{check_good_site.BASE}2026/09/01/rain", lastmod="2026-09-01")))),
    ("duplicate", "in a file", swap(check_good_site.SHARD, "</urlset>", f"{check_good_site.url(check_good_site.HARBOUR)}</urlset>")),
    ("duplicate", "on one line", both(swap(check_good_site.SHARD, "</urlset>", f"{check_good_site.url(check_good_site.HARBOUR)}</urlset>"), minified(check_good_site.SHARD))),
    ("duplicate", "in two files", listed("sitemap-2026-09.xml", check_good_site.urlset(check_good_site.url(check_good_site.HARBOUR)))),
    ("duplicate", "in an index", put(check_good_site.INDEX, check_good_site.index(check_good_site.SHARD, check_good_site.SHARD, check_good_site.OLD, check_good_site.MEDIA, check_good_site.NEWS))),
    ("duplicate", "by its gzip too", both(put(check_good_site.INDEX, check_good_site.index(check_good_site.SHARD, f"{check_good_site.SHARD}.gz", check_good_site.OLD, check_good_site.MEDIA, check_good_site.NEWS)), put(f"{check_good_site.SHARD}.gz", gzip.compress(SHARD_BODY)))),
    ("duplicate", "in two indexes", put("sitemap-index-2.xml", check_good_site.index(check_good_site.SHARD))),
    ("group-drops-rules", "of Google News", swap(check_good_site.ROBOTS, "# all are", "User-agent: Googlebot-News\nDisallow: /print\n\n# all are")),
    ("group-drops-rules", "of two crawlers in one group", swap(check_good_site.ROBOTS, "# all are", "User-agent: x\nUser-agent: GPTBot\nDisallow: /print\n\n# all are")),
    ("robots-value", "relative", swap(check_good_site.ROBOTS, f"Sitemap: {check_good_site.BASE}", "Sitemap: /")),
    ("robots-disallowed", "all xml", swap(check_good_site.ROBOTS, "/*.pdf$", "/*.xml$")),
    ("robots-disallowed", "all for Google", put(check_good_site.ROBOTS, f"User-agent: Googlebot\nUser-agent: x\nDisallow: /\nAllow: /p\n\nSitemap: {check_good_site.BASE}{check_good_site.INDEX}\nSitemap: {check_good_site.BASE}{check_good_site.PAGES}".encode())),
    ("robots-disallowed", "the news for Google News", swap(check_good_site.ROBOTS, "# all are", "User-agent: Googlebot-News\nDisallow: /sitemap\n\n# all are")),
    ("robots-unknown", "misspelt", swap(check_good_site.ROBOTS, "Disallow: /search", "Disalow: /search")),
    ("robots-unknown", "two words", swap(check_good_site.ROBOTS, "User-agent:", "User agent:")),
    ("robots-unknown", "no field at all", swap(check_good_site.ROBOTS, "Disallow: /search", "keep out of /search")),
    ("robots-unknown", "of a page, not of robots.txt", swap(check_good_site.ROBOTS, "Disallow: /search", "Noindex: /search")),
    ("crawler-shut-out", "everybody, where no sitemap is named", put(check_good_site.ROBOTS, b"User-agent: *\nDisallow: /\n")),
    ("crawler-shut-out", "everybody, by an asterisk", put(check_good_site.ROBOTS, b"User-agent: *\nDisallow: *\n")),
    ("crawler-shut-out", "Google News", put(check_good_site.ROBOTS, b"User-agent: *\nDisallow:\n\nUser-agent: Googlebot-News\nDisallow: /\n")),
    ("crawler-shut-out", "Bing, among others", put(check_good_site.ROBOTS, b"User-agent: GPTBot\nUser-agent: BingBot/2.0\nUser-agent: CCBot\nDisallow: /\n")),
    ("unknown-extension", "of somebody", swap(check_good_site.SHARD, HARBOUR_DATE, f'{HARBOUR_DATE}<x:y xmlns:x="urn:x">1</x:y>')),
    ("news-in-general", "an article among pages", swap(check_good_site.MEDIA, check_good_site.url(f"{check_good_site.BASE}gallery", check_good_site.IMAGE), check_good_site.url(check_good_site.FLOOD, check_good_site.ARTICLE.replace("<news:news>", f"<news:news {check_good_site.NEWS_SPACE}>")))),
    ("content-type", "S3's default", served(check_good_site.SHARD, ContentType="binary/octet-stream")),
    ("content-type", "none", served(check_good_site.SHARD, ContentType=None)),
    ("content-type", "no charset", served(check_good_site.SHARD, ContentType="text/xml")),
    ("content-type", "another charset", served(check_good_site.SHARD, ContentType="text/xml; charset=ISO-8859-1")),
    ("content-type", "XML under gz", served(check_good_site.OLD, ContentType="application/xml")),
    ("compressed-name", "under .xml", put(check_good_site.SHARD, gzip.compress(SHARD_BODY))),
    ("compressed-name", "plain under .gz", put(check_good_site.OLD, check_good_site.urlset(check_good_site.url(f"{check_good_site.BASE}fog", lastmod="2026-10-01")))),
    ("compressed-name", "twice", put(check_good_site.OLD, gzip.compress(check_good_site.good().files[check_good_site.OLD]))),
    ("content-encoding", "of a plain file", served(check_good_site.SHARD, ContentEncoding="gzip")),
    ("content-encoding", "of a compressed file", served(check_good_site.OLD, ContentType="application/gzip", ContentEncoding="gzip")),
    ("cache-control", "none", served(check_good_site.NEWS, CacheControl=None)),
    ("cache-control", "a day", served(check_good_site.NEWS, CacheControl="public, max-age=86400")),
    ("cache-control", "of an index", served(check_good_site.INDEX, CacheControl="public")),
    ("entities", "billion laughs", swap(check_good_site.SHARD, "<urlset", ENTITIES)),
    ("entities", "a file of the machine", swap(check_good_site.SHARD, "<urlset", '<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<urlset')),
    ("hostile", "nested", swap(check_good_site.SHARD, HARBOUR_DATE, "<a>" * 40 + "</a>" * 40)),
    ("hostile", "a tag of two megabytes", swap(check_good_site.SHARD, "<loc>", f'<loc a="{"x" * 2_097_152}">')),
]  # fmt: skip

# Planted where files are fetched: test_fetching.py.
FETCHED = {"redirected", "not-served"}
