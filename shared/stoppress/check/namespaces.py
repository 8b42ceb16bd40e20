"""Namespaces that sitemaps use, and which one is meant where another stands."""

from stoppress.check.findings import shown
from stoppress.check.input import TellLine
from stoppress.primitives.xml import XML_NAMESPACE

SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
NEWS = "http://www.google.com/schemas/sitemap-news/0.9"
IMAGE = "http://www.google.com/schemas/sitemap-image/1.1"
VIDEO = "http://www.google.com/schemas/sitemap-video/1.1"
XHTML = "http://www.w3.org/1999/xhtml"
# Known to engines once or still, and not looked into.
OTHERS = {
    "http://www.google.com/schemas/sitemap-mobile/1.0",
    "http://www.google.com/schemas/sitemap-pagemap/1.0",
    "http://www.w3.org/2001/XMLSchema-instance",
    XML_NAMESPACE,
}
# Where an extension's elements stand.
EXTENSIONS = {
    NEWS: "put it into news:news",
    IMAGE: "put it into image:image",
    VIDEO: "put it into video:video",
    XHTML: "only xhtml:link is known here",
}
# The attributes that elements of these namespaces may have; in others they are not looked at.
ATTRIBUTES: dict[str, dict[str, set[str]]] = {
    SITEMAP: {},
    NEWS: {},
    IMAGE: {},
    VIDEO: {
        "player_loc": {"allow_embed", "autoplay"},
        "restriction": {"relationship"},
        "platform": {"relationship"},
        "uploader": {"info"},
        "content_segment_loc": {"duration"},
        "gallery_loc": {"title"},
        "price": {"currency", "type", "resolution"},
        "id": {"type"},
    },
}
# What a namespace is recognised by where it is not exact: prefix or element, words of the namespace, and its rule.
_MEANT = (
    (NEWS, "news", "news", "sitemap-news", "news-namespace"),
    (IMAGE, "image", "image", "sitemap-image", "image-namespace"),
    (VIDEO, "video", "video", "sitemap-video", "video-namespace"),
    (XHTML, "xhtml", "link", "xhtml", "alternate-namespace"),
)
NAMESPACES_MAX = 1_000  # remembered of one file
_ROOTS = {"urlset", "sitemapindex"}


class Namespaces:
    """Judges each namespace of a file once (R1.1, R2.1, R3.1, R4.1, R5.1, R8.7) and says which is meant."""

    def __init__(self, tell: TellLine) -> None:
        self._tell = tell
        self._of_sitemap: bool | None = None  # known from the root element on
        self._judged: dict[tuple[str | None, str], str | None] = {}

    def meant(self, namespace: str | None, prefix: str, name: str, line: int) -> str | None:
        """The namespace that is meant. In feeds and pages each is what it is."""
        if self._of_sitemap is None:
            self._of_sitemap = name in _ROOTS
        if not self._of_sitemap:
            return namespace
        key = (namespace, prefix)
        if key not in self._judged:
            meant = self._judge(namespace, prefix, name, line)
            if len(self._judged) >= NAMESPACES_MAX:
                return meant
            self._judged[key] = meant
        return self._judged[key]

    def _judge(self, namespace: str | None, prefix: str, name: str, line: int) -> str | None:
        if namespace == SITEMAP:
            if prefix:
                self._tell(
                    "root-prefix", line, f"the protocol's elements have the prefix {shown(prefix)}: leave it out"
                )
            return SITEMAP
        if namespace == NEWS and prefix != "news":
            self._tell(
                "news-prefix", line, f"news has the prefix {shown(prefix)}: write news, which every reader knows"
            )
        if namespace in EXTENSIONS or namespace in OTHERS:
            return namespace
        return self._guess(namespace, prefix, name, line)

    def _guess(self, namespace: str | None, prefix: str, name: str, line: int) -> str | None:
        found = f"the prefix {shown(prefix)} is not declared" if namespace is None else f"namespace {shown(namespace)}"
        for meant, usual, element, words, rule in _MEANT:
            if prefix == usual or words in (namespace or "").lower() or (name == element and prefix):
                self._tell(rule, line, f'{found}: write xmlns:{usual}="{meant}"')
                return meant
        if namespace is None:
            self._tell("unbound-prefix", line, f"{found}: declare it in the root element")
            return None
        if name in _ROOTS or namespace == "" or "sitemaps.org" in namespace or "/schemas/sitemap/" in namespace:
            self._tell("namespace", line, f'{found if namespace else "no namespace"}: write xmlns="{SITEMAP}"')
            return SITEMAP
        self._tell(
            "unknown-extension", line, f"{found} of {shown(name)} is none that search engines know: leave it out"
        )
        return namespace
