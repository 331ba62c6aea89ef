"""Prompt templates: rendering a file to text with the digest of that file. No prompt text lives here.

A template is a file beside its stage (`tasks_lib/<floor>/prompts/<name>.md.j2`), named by its path below the project root or
by an absolute path. Its digest goes into `ChatRequest.templates`, so that a changed prompt is a new call (known fault M05).
Templates stand alone: no includes, no inheritance, because the digest covers exactly one file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import jinja2

from tasks_lib.store.keys import sha256_bytes
from tasks_lib.store.settings import PROJECT_ROOT


class TemplateError(ValueError):
    """A template that cannot be rendered: no such file, a missing variable, or a syntax error."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt. `digest`: sha256 hex of the template file's bytes."""

    text: str
    digest: str


@lru_cache(maxsize=256)
def _compiled(source: str, name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True, newline_sequence="\n"
    )
    template = environment.from_string(source)
    template.name = name
    return template


def render(path: str | Path, **values: object) -> Prompt:
    """The template at `path` filled with `values`; blank lines at both ends are cut. Raises TemplateError."""
    file = PROJECT_ROOT / path
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise TemplateError(
            f"Template {path} cannot be read ({error}), expected a file below {PROJECT_ROOT}; correct the path."
        ) from error
    try:
        text = _compiled(raw.decode("utf-8"), str(path)).render(values)
    except jinja2.UndefinedError as error:
        raise TemplateError(
            f"Template {path}: {error.message}, found values {sorted(values)}; pass the missing value."
        ) from error
    except (jinja2.TemplateError, TypeError, UnicodeDecodeError) as error:
        raise TemplateError(
            f"Template {path} cannot be rendered ({type(error).__name__}: {error}); correct the template."
        ) from error
    return Prompt(text.strip("\n"), sha256_bytes(raw))
