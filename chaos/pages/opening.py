"""Opening a folder of runs by what a user gives: a path, or the URL of a folder on another file system."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from chaos.pages.folder import RunsFolder
from chaos.pages.local import LocalFolder

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def open_folder(text: str, local: Path | None = None) -> RunsFolder:
    """Return the folder at a path or a URL. Raises `UsageError` for a URL that cannot be used.

    local: the folder of which the runs are copied to the URL.
    """
    if not _URL.match(text):
        return LocalFolder(Path(text))
    if text.startswith("file://"):
        return LocalFolder(Path(unquote(urlsplit(text).path)))
    from chaos.pages.remote import RemoteFolder  # imported on use: a folder of this machine does not need it

    return RemoteFolder(text, local)
