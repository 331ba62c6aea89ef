"""Generated documentation is what the code says."""

from __future__ import annotations

from tasks_lib.store.schemas import readme
from tasks_lib.store.settings import PROJECT_ROOT


def test_the_table_reference_is_current() -> None:
    """`python -m tasks_lib.store.schemas > artifacts/README.md` writes it anew."""
    assert (PROJECT_ROOT / "artifacts" / "README.md").read_text("utf-8") == readme()


def test_the_readme_names_every_command() -> None:
    from flows.cli import app

    text = (PROJECT_ROOT / "README.md").read_text("utf-8")
    for command in app.registered_commands:
        name = command.name or command.callback.__name__  # type: ignore[union-attr]
        assert f"`{name}`" in text or f"dsabench {name}" in text, name
