"""Checks the namespace of each element, and finds the correct one for a misspelt one."""

from stoppress.primitives.xml import XML_NAMESPACE
from stoppress_cli.check.findings import shown
from stoppress_cli.check.input import ReportLine
from stoppress_cli.check.rulebook import EXTENSIONS, NEWS, SITEMAP

# Namespaces that engines support or once supported. Their elements are not checked.
OTHERS = {
    "http://www.google.com/schemas/sitemap-mobile/1.0",
    "http://www.google.com/schemas/sitemap-pagemap/1.0",
    "http://www.w3.org/2001/XMLSchema-instance",
    XML_NAMESPACE,
}
NAMESPACES_MAX = 1_000  # kept in memory for one file
SITEMAP_ROOTS = {"urlset", "sitemapindex"}


class Namespaces:
    """Checks each namespace of a file once (R1.1, R2.1, R3.1, R4.1, R5.1, R8.7)."""

    def __init__(self, report: ReportLine) -> None:
        self._report = report
        self._of_sitemap: bool | None = None  # until the root element is read
        self._corrected: dict[tuple[str | None, str], str | None] = {}

    def correct(self, namespace: str | None, prefix: str, name: str, line: int) -> str | None:
        """Return the correct namespace for that of an element. In feeds and HTML pages, every namespace stays as it is."""
        if self._of_sitemap is None:
            self._of_sitemap = name in SITEMAP_ROOTS
        if not self._of_sitemap:
            return namespace
        key = (namespace, prefix)
        if key not in self._corrected and len(self._corrected) < NAMESPACES_MAX:
            self._corrected[key] = self._check(namespace, prefix, name, line)
        return self._corrected.get(key, namespace)

    def _check(self, namespace: str | None, prefix: str, name: str, line: int) -> str | None:
        if namespace == SITEMAP:
            if prefix:
                self._report("root-prefix", line, f"the protocol's elements have the prefix {shown(prefix)}")
            return SITEMAP
        if namespace == NEWS and prefix != "news":
            self._report("news-prefix", line, f"news has the prefix {shown(prefix)}")
        if namespace in EXTENSIONS or namespace in OTHERS:
            return namespace
        what = f"the prefix {shown(prefix)} is not declared" if namespace is None else f"namespace {shown(namespace)}"
        for correct, extension in EXTENSIONS.items():
            has_word = extension.word in (namespace or "").lower()
            if prefix == extension.prefix or has_word or (name == extension.element and prefix):
                self._report(extension.rule, line, what)
                return correct
        if namespace is None:
            self._report("unbound-prefix", line, what)
            return None
        if name in SITEMAP_ROOTS or namespace == "" or "sitemaps.org" in namespace or "/schemas/sitemap/" in namespace:
            self._report("namespace", line, f"{what} is not the protocol's" if namespace else "there is no namespace")
            return SITEMAP
        self._report("unknown-extension", line, f"{what} of {shown(name)} is unknown to search engines")
        return namespace
