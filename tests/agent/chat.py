"""Chat templates and a tokeniser, small copies of the real ones that drift for the real reasons.

The tokeniser merges bytes by rank, as byte-pair encoding does. A model may spell a text in other tokens than the
tokeniser would; read back as text and tokenised anew, it then has other ids.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from itertools import pairwise

from jinja2 import Environment

SPECIAL = (
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
)
MERGES = (
    ("t", "h"), ("th", "e"), ("i", "n"), ("in", "g"), (" ", "the"), ("\n", "\n"), (".", "\n"), ("b", "a"),
    ("ba", "th"), ("{", '"'), ('"', ":"), (":", " "), ('"', "}"), (" ", '"'), (" ", " "),
)  # fmt: skip
RANK = {pair: rank for rank, pair in enumerate(MERGES)}
PIECES = [*map(chr, range(256)), *dict.fromkeys(left + right for left, right in MERGES), *SPECIAL]
ID = {piece: number for number, piece in enumerate(PIECES)}


def encode(text: str) -> tuple[int, ...]:
    """The tokeniser's own spelling of a text."""
    return tuple(number for chunk in chunks(text) for number in merged(chunk))


def spelled(text: str, cuts: float, rng: random.Random) -> tuple[int, ...]:
    """One of the spellings that a model may sample: cut anywhere, each place with probability `cuts`."""
    cut = ["", *chunks(text)]
    for at, chunk in enumerate(cut):
        if chunk not in SPECIAL:
            cut[at] = "".join(letter + "\0" * (rng.random() < cuts) for letter in chunk)
    return tuple(number for part in cut for piece in part.split("\0") for number in encode(piece))


def decode(ids: tuple[int, ...]) -> str:
    return "".join(PIECES[number] for number in ids)


def chunks(text: str) -> list[str]:
    return [chunk for chunk in re.split("(" + "|".join(map(re.escape, SPECIAL)) + ")", text) if chunk]


def merged(chunk: str) -> list[int]:
    pieces = [chunk] if chunk in SPECIAL else list(chunk)
    while pairs := [(RANK[pair], at) for at, pair in enumerate(pairwise(pieces)) if pair in RANK]:
        _, at = min(pairs)
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
    return [ID[piece] for piece in pieces]


@dataclass(frozen=True)
class Said:
    """A message. call: name and arguments of a tool, or none."""

    role: str
    content: str
    thinking: str = ""
    call: tuple[str, dict[str, str]] | None = None


@dataclass(frozen=True)
class Template:
    """end: what a model ends its answer with. thinks, calls: what its answers can hold."""

    name: str
    source: str
    end: str
    thinks: bool = False
    calls: bool = False

    def prompt(self, messages: list[Said]) -> str:
        environment = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False)
        environment.filters["tojson"] = json.dumps
        return environment.from_string(self.source).render(messages=messages)

    def answer(self, said: Said, tight: bool) -> str:
        """What the model writes to say this. tight: JSON without spaces, which the template would not write."""
        text = f"<think>\n{said.thinking}\n</think>\n\n" if self.thinks else ""
        text += said.content
        if self.calls and said.call:
            separators = (",", ":") if tight else None
            written = json.dumps({"name": said.call[0], "arguments": said.call[1]}, separators=separators)
            text += ("\n" if said.content else "") + f"<tool_call>\n{written}\n</tool_call>"
        return text + self.end


CHATML = Template(
    "chatml",
    """\
{% for m in messages %}
{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{{ '<think>\n' + m.thinking + '\n</think>\n\n' }}\
{% endif %}{{ m.content + '<|im_end|>\n' }}
{%- endfor %}
{{- '<|im_start|>assistant\n' -}}
""",
    end="<|im_end|>",
    thinks=True,
)

STRIPPING = Template(
    "chatml without earlier thinking",
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}",
    end="<|im_end|>",
    thinks=True,
)

LLAMA3 = Template(
    "llama 3",
    "{{ '<|begin_of_text|>' }}{% for m in messages %}{{ '<|start_header_id|>' + m.role.replace('tool', 'ipython') + "
    "'<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
    end="<|eot_id|>",
)

HERMES = Template(
    "qwen 2.5 with hermes calls",
    """\
{% for m in messages %}
{% if m.role == 'tool' %}
{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\n<tool_response>\n' + m.content + '\n</tool_response>' -}}
{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}
{% else %}
{{- '<|im_start|>' + m.role + '\n' + m.content -}}
{% if m.call %}
{{- '\n' if m.content else '' -}}
{{ '<tool_call>\n{"name": "' + m.call[0] + '", "arguments": ' + m.call[1] | tojson + '}\n</tool_call>' }}
{%- endif %}
{{- '<|im_end|>\n' -}}
{% endif %}
{% endfor %}
{{- '<|im_start|>assistant\n' -}}
""",
    end="<|im_end|>",
    calls=True,
)

TEMPLATES = (CHATML, STRIPPING, LLAMA3, HERMES)
