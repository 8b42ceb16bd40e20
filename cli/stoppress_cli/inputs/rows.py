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

from pydantic import TypeAdapter, ValidationError

from stoppress.cms.contract import BadArticle, read_article
from stoppress.cms.listing import marked
from stoppress.cms.mapping import OF_ARTICLES
from stoppress.feeds.events import id_within_limit
from stoppress.model.event import Listed, ListingError, Page, Problem, StaleCheckpoint
from stoppress.model.news_window import is_current
from stoppress.model.site import SITEMAP_SOURCE, Site
from stoppress.model.validation import explain
from stoppress.primitives.text import clean, did_you_mean
from stoppress_cli.check.input import GZIP
from stoppress_cli.inputs.sitemap_pages import BY_IMPORT, collect_pages

LINE_BYTES_MAX = 1_000_000
# A quoted value may have line breaks. More lines than this mean that a quotation mark does not close.
ROW_LINES_MAX = 100
# How many unknown field names are reported.
UNKNOWN_NAMES_MAX = 100
_DELIMITERS = ",;\t"
# The columns of a CSV file, as an example in messages.
COLUMNS = "id, url, title, published_at, updated_at, section, keywords"


# The number of a line from 1, and its text or a problem.
_Line = tuple[int, str | Problem]
# The number of a row's last line, and the row's values, a problem, or None for a blank line.
_Row = tuple[int, dict[str, Any] | Problem | None]
# Where a listing continues: the number of the last line that was read, and the size of the file in bytes.
_CURSOR = TypeAdapter(tuple[int, int])


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
        """Yield the articles from the cursor on, or all. Raises ListingError for a bad cursor, or a file that cannot be read."""
        size_bytes = self.path.stat().st_size
        done = self._read_cursor(cursor, size_bytes) if cursor else 0
        with self._open() as file:
            rows = (
                (values if isinstance(values, Problem) else self._read_values(values, end), (end, size_bytes))
                for end, values in self._values(_read_lines(file))
                if end > done and values is not None
            )
            yield from collect_pages(rows, self._total)
        yield Page(notes=tuple(self._unknown.values()), total=self._total)

    def _open(self) -> BinaryIO:
        try:
            with self.path.open("rb") as file:
                is_gzip = file.read(len(GZIP)) == GZIP
            return cast("BinaryIO", gzip.open(self.path)) if is_gzip else self.path.open("rb")
        except OSError as error:
            raise ListingError(f"{self.path} cannot be read: {error.strerror or error}") from None

    @cached_property
    def _total(self) -> int:
        """Return the number of the file's lines: about how many articles it has."""
        with self._open() as file:
            lines = sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
        return lines if self.is_json else max(0, lines - 1)

    @cached_property
    def _asked_at(self) -> datetime:
        """Return the instant of the listing: the file's last change, so that no event is newer than the file."""
        return min(datetime.now(UTC), datetime.fromtimestamp(self.path.stat().st_mtime, UTC))

    def _read_cursor(self, cursor: str, size_bytes: int) -> int:
        """Return the number of the last line that was read before the cursor. Raises StaleCheckpoint."""
        try:
            done, then_bytes = _CURSOR.validate_json(cursor)
        except ValidationError as error:
            raise StaleCheckpoint(f"the checkpoint is damaged: delete it to start again ({explain(error)})") from None
        if then_bytes != size_bytes:
            raise StaleCheckpoint(f"{self.path} has changed since the checkpoint: delete the checkpoint to start again")
        return done

    def _values(self, lines: Iterator[_Line]) -> Iterator[_Row]:
        if self.is_json:
            yield from ((number, _json_values(line, f"line {number}")) for number, line in lines)
            return
        _, header = next(lines, (1, ""))
        if isinstance(header, Problem):
            raise ListingError(f"{self.path}, {header.place}: {header.reason}")
        delimiter = max(_DELIMITERS, key=header.count)
        yield from _csv_values(lines, self._columns(header, delimiter), delimiter)

    def _columns(self, header: str, delimiter: str) -> list[str]:
        try:
            [row] = list(csv.reader([header], delimiter=delimiter, strict=True)) or [[]]
        except csv.Error as error:
            raise ListingError(f"{self.path}, line 1: {_csv_fault(error)}") from None
        columns = [name.strip().lower() for name in row]
        if repeated := [name for name, number in Counter(filter(None, columns)).items() if number > 1]:
            raise ListingError(f"{self.path}, line 1: two columns are called {repeated[0]!r}: rename or remove one")
        needed = ["id", "url"] if self.source else ["url"]
        if missing := [name for name in needed if name not in columns]:
            raise ListingError(
                f"{self.path}, line 1: no column is called {missing[0]}: begin the file with the names of its columns, such as {COLUMNS}"
            )
        return columns

    def _read_values(self, values: Mapping[str, Any], line: int) -> Listed | Problem:
        place = f"line {line}"
        fields = dict(values) if self.source else {"title": "-", **values, "id": "-"}
        try:
            event, unknown = read_article(
                "article.published", fields, self.site, self.source or SITEMAP_SOURCE, None, self._asked_at
            )
        except BadArticle as error:
            return Problem(place, "; ".join(str(error).splitlines()))
        for name in unknown[: UNKNOWN_NAMES_MAX - len(self._unknown)]:
            reason = f"the field {name!r} is not known and is left out{did_you_mean(name, OF_ARTICLES)}"
            self._unknown.setdefault(name, Problem(place, reason))
        if self.source is None:
            now, date = datetime.now(UTC), event.published_at
            # Within the window, the date could put an article of the CMS that takes over the page into the news.
            date = None if date and date <= now and is_current(date, now) else date
            title = clean(str(values.get("title") or ""))
            event = replace(
                event, id=id_within_limit(event.url or ""), title=title, published_at=date, news=False, version=None
            )
        return Listed(place, marked(replace(event, timestamp=event.updated_at), self._asked_at, BY_IMPORT))


def _read_lines(file: BinaryIO) -> Iterator[_Line]:
    """Yield the lines of a file. A line that is too long or is not UTF-8 is a problem."""
    for number, raw in enumerate(iter(lambda: file.readline(LINE_BYTES_MAX), b""), 1):
        fault, end = "", raw
        while not end.endswith(b"\n") and (end := file.readline(LINE_BYTES_MAX)):
            fault = f"is longer than {LINE_BYTES_MAX:,} bytes"
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            fault = fault or "is not UTF-8: save the file as UTF-8"
        yield number, Problem(f"line {number}", fault) if fault else text


def _json_values(line: str | Problem, place: str) -> dict[str, Any] | Problem | None:
    if isinstance(line, Problem):
        return line
    if not line.strip():
        return None
    try:
        values = json.loads(line, object_pairs_hook=_without_repeats)
    except (json.JSONDecodeError, RecursionError) as error:
        return Problem(place, f"is not JSON: {error}")
    except ValueError as error:
        return Problem(place, str(error))
    return (
        values if isinstance(values, dict) else Problem(place, 'is not a JSON object such as {"id": "1042", "url": …}')
    )


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these keys and values. Raises ValueError for a repeated key: one value would be lost."""
    values = dict(pairs)
    if len(values) < len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"has the key {key!r} more than once: keep one of them")
    return values


def _csv_values(lines: Iterator[_Line], columns: list[str], delimiter: str) -> Iterator[_Row]:
    ahead: list[_Line] = []  # lines that were read after the last row
    while ahead or (ahead := list(islice(lines, 1))):
        row, used, fault = _read_row(ahead, lines, delimiter)
        if row and len(row) != len(columns):
            hint = f"put a value with {delimiter!r} in it between quotation marks"
            amount, hint = ("many", hint) if len(row) > len(columns) else ("few", "leave empty ones empty")
            fault = f"has too {amount} values, {len(row)} for {len(columns)} columns: {hint}"
        # Where no row can be read, the next line is tried as the beginning of a row.
        used = used if row else 1
        (first, _), (last, _), ahead = ahead[0], ahead[used - 1], ahead[used:]
        values = {name: _read_cell(value) for name, value in zip(columns, row, strict=False) if value.strip()}
        yield last, Problem(f"line {first}", fault) if fault else values if row else None


def _read_row(ahead: list[_Line], lines: Iterator[_Line], delimiter: str) -> tuple[list[str], int, str]:
    """Read the row that begins in `ahead[0]`, and add its further lines to `ahead`. Return its values, its number of lines, and a fault."""
    if isinstance(first := ahead[0][1], Problem):
        return [], 1, first.reason

    def text() -> Iterator[str]:
        for number in range(ROW_LINES_MAX):
            ahead.extend(islice(lines, 0 if number < len(ahead) else 1))
            if number == len(ahead) or isinstance(line := ahead[number][1], Problem):
                return
            yield line

    reader = csv.reader(text(), delimiter=delimiter, strict=True)
    try:
        return next(reader, []), reader.line_num, ""
    except csv.Error as error:
        return [], reader.line_num, _csv_fault(error)


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
