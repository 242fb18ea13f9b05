"""Debian's Chromium without a window, driven by Playwright; whatever it asks of a network is refused and noted."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page, Route

PHONE, DESKTOP = (390, 844), (1280, 900)
DEADLINE_MS = 30_000


@dataclass
class OpenPage:
    """A page, and what it did that a report may not do."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of its console, and exceptions of its scripts."""
    fetched: list[str] = field(default_factory=list)
    """What it asked for beside itself."""


class BrowserMissingError(Exception):
    """There is no Chromium; the message says what to run."""


def chromium() -> str:
    """The path of Chromium.

    Raises:
        BrowserMissingError: It is not installed.
    """
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if (path := shutil.which(name)) is not None:
            return path
    raise BrowserMissingError("no Chromium here; on Debian: apt-get install chromium")


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser of its own."""
    with sync_playwright() as playwright:
        # as root, as in a container, Chromium has no sandbox of its own
        started = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield started
        finally:
            started.close()


@contextmanager
def opened(
    started: Browser,
    file: Path,
    *,
    size: tuple[int, int] = DESKTOP,
    scheme: Literal["dark", "light"] = "light",
    javascript: bool = True,
) -> Iterator[OpenPage]:
    """A report's page, once its plots are drawn.

    Args:
        started: The browser.
        file: The page.
        size: Of the window, in CSS pixels.
        scheme: What the user prefers.
        javascript: Whether scripts run.
    """
    width, height = size
    context = started.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        java_script_enabled=javascript,
        permissions=["clipboard-read", "clipboard-write"],
        has_touch=size == PHONE,
        is_mobile=size == PHONE,
    )
    context.set_default_timeout(DEADLINE_MS)
    page = context.new_page()
    found = OpenPage(page)

    def note(route: Route) -> None:
        if route.request.url.split("#")[0] == file.resolve().as_uri():
            route.continue_()
        else:
            found.fetched.append(route.request.url)
            route.abort()

    page.route("**/*", note)
    page.on(
        "console",
        lambda said: found.complaints.append(said.text) if said.type in {"error", "warning"} else None,
    )
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.goto(file.resolve().as_uri())
    if javascript:
        page.wait_for_selector("html[data-drawn]")
    try:
        yield found
    finally:
        context.close()
