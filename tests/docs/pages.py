"""The pages of the documentation, with their code, tables, headings and links."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md"] + sorted(DOCS.rglob("*.md"))


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def fenced(text: str) -> list[tuple[str, str]]:
    """Return the language and the code of each fenced block, without its indentation in a list."""
    matches = re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [(language, re.sub(f"^{indent}", "", code, flags=re.MULTILINE)) for indent, language, code in matches]


def blocks(text: str, *languages: str) -> list[str]:
    return [code for language, code in fenced(text) if language in languages]


def table_rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the Markdown table whose first line begins with `heading`."""
    _, table, rest = text.partition(f"\n{heading}")
    assert table, f"there is no table {heading}"
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<=\s)\|(?=\s)", line.strip("|"))] for line in lines]


def prose(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchor(heading: str) -> str:
    """Return the anchor by which GitHub links to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)}


def section(page: str, name: str) -> str:
    """Return the text from the heading with this anchor to the next one. Raise AssertionError if there is none."""
    lines: list[str] = []
    is_inside = is_code = False
    for line in text_of(page).splitlines():
        is_code ^= line.lstrip().startswith("```")
        if line.startswith("#") and not is_code:
            if is_inside:
                break
            is_inside = anchor(line.lstrip("# ")) == name
        elif is_inside:
            lines.append(line)
    assert is_inside, f"{page} has no section #{name}"
    return "\n".join(lines) + "\n"


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "``", prose(text)))


def commands(program: str) -> list[tuple[str, str, bool]]:
    """Return page, arguments and whether it is in a sentence, for each command line of a program in the pages."""

    def lines_of(text: str) -> Iterator[tuple[str, bool]]:
        for line in "\n".join(blocks(text, "sh", "console")).replace("\\\n", " ").splitlines():
            yield line, False
        for code in re.findall(r"`([^`\n]+)`", prose(text)):
            yield code, True

    command = re.compile(rf"\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?{program} (.+)")
    return [
        (page.relative_to(ROOT).as_posix(), match[1].strip(), in_sentence)
        for page in PAGES
        for line, in_sentence in lines_of(page.read_text(encoding="utf-8"))
        for part in line.split("&&")
        if (match := command.fullmatch(part))
    ]
