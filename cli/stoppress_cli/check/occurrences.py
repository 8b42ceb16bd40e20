"""The URLs and the alternates of all files, kept in little memory, to be compared when every file has been read.

A URL takes 32 bytes, whatever its length: 50,000 URLs take 1.6 MB. An alternate takes 40 bytes.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator

BUCKETS = 256
_WORD = (1 << 64) - 1
# Alternates: a million pages in five languages. With more, the check does not test whether alternates are mutual.
PAIRS_MAX = 5_000_000


class Register:
    """Rows of numbers, of which the first is a hash, in buckets that are read one at a time to save memory."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._buckets: defaultdict[int, array[int]] = defaultdict(lambda: array("Q"))

    def add(self, *row: int) -> None:
        """Add a row."""
        self._buckets[row[0] % BUCKETS].extend(row)

    @property
    def buckets(self) -> set[int]:
        """The buckets that have rows."""
        return set(self._buckets)

    def rows(self, bucket: int) -> Iterator[tuple[int, ...]]:
        """Return the rows of a bucket in the order in which they were added."""
        numbers = iter(self._buckets.get(bucket, ()))
        return zip(*[numbers] * self._columns, strict=True)


class Occurrences:
    """The URLs of pages and articles, and the alternates, of all files."""

    def __init__(self) -> None:
        # Hash, file, line, and number among the URLs of the file, because a file may be a single line.
        self.pages, self.articles = Register(4), Register(4)
        # Hash of both pages, the same in both directions; file, line, hash of the page; 1 if both pages share a host.
        self.pairs = Register(5)
        self.pair_count = 0

    def add_url(self, loc: str, file: int, line: int, number: int, *, is_news: bool) -> None:
        """Add a page, or an article, that a file lists."""
        (self.articles if is_news else self.pages).add(_hash(loc), file, line, number)

    def add_alternate(self, loc: str, href: str, file: int, line: int, *, is_near: bool) -> None:
        """Add an alternate of a page other than the page itself."""
        self.pair_count += 1
        if self.pair_count <= PAIRS_MAX:
            source = _hash(loc)
            self.pairs.add(source ^ _hash(href), file, line, source, is_near)


def _hash(text: str) -> int:
    # Python's hash has a random key in each process, so that nobody can construct URLs that collide.
    return hash(text) & _WORD
