"""File systems by URL, such as HDFS: opened through fsspec, with errors that say what to do."""

from __future__ import annotations

import functools
from typing import Any

TIMEOUT_S = 20.0


def open_url(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it. Raises any error, because each file system has its errors.

    Credentials and other settings of a file system belong in the configuration of fsspec, not in the URL.
    """
    import fsspec  # on use: most runs need no other file system
    from fsspec.implementations.webhdfs import WebHDFS

    fs, root = fsspec.core.url_to_fs(url, use_listings_cache=False, skip_instance_cache=True)
    if isinstance(fs, WebHDFS):  # a name node that does not answer must not hold a thread for ever
        fs.session.request = functools.partial(fs.session.request, timeout=TIMEOUT_S)
    return fs, root


def reason_of(error: Exception) -> str:
    """Return the first line of an error of a file system, or of the one in the network that caused it."""
    inner: BaseException | None = error if isinstance(error, OSError) else None
    while inner is not None:
        if isinstance(inner, ConnectionError) and inner.strerror:
            return inner.strerror
        inner = inner.__context__
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300].rstrip(".")


def advice(url: str) -> str:
    """Return what to check if the file system of a URL does not answer."""
    if url.startswith("hdfs:"):
        needs = "hdfs:// needs libhdfs (ARROW_LIBHDFS_DIR) and Hadoop's CLASSPATH"
        return f"{needs}; webhdfs://namenode:9870/... needs neither."
    return "Check that it is up, and its settings in fsspec's configuration."
