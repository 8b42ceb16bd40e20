"""The rules of `stoppress check`, each with its source, and the namespaces and limits that they are about.

An id such as R1.4 names a rule in docs/reference/check-rules.md. Several named checks may belong to one id.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

# The checker has its own namespaces and limits, because it also judges Stoppress's files.
SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
NEWS = "http://www.google.com/schemas/sitemap-news/0.9"
IMAGE = "http://www.google.com/schemas/sitemap-image/1.1"
VIDEO = "http://www.google.com/schemas/sitemap-video/1.1"
XHTML = "http://www.w3.org/1999/xhtml"
ATOM = "http://www.w3.org/2005/Atom"

URLS_MAX = 50_000  # R1.10; sitemaps of an index: R1.11
BYTES_MAX = 52_428_800  # R1.10
LOC_CHARACTERS_MAX = 2_047  # R1.4: fewer than 2,048
NEWS_ENTRIES_MAX = 1_000  # R2.4
NEWS_HOURS = 48  # R2.5
NEWS_WINDOW = timedelta(hours=NEWS_HOURS)
IMAGES_MAX = 1_000  # R3.1, of a page

VIDEO_TITLE_MAX = 100  # characters
VIDEO_DESCRIPTION_MAX = 2_048  # characters, R4.1
VIDEO_DURATION_S_MAX = 28_800  # R4.2, as the next four
VIDEO_RATING_MAX = 5
VIDEO_UPLOADER_MAX = 255  # characters
VIDEO_TAGS_MAX = 32
VIDEO_PLATFORMS = {"web", "mobile", "tv"}
FRESH_AGE_SECONDS_MAX = 300  # R9.3: caches must not keep articles that expire

Severity = Literal["error", "warning"]

_PROTOCOL = "sitemaps.org/protocol.html"
_FAQ = "sitemaps.org/faq.html"
_XSD = "sitemap.xsd, siteindex.xsd"
_XML = "XML 1.0"
_DATES = "W3C NOTE-datetime, sitemap.xsd"
_NEWS = "Google, News sitemaps"
_NEWS_XSD = "sitemap-news.xsd"
_IMAGE = "Google, Image sitemaps"
_VIDEO = "Google, Video sitemaps"
_RETIRED = "Google Search Central blog, May 2022"
_LOCALIZED = "Google, Localized versions"
_LARGE = "Google, Large sitemaps"
_BUILD = "Google, Build a sitemap"
_ROBOTS = "sitemaps.org/protocol.html, RFC 9309"
_HTTP = "RFC 9110"
_PRACTICE = "engineering"


@dataclass(frozen=True, slots=True)
class Rule:
    """A named check. A file with an error breaks the protocol, a schema or an engine's documentation. A warning is advice, or breaks what no reader minds."""

    name: str
    id: str
    severity: Severity
    text: str
    source: str


def _table(*rows: tuple[str, str, Severity, str, str]) -> dict[str, Rule]:
    rules = {row[1]: Rule(row[1], row[0], *row[2:]) for row in rows}
    assert len(rules) == len(rows)
    return rules


RULES = _table(
    ("R1.1", "not-utf-8", "error", "A sitemap is UTF-8", _PROTOCOL),
    ("R1.1", "declared-encoding", "error", "A sitemap declares UTF-8", _PROTOCOL),
    ("R1.1", "namespace", "error", "The namespace is exactly the protocol's", _PROTOCOL),
    ("R1.1", "root-element", "error", "The root element is urlset or sitemapindex", _PROTOCOL),
    ("R1.1", "root-prefix", "warning", "The protocol's elements have no prefix", _PROTOCOL),
    ("R1.1", "unbound-prefix", "error", "A prefix is declared before it is used", _XML),
    ("R1.2", "not-well-formed", "error", "A sitemap is well-formed XML, and every value is escaped", _PROTOCOL),
    ("R1.2", "unescaped", "warning", "Quotation marks, apostrophes and > in a URL are escaped", _PROTOCOL),
    ("R1.2", "escaped-twice", "error", "A value is escaped once", _PROTOCOL),
    ("R1.3", "cdata", "warning", "Values are escaped, not put into CDATA sections", "reports of readers that drop CDATA"),
    ("R1.4", "loc-empty", "error", "Every entry names its URL", _PROTOCOL),
    ("R1.4", "loc-not-absolute", "error", "A URL is absolute, http or https", _PROTOCOL),
    ("R1.4", "loc-too-long", "error", "A URL has fewer than 2,048 characters", _PROTOCOL),
    ("R1.4", "loc-white-space", "warning", "A URL has no white space around it", "reports of readers that keep it"),
    ("R1.5", "loc-characters", "error", "A URL has only characters that RFC 3986 allows; others are percent-encoded", _FAQ),
    ("R1.5", "loc-host", "error", "A URL's host is a host name, in punycode if it is not ASCII", "RFC 3986, RFC 5890"),
    ("R1.6", "loc-fragment", "warning", "A URL has no fragment", _BUILD),
    ("R1.6", "loc-user-information", "error", "A URL has no user name or password", _BUILD),
    ("R1.6", "loc-session", "warning", "A URL has no session id", _FAQ),
    ("R1.6", "loc-tracking", "warning", "A URL has no tracking parameters", _BUILD),
    ("R1.7", "other-host", "error", "All URLs of a sitemap have the sitemap's host and port", _PROTOCOL),
    ("R1.7", "other-protocol", "error", "All URLs of a sitemap have the sitemap's protocol", _PROTOCOL),
    ("R1.7", "default-port", "warning", "A URL does not contain the default port", _PROTOCOL),
    ("R1.8", "out-of-scope", "error", "A sitemap lists only URLs below its own directory", _PROTOCOL),
    ("R1.9", "storage-host", "error", "A sitemap lists the site's URLs, not those of its storage", _PROTOCOL),
    ("R1.10", "too-many-urls", "error", "A sitemap lists at most 50,000 URLs", _PROTOCOL),
    ("R1.10", "too-large", "error", "A sitemap has at most 52,428,800 bytes uncompressed", _PROTOCOL),
    ("R1.11", "child-count", "error", "An entry has exactly one loc, and at most one of each other element", _XSD),
    ("R1.11", "child-order", "warning", "A url has loc, lastmod, changefreq, priority, then extensions: readers accept any order, the XSD only this one", _XSD),
    ("R1.11", "unknown-child", "error", "A sitemap has only elements that the schemas define", _XSD),
    ("R1.11", "stray-text", "error", "Only elements with a value, such as loc and lastmod, contain text", _XSD),
    ("R1.11", "attribute", "error", "Elements have only attributes that the schemas define", _XSD),
    ("R1.11", "too-many-sitemaps", "error", "An index lists at most 50,000 sitemaps", _PROTOCOL),
    ("R1.13", "changefreq-value", "error", "changefreq is one of the seven words of the protocol", _XSD),
    ("R1.13", "priority-value", "error", "priority is a number from 0.0 to 1.0", _XSD),
    ("R1.14", "text-line", "error", "A text sitemap has one URL a line and nothing else", _PROTOCOL),
    ("R1.14", "feed-version", "warning", "A feed used as a sitemap is RSS 2.0 or Atom 1.0", _BUILD),
    ("R1.14", "feed-link", "error", "Every entry of a feed has a link", _PROTOCOL),
    ("R1.15", "gzip-damaged", "error", "A compressed sitemap is complete", _FAQ),
    ("R1.15", "gzip-trailing", "warning", "Nothing follows the gzip stream", "reports of readers that fail on it"),
    ("R1.15", "zip", "error", "Sitemaps are compressed only with gzip", _FAQ),
    ("R1.15", "forms-differ", "warning", "The gzip and the text of a sitemap have the content of its XML", _PRACTICE),
    ("R1.16", "byte-order-mark", "warning", "A sitemap starts with no byte order mark", "reports of readers that fail on it"),
    ("R1.16", "leading-bytes", "error", "Nothing comes before the XML declaration", _XML),
    ("R1.16", "no-declaration", "warning", "A sitemap starts with an XML declaration", _XML),
    ("R1.16", "document-type", "error", "A sitemap has no document type", "readers refuse it"),
    ("R1.16", "control-character", "error", "Texts have no control characters", _XML),
    ("R1.17", "date-form", "error", "A date is YYYY-MM-DD or a time with seconds and zone", _DATES),
    ("R1.17", "date-precision", "warning", "A date has a form that both the W3C note and the XML schema accept", _DATES),
    ("R1.17", "date-white-space", "warning", "A date has no white space around it", _DATES),
    ("R1.17", "date-future", "error", "lastmod is not in the future", _PROTOCOL),
    ("R2.1", "news-namespace", "error", "The namespace of news tags is exactly Google's", _NEWS),
    ("R2.1", "news-prefix", "warning", "News tags have the prefix news", _NEWS),
    ("R2.2", "news-child-count", "error", "A news entry has exactly one name, language, publication_date and title", _NEWS),
    ("R2.2", "news-twice", "error", "A URL has only one news:news", _NEWS),
    ("R2.2", "news-mixed", "warning", "A news sitemap lists articles only", _NEWS),
    ("R2.3", "news-order", "warning", "news:news has publication, publication_date, title in this order, and comes after lastmod", _NEWS_XSD),
    ("R2.4", "too-many-news", "error", "A news sitemap has at most 1,000 articles", _NEWS),
    ("R2.4", "news-duplicate", "error", "An article is in one news sitemap only, and only once", _NEWS),
    ("R2.5", "out-of-window", "error", "An article in a news sitemap was published in the last two days", _NEWS),
    ("R2.6", "news-only", "warning", "An article in a news sitemap is also in a general sitemap", _NEWS),
    ("R2.8", "empty", "error", "A sitemap lists at least one URL", _XSD),
    ("R2.9", "news-name", "error", "news:name is the publication's name without anything in parentheses", _NEWS),
    ("R2.10", "news-language", "error", "news:language is an ISO 639 code in small letters, zh-cn or zh-tw", _NEWS),
    ("R2.11", "published-form", "error", "publication_date is a date, or a time with zone", _NEWS),
    ("R2.11", "published-precision", "warning", "publication_date has seconds and zone", _NEWS),
    ("R2.11", "published-future", "error", "publication_date is not in the future", _NEWS),
    ("R2.12", "title-empty", "error", "An article has a title", _NEWS),
    ("R2.12", "title-markup", "error", "A title is plain text", _NEWS),
    ("R2.12", "title-white-space", "warning", "A title has single spaces between words, and no white space around it", _NEWS),
    ("R2.12", "title-with-name", "warning", "A title does not contain the publication's name", _NEWS),
    ("R2.13", "news-dead-tag", "warning", "A news entry has no tag that Google no longer documents", _NEWS),
    ("R2.13", "news-unknown-tag", "error", "news:news has only tags that exist", _NEWS_XSD),
    ("R2.16", "news-home", "error", "The home page has no news tags, because it is not an article", _NEWS),
    ("R3.1", "image-namespace", "error", "The namespace of image tags is exactly Google's", _IMAGE),
    ("R3.1", "image-loc", "error", "An image has one absolute URL", _IMAGE),
    ("R3.1", "image-unknown-tag", "error", "image:image has only tags that exist", _IMAGE),
    ("R3.1", "too-many-images", "error", "A page has at most 1,000 images", _IMAGE),
    ("R3.2", "image-dead-tag", "warning", "An image has no tag that Google retired in 2022", _RETIRED),
    ("R4.1", "video-namespace", "error", "The namespace of video tags is exactly Google's", _VIDEO),
    ("R4.1", "video-required", "error", "A video has a thumbnail, a title, a description, and a content or player URL", _VIDEO),
    ("R4.1", "video-url", "error", "A video's URLs are absolute, and not the page's own", _VIDEO),
    ("R4.1", "video-description", "error", "A description has at most 2,048 characters", _VIDEO),
    ("R4.1", "video-title", "warning", "A title has at most 100 characters", "sitemap-video.xsd"),
    ("R4.2", "video-value", "error", "The optional tags of a video have documented values", _VIDEO),
    ("R4.2", "video-child-count", "error", "A video has each tag at most once, but video:tag up to 32 times", _VIDEO),
    ("R4.2", "video-unknown-tag", "error", "video:video has only tags that exist", _VIDEO),
    ("R4.3", "video-dead-tag", "warning", "A video has no tag or attribute that Google retired in 2022", _RETIRED),
    ("R5.1", "alternate-namespace", "error", "Alternates are xhtml:link elements in the XHTML namespace", _LOCALIZED),
    ("R5.1", "alternate-attributes", "error", "An alternate has rel, hreflang and an absolute href", _LOCALIZED),
    ("R5.1", "alternate-twice", "error", "A page has one alternate for each hreflang", _LOCALIZED),
    ("R5.1", "alternate-without-self", "error", "A page's alternates include itself", _LOCALIZED),
    ("R5.1", "alternate-not-mutual", "error", "Alternates point to each other", _LOCALIZED),
    ("R5.2", "hreflang", "error", "hreflang is x-default, or a language with optional script and territory", _LOCALIZED),
    ("R6.1", "index-scope", "error", "An index lists sitemaps of its own site, in or below its directory", _LARGE),
    ("R6.3", "nested-index", "error", "An index lists no index", _LARGE),
    ("R6.4", "index-outdated", "error", "lastmod in an index is not older than the newest lastmod in the sitemap", _PROTOCOL),
    ("R6.4", "generation-time", "warning", "A sitemap does not contain the time it was generated: equal content gives equal bytes", _PRACTICE),
    ("R6.5", "child-missing", "error", "Every sitemap that an index or robots.txt names exists", _PRACTICE),
    ("R6.5", "not-in-index", "warning", "Every sitemap is in the index", _PRACTICE),
    ("R6.6", "duplicate", "warning", "A URL is in one general sitemap only, and only once", _PRACTICE),
    ("R8.2", "robots-value", "error", "The Sitemap lines of robots.txt have absolute URLs", _ROBOTS),
    ("R8.2", "robots-disallowed", "error", "robots.txt does not forbid the sitemaps it names", _ROBOTS),
    ("R8.2", "robots-unknown", "warning", "Every line of robots.txt is a field that crawlers know", _ROBOTS),
    ("R8.2", "crawler-shut-out", "warning", "robots.txt excludes no search engine from the whole site", _ROBOTS),
    ("R8.2", "group-drops-rules", "warning", "A group of robots.txt repeats the rules for all crawlers that it does not mean to drop", "RFC 9309, 2.2.1"),
    ("R8.2", "no-entry", "warning", "There is a sitemap.xml at the root, or robots.txt names another sitemap", _PRACTICE),
    ("R8.7", "unknown-extension", "warning", "A sitemap has only extensions that search engines know", "Yandex, errors in sitemaps"),
    ("R8.7", "news-in-general", "warning", "A general sitemap has no news tags", "Yandex, errors in sitemaps"),
    ("R9.1", "content-type", "error", "A sitemap is served with the Content-Type of its format", _HTTP),
    ("R9.2", "compressed-name", "error", "A compressed file has a name that ends in .gz, and a plain file does not", "reports of readers that fail"),
    ("R9.2", "content-encoding", "error", "A stored sitemap has no Content-Encoding", "reports of readers that fail"),
    ("R9.3", "cache-control", "warning", "News sitemaps and indexes are cached for at most five minutes", _PRACTICE),
    ("R9.5", "redirected", "warning", "A sitemap answers at its own URL, without a redirect", _PRACTICE),
    ("R9.5", "not-served", "error", "Every sitemap that an index lists answers 200", _PRACTICE),
    ("R11.1", "entities", "error", "A sitemap declares no entities; check stops reading at such a declaration", "XML readers' advisories"),
    ("R11.1", "hostile", "error", "Elements are not nested extremely deeply, and tags are not extremely long", "XML readers' advisories"),
)  # fmt: skip
