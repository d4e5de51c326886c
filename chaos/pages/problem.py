"""A page that cannot be shown, and why."""

from __future__ import annotations


class PageError(Exception):
    """A page that does not exist or cannot be drawn. status: of HTTP; next_step: what the reader can do."""

    def __init__(self, status: int, title: str, text: str, next_step: str = "") -> None:
        super().__init__(text)
        self.status, self.title, self.text, self.next_step = status, title, text, next_step
