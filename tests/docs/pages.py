"""The pages for readers, and what stands in their fenced blocks."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKILLS = tuple(sorted((ROOT / "skills").glob("*/SKILL.md")))
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "AGENTS.md",
    *SKILLS,
    *sorted((ROOT / "docs").glob("*.md")),
)
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """info: what stands behind the opening fence. line: of the fence."""

    page: Path
    line: int
    info: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(info: str, *pages: Path) -> list[Block]:
    found = []
    for page in pages or PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            if match["info"].strip() == info:
                found.append(Block(page, text.count("\n", 0, match.start()) + 1, info, match["text"]))
    return found


def campaigns(*pages: Path) -> list[Block]:
    return [block for block in blocks("yaml", *pages) if re.search(r"^campaign:", block.text, re.MULTILINE)]


def block_with(words: str, info: str, page: Path) -> Block:
    """Returns the only block of that kind on the page in which the words stand."""
    [found] = [block for block in blocks(info, page) if words in block.text]
    return found


def lines(block: Block) -> list[list[str]]:
    """Returns the words of each command in a block of shell commands; redirections and comments are left out."""
    parts = (part for line in block.text.splitlines() for part in line.split("&&"))
    return [words for part in parts if (words := shlex.split(part.split(" > ")[0], comments=True))]


def commands() -> list[tuple[str, list[str]]]:
    """(where, arguments) of every `sciagent …` in a block of shell commands."""
    return [
        (f"{block}: {shlex.join(words)}", words[1:])
        for block in blocks("sh")
        for words in lines(block)
        if Path(words[0]).name == "sciagent"
    ]


def mentioned() -> list[tuple[str, list[str]]]:
    """(where, words) of every `sciagent …` in running text."""
    found = []
    for page in PAGES:
        prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
        found += [
            (f"{page.name}: {code}", code.split(" > ")[0].split()[1:])
            for code in re.findall(r"`(sciagent [^`]+)`", prose)
        ]
    return found
