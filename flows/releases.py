"""Which release a flow works on."""

from __future__ import annotations

from pathlib import Path


async def release_folder(release: Path | str = "") -> Path:
    """The folder that was named, or that of the embedded release, built on first use."""
    if release:
        return Path(release).resolve()
    from flows.benchmark import embedded_release  # what builds is not loaded for a release that is there

    return await embedded_release()
