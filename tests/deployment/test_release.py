"""`make release` tags a commit only when every file has the same version."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GIT = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.com"]


def git(folder: Path, *words: str) -> str:
    run = subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603
    return run.stdout.strip()


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with the files that contain the version."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "test@example.com")
    (tmp_path / "scripts").mkdir()
    for name in ("pyproject.toml", "CHANGELOG.md", "template.yaml", "scripts/release"):
        shutil.copy(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--no-verify", "--message", "change")


def release(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([folder / "scripts/release"], check=False, capture_output=True, text=True)  # noqa: S603


def refusal(folder: Path) -> str:
    """Return the error text of a release that must create no tag."""
    tags = git(folder, "tag")
    run = release(folder)

    assert run.returncode == 1
    assert git(folder, "tag") == tags
    return run.stderr


def test_the_version_is_tagged_once_with_an_annotation(copy: Path) -> None:
    assert release(copy).returncode == 0
    [tag] = git(copy, "tag").splitlines()
    assert git(copy, "cat-file", "-t", tag) == "tag"

    assert f"{tag} already exists" in refusal(copy)


@pytest.mark.parametrize(
    ("file", "before", "after", "version"),
    [
        ("pyproject.toml", '\nversion = "', '\nversion = "9.', "9."),
        ("CHANGELOG.md", "\n## 0", "\n## 9.0", "9."),
        ("CHANGELOG.md", "\n## 0", "\n## 9.0.0 - soon\n\n## 0", ","),
        ("template.yaml", "    Value: 0.", "    Value: 9.0.", "9."),
        ("template.yaml", "\n  Version:\n", "\n  Edition:\n", ")"),
    ],
)
def test_a_version_that_differs_in_one_file_is_refused(
    copy: Path, file: str, before: str, after: str, version: str
) -> None:
    path = copy / file
    path.write_text(path.read_text(encoding="utf-8").replace(before, after, 1), encoding="utf-8")
    commit(copy)

    assert f"{file}: {version}" in refusal(copy)


def test_a_tree_with_changes_is_refused(copy: Path) -> None:
    (copy / "notes.txt").touch()

    assert "not committed" in refusal(copy)
