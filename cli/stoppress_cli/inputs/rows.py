"""The rows of a CSV file or the lines of a JSON Lines file as a listing. The field names are those of the webhook's `data`.

The file is never in memory as a whole. A row that cannot be read becomes a problem; the others are listed.
"""

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from stoppress.cms.contract import BadArticle, read_article
from stoppress.cms.listing import marked
from stoppress.feeds.events import id_within_limit
from stoppress.model.event import Listed, ListingError, Page, Problem, StaleCheckpoint
from stoppress.model.news_window import is_current
from stoppress.model.site import SITEMAP_SOURCE, Site
from stoppress.primitives.text import clean
from stoppress_cli.check.input import GZIP
from stoppress_cli.inputs.sitemap_pages import BY_IMPORT, PAGE_ITEMS

LINE_BYTES_MAX = 1_000_000
# A quoted value may have line breaks. More lines than this mean that a quotation mark does not close.
ROW_LINES_MAX = 100
# How many unknown field names are reported.
UNKNOWN_NAMES_MAX = 100
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_DELIMITERS = ",;\t"
# The columns of a CSV file, as an example in messages.
COLUMNS = "id, url, title, published_at, updated_at, section, keywords"


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the file: its number from 1, the byte at which the next line begins, and its text or a fault."""

    number: int
    end: int
    text: str = ""
    fault: str = ""


# Where a row ends, its last line, and its values, a problem, or None for a blank line.
_Row = tuple[int, int, dict[str, Any] | Problem | None]


@dataclass
class Rows:
    """The articles in a file. `source` is the site's source to which they belong.

    If it is None, the rows are pages like those of a sitemap: the URL is the id, and the page gets no news entry. A row with a
    publication date in the future is an embargo in both cases, and keeps its date.
    """

    path: Path
    site: Site
    source: str | None
    is_json: bool
    _unknown: dict[str, Problem] = field(default_factory=dict)

    def pages(self, cursor: str | None = None) -> Iterator[Page]:
        """The articles from the cursor on, or all. Raises ListingError for a bad cursor, or a file that cannot be read."""
        with self._opened() as file:
            at = self._start(file, cursor)
            items: list[Listed] = []
            problems: list[Problem] = []
            for end, number, values in self._values(file, at):
                taken = self._taken(values, f"line {number}") if isinstance(values, dict) else values
                if isinstance(taken, Listed):
                    items.append(taken)
                elif taken:
                    problems.append(taken)
                if len(items) + len(problems) >= PAGE_ITEMS:
                    yield Page(tuple(items), tuple(problems), cursor=self._cursor(end, number), total=self._total)
                    items.clear()
                    problems.clear()
            yield Page(tuple(items), tuple(problems), notes=tuple(self._unknown.values()), total=self._total)

    def _note_unknown(self, names: list[str], place: str) -> None:
        """Notes each unknown field name once, with its first place."""
        for name in names:
            if name not in self._unknown and len(self._unknown) < UNKNOWN_NAMES_MAX:
                self._unknown[name] = Problem(place, f"the field {name!r} is not known and is left out")

    def _opened(self) -> BinaryIO:
        try:
            file = self.path.open("rb")
            if file.read(2) == GZIP:
                file.close()
                return cast("BinaryIO", gzip.open(self.path))
            file.seek(0)
        except OSError as error:
            raise ListingError(f"{self.path} cannot be read: {error.strerror or error}") from None
        return file

    @cached_property
    def _total(self) -> int:
        """The number of the file's lines: about how many articles it has."""
        with self._opened() as file:
            lines = sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
        return lines if self.is_json else max(0, lines - 1)

    @cached_property
    def _asked_at(self) -> datetime:
        """The instant of the listing: the file's last change, so that no event is newer than the file."""
        return min(datetime.now(UTC), datetime.fromtimestamp(self.path.stat().st_mtime, UTC))

    def _cursor(self, offset: int, line: int) -> str:
        return json.dumps({"offset": offset, "line": line, "bytes": self.path.stat().st_size})

    def _start(self, file: BinaryIO, cursor: str | None) -> _Line:
        start = file.read(3)
        if start.startswith(_WIDE_MARKS):
            raise ListingError(f"{self.path} is UTF-16: save it as UTF-8")
        beginning = (start + file.read(LINE_BYTES_MAX)).strip()
        if b"\r" in beginning and b"\n" not in beginning:
            raise ListingError(
                f"{self.path} ends its lines with carriage returns (CR) alone: save it with line feeds (LF)"
            )
        file.seek(len(_BYTE_ORDER_MARK) if start == _BYTE_ORDER_MARK else 0)
        if cursor is None:
            return _Line(0, file.tell())
        try:
            at = json.loads(cursor)
            before = _Line(int(at["line"]), int(at["offset"]))
        except (ValueError, TypeError, KeyError) as error:
            raise StaleCheckpoint(f"the checkpoint is damaged: delete it to start again ({error!r})") from None
        if at.get("bytes") != self.path.stat().st_size:
            raise StaleCheckpoint(f"{self.path} has changed since the checkpoint: delete the checkpoint to start again")
        return before

    def _values(self, file: BinaryIO, at: _Line) -> Iterator[_Row]:
        if self.is_json:
            file.seek(at.end)
            for line in _read_lines(file, at):
                yield line.end, line.number, _json_values(line)
            return
        header_lines = _read_lines(file, _Line(0, file.tell()))
        header = next(header_lines, _Line(1, file.tell()))
        delimiter = max(_DELIMITERS, key=header.text.count)
        columns = self._columns(header, delimiter)
        if at.number == 0:
            at = header
        file.seek(at.end)
        yield from _csv_values(_read_lines(file, at), columns, delimiter)

    def _columns(self, header: _Line, delimiter: str) -> list[str]:
        try:
            [row] = list(csv.reader([header.text], delimiter=delimiter, strict=True)) or [[]]
        except csv.Error as error:
            raise ListingError(f"{self.path}, line 1: {header.fault or _csv_fault(error)}") from None
        columns = [name.strip().lower() for name in row]
        if repeated := [name for name, number in Counter(filter(None, columns)).items() if number > 1]:
            raise ListingError(f"{self.path}, line 1: two columns are called {repeated[0]!r}: rename or remove one")
        needed = ["id", "url"] if self.source else ["url"]
        if missing := [name for name in needed if name not in columns]:
            raise ListingError(
                f"{self.path}, line 1: {header.fault or f'no column is called {missing[0]}'}: begin the file with the names of its"
                f" columns, such as {COLUMNS}"
            )
        return columns

    def _taken(self, values: Mapping[str, Any], place: str) -> Listed | Problem:
        given = dict(values) if self.source else {"title": "-", **values, "id": "-"}
        try:
            event, unknown = read_article(
                "article.published", given, self.site, self.source or SITEMAP_SOURCE, None, self._asked_at
            )
        except BadArticle as error:
            return Problem(place, "; ".join(str(error).splitlines()))
        self._note_unknown(unknown, place)
        if self.source is None:
            now, date = datetime.now(UTC), event.published_at
            # Within the window, the date could bring an article of the CMS that takes the page over into the news.
            date = None if date and date <= now and is_current(date, now) else date
            title = clean(str(values.get("title") or ""))
            event = replace(
                event, id=id_within_limit(event.url or ""), title=title, published_at=date, news=False, version=None
            )
        return Listed(place, marked(replace(event, timestamp=event.updated_at), self._asked_at, BY_IMPORT))


def _read_lines(file: BinaryIO, at: _Line) -> Iterator[_Line]:
    """The lines after `at`. A line that is too long or is not UTF-8 has a fault instead of a text."""
    number, end = at.number, at.end
    while raw := file.readline(LINE_BYTES_MAX):
        number += 1
        end += len(raw)
        fault = ""
        while not raw.endswith(b"\n") and (more := file.readline(LINE_BYTES_MAX)):
            fault, raw = f"is longer than {LINE_BYTES_MAX:,} bytes", more
            end += len(more)
        try:
            text = "" if fault else raw.decode()
        except UnicodeDecodeError:
            text, fault = "", "is not UTF-8: save the file as UTF-8"
        yield _Line(number, end, text, fault)


def _json_values(line: _Line) -> dict[str, Any] | Problem | None:
    place = f"line {line.number}"
    if line.fault:
        return Problem(place, line.fault)
    if not line.text.strip():
        return None
    try:
        values = json.loads(line.text, object_pairs_hook=_without_repeats)
    except (json.JSONDecodeError, RecursionError) as error:
        return Problem(place, f"is not JSON: {error}")
    except ValueError as error:
        return Problem(place, str(error))
    return (
        values if isinstance(values, dict) else Problem(place, 'is not a JSON object such as {"id": "1042", "url": …}')
    )


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these keys and values. Raises ValueError for a key that is there twice: one value would be lost."""
    values = dict(pairs)
    if len(values) < len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"has the key {key!r} more than once: keep one of them")
    return values


def _csv_values(lines: Iterator[_Line], columns: list[str], delimiter: str) -> Iterator[_Row]:
    ahead: list[_Line] = []  # what was read beyond the last row
    used = 0

    def text() -> Iterator[str]:
        nonlocal used
        used = 0
        while used < ROW_LINES_MAX:
            ahead.extend(islice(lines, 0 if used < len(ahead) else 1))
            if used == len(ahead) or ahead[used].fault:
                return
            used += 1
            yield ahead[used - 1].text

    while True:
        ahead.extend(islice(lines, 0 if ahead else 1))
        if not ahead:
            return
        first, row, fault = ahead[0], [], ahead[0].fault
        try:
            row = next(csv.reader(text(), delimiter=delimiter, strict=True), [])
        except csv.Error as error:
            fault = _csv_fault(error)
        if row and len(row) != len(columns):
            hint = f"put a value with {delimiter!r} in it between quotation marks"
            amount, hint = ("many", hint) if len(row) > len(columns) else ("few", "leave empty ones empty")
            fault = f"has too {amount} values, {len(row)} for {len(columns)} columns: {hint}"
        # After a fault, the next line is tried as the beginning of a row.
        count = used if row and not fault else 1
        last = ahead[count - 1]
        del ahead[:count]
        values = {name: _read_cell(value) for name, value in zip(columns, row, strict=False) if value.strip()}
        yield last.end, last.number, Problem(f"line {first.number}", fault) if fault else values if row else None


def _csv_fault(error: csv.Error) -> str:
    """Return the reason why the csv module cannot read a row. Its own texts are for programmers."""
    if "new-line" in str(error):
        return "has a carriage return (CR) in it: end lines with a line feed (LF)"
    if "field limit" in str(error):
        return f"has a value of more than {csv.field_size_limit():,} characters"
    return "a quotation mark does not close, or text follows it"


def _read_cell(value: str) -> object:
    """Return a value of a CSV file. A list or an object is read as JSON; text that is not valid JSON stays as it is."""
    if value.lstrip().startswith(("[", "{")):
        try:
            return cast("object", json.loads(value))
        except (ValueError, RecursionError):
            return value
    return value
