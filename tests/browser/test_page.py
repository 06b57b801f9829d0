"""The web page in a real Chromium, against a real server with made-up data that moves with time."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvicorn

from api.http.app import create_app
from api.http.settings import HttpSettings
from forecast.advisor.types import Mode
from tests.kit.fake_reads import FakeReads

playwright_api = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: the page is not driven"),
]


class Server:
    """Uvicorn on a free loopback port, in a thread."""

    def __init__(self, reads: FakeReads) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        app = create_app(reads, settings=HttpSettings(mode=Mode.APPROVE, version="0"))
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        )
        self._thread = threading.Thread(target=lambda: self._server.run(sockets=[self._socket]), daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server and wait for it."""
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()


@dataclass
class Opened:
    """A loaded page and what it did."""

    page: object
    url: str
    console: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The page's server."""
    running = Server(FakeReads(time.time))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Headless Chromium with a profile of its own."""
    with playwright_api.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")),
            executable_path=CHROMIUM,
            headless=True,
            args=FLAGS,
            viewport={"width": 1440, "height": 900},
        )
        yield context
        context.close()


def _open(browser: object, url: str) -> Opened:
    page = browser.new_page()
    opened = Opened(page, url)
    page.on("console", lambda message: opened.console.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: opened.console.append(f"error: {error}"))
    page.on("request", lambda request: opened.asked.append(request.url))
    page.goto(url)
    page.wait_for_selector("#fan path.median[d^=M]", state="attached")
    return opened


@pytest.fixture
def page(browser: object, server: Server) -> Iterator[Opened]:
    """The page with its first data drawn; afterwards it must have logged nothing and asked only its own origin."""
    opened = _open(browser, server.url)
    yield opened
    opened.page.close()
    assert opened.console == []
    assert [url for url in opened.asked if not url.startswith(server.url)] == []
    assert len(opened.asked) > 10


def _until(page: Opened, expression: str, within_s: float = 15.0) -> None:
    """Wait for an expression; Playwright's own waiting would evaluate text inside the page, which its policy forbids."""
    end = time.monotonic() + within_s
    while not page.page.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}"
        page.page.wait_for_timeout(50)


def _text(page: Opened, selector: str) -> str:
    return page.page.locator(selector).first.inner_text().replace("\u00a0", " ")


def test_the_fan_chart_has_bands_median_actual_values_and_now(page: Opened) -> None:
    """Every layer is drawn, the bands nested: 95 % is the widest."""
    heights = []
    for name in ("band-95", "band-80", "band-50"):
        path = page.page.locator(f"#fan path.{name}")
        assert len(path.get_attribute("d")) > 500
        heights.append(path.evaluate("node => node.getBBox().height"))
    assert heights == sorted(heights, reverse=True)
    assert len(page.page.locator("#fan path.median").get_attribute("d")) > 300
    _until(page, "document.querySelector('#fan path.actual').getAttribute('d').length > 500")
    assert page.page.locator("#fan .now text").text_content() == "now"


def test_model_skill_coverage_and_age_stand_beside_the_chart(page: Opened) -> None:
    """A forecast is never shown without how good it is."""
    tiles = _text(page, "#tiles")
    for part in ("9.60 s", "0.58", "phase 1", "81 · 95 %", "Data age", "Next lull"):
        assert part in tiles
    assert "beats persistence" in _text(page, "#served")


def test_queue_wiring_and_collectives_are_shown(page: Opened) -> None:
    """Who waits and why, what sources do not agree on, and the troubles of the selected job; text of users stays text."""
    page.page.click("button.job:has-text('81234')")
    _until(page, "document.querySelectorAll('#queue tbody tr').length === 3")
    queue = _text(page, "#queue-panel")
    for part in ("6 waiting", "0 of 32 GPUs free", "sweep", "4 × 8 h100", "Resources", "evaluate <now>", "JobHeldUser"):
        assert part in queue
    wiring = _text(page, "#wiring-panel")
    for part in (
        "1 conflict",
        "telemetry says leaf-2",
        "leaf-1 › spine-1",
        "1 uplink, 50.0 GB/s",
        "HTTP 403",
        "unknown:",
    ):
        assert part in wiring
    _until(page, "document.querySelector('#collectives').innerText.includes('considered dead')")
    assert "12 operations without a record" in _text(page, "#collectives")
    assert "llama-10b of mira (nlp) · queue train · priority 4,120 · limit 24.0 h" in _text(page, "#job-scheduled")
    page.page.click("button.job:has-text('notebook')")
    _until(page, "document.querySelector('#collectives').children.length === 0")
    assert page.page.locator("#job-scheduled").is_hidden()


def test_a_job_without_a_forecast_says_why(page: Opened) -> None:
    """The reason in a sentence where the forecast would be, and no band."""
    page.page.click("button.job:has-text('notebook')")
    absence = page.page.locator("#fan .absence")
    absence.wait_for()
    assert "No forecast: idle" in absence.inner_text()
    assert "nothing to foresee" in absence.inner_text()
    assert page.page.locator("#fan path.band-95").get_attribute("d") == ""
    _until(page, "document.querySelector('#fan path.actual').getAttribute('d').length > 100")
    assert page.page.locator("#fan .grid text").all_text_contents().count("0 %") == 1


def test_the_hot_link_is_first_marked_and_in_the_title(page: Opened) -> None:
    """With its chance, its causes and the countdown."""
    row = page.page.locator("#links-list > li:first-child button")
    assert "hot" in row.get_attribute("class")
    text = row.inner_text().replace("\u00a0", " ")
    assert "leaf-1:swp49" in text
    assert "93 %" in text
    assert "train-10b + vision" in text
    assert page.page.locator("#links-list button.hot").count() == 1
    assert page.page.title().replace("\u00a0", " ") == "● leaf-1:swp49 93 % · gpucast"
    page.page.wait_for_selector("#link-fan path.band-80[d^=M]", state="attached")
    assert "threshold 90 %" in page.page.locator("#link-fan .limit text").text_content().replace("\u00a0", " ")


def test_advice_shows_reason_effect_plan_status_and_grade(page: Opened) -> None:
    """Open advice with buttons, graded advice with its verdict, a hold without an approve button."""
    cards = page.page.locator("#advice-list > li")
    first = cards.nth(0).inner_text().replace("\u00a0", " ")
    for part in ("shift vision", "open", "burst together", "6 % expected (80 %: 2 % … 14 %)", "mode approve"):
        assert part in first
    page.page.click("#advice-list > li:first-child summary")
    assert "kubectl" in cards.nth(0).locator("pre").inner_text()
    assert "inside" in cards.nth(2).inner_text()
    assert cards.nth(1).get_by_role("button", name="Approve hold of cluster").count() == 0


def test_jobs_are_chosen_by_keyboard_and_focus_survives_a_refresh(page: Opened) -> None:
    """Arrow keys move and choose; the row keeps the focus while data comes in."""
    page.page.locator("button.job").first.focus()
    order = page.page.locator("#jobs-list .job-name b").all_inner_texts()
    page.page.keyboard.press("ArrowDown")
    assert _text(page, "#job-title") == order[1]
    page.page.keyboard.press("End")
    assert _text(page, "#job-title") == order[-1]
    asked = len(page.asked)
    page.page.wait_for_timeout(100)
    while len(page.asked) < asked + 10:
        page.page.wait_for_timeout(100)
    focused = page.page.evaluate("document.activeElement.parentElement.dataset.key")
    assert focused.endswith(order[-1])
    assert page.page.locator("button.job[aria-current=true]").count() == 1


def test_the_chart_reads_values_by_pointer_and_by_keyboard(page: Opened) -> None:
    """Time in UTC, median and intervals with units."""
    box = page.page.locator("#fan .stage").bounding_box()
    page.page.mouse.move(box["x"] + box["width"] * 0.72, box["y"] + 60)
    tip = page.page.locator("#fan .tip")
    tip.wait_for()
    text = tip.inner_text().replace("\u00a0", " ")
    assert "UTC" in text
    assert "median" in text
    assert "B/s" in text
    page.page.mouse.move(5, 5)
    tip.wait_for(state="hidden")
    page.page.locator("#fan .stage").focus()
    page.page.keyboard.press("PageDown")
    tip.wait_for()
    assert "80 %" in tip.inner_text()
    page.page.keyboard.press("Escape")
    tip.wait_for(state="hidden")


def test_another_metric_and_another_span_can_be_chosen(page: Opened) -> None:
    """Units follow the metric."""
    page.page.click("#metric button:has-text('Power')")
    _until(page, "document.querySelector('#fan .grid').textContent.includes('W')")
    assert page.page.locator("#metric button[aria-pressed=true]").inner_text() == "Power"
    page.page.click("#view button:has-text('12 min')")
    _until(page, "document.querySelector('#fan .times').textContent.includes('min')")


def test_phases_and_the_predicted_lull_share_the_time_axis(page: Opened) -> None:
    """The strip's "now" stands under the chart's, and the lull is hatched."""
    page.page.wait_for_selector("#timeline .phase-compute")
    strip = page.page.locator("#timeline line.now-line").get_attribute("x1")
    chart = page.page.locator("#fan .now line").get_attribute("x1")
    assert float(strip) == pytest.approx(float(chart))
    assert page.page.locator("#timeline rect.lull").get_attribute("fill") == "url(#hatch)"
    assert "predicted next lull" in _text(page, "#timeline")


def test_live_accuracy_lists_losers_too(page: Opened) -> None:
    """A negative skill and a broken coverage are marked with a sign, not by colour alone."""
    page.page.wait_for_selector("#accuracy table")
    text = _text(page, "#accuracy")
    assert "−0.04" in text
    assert "69 % !" in text


def test_pause_stops_the_requests_and_resume_starts_them(page: Opened) -> None:
    """The key p does the same as the button."""
    page.page.keyboard.press("p")
    assert page.page.get_attribute("#pause", "aria-pressed") == "true"
    page.page.wait_for_load_state("networkidle")
    page.page.wait_for_timeout(300)
    asked = len(page.asked)
    page.page.wait_for_timeout(2500)
    assert len(page.asked) == asked
    page.page.click("#pause")
    _until(page, "document.getElementById('pause').textContent === 'Pause'")
    with page.page.expect_request("**/v1/health"):
        pass


def test_the_page_fits_1000_pixels_and_dark_mode(page: Opened) -> None:
    """Nothing sticks out sideways; the dark page is dark."""
    page.page.set_viewport_size({"width": 1000, "height": 800})
    _until(page, "document.querySelector('#fan svg').clientWidth < 760")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 1000
    page.page.set_viewport_size({"width": 1440, "height": 900})
    page.page.emulate_media(color_scheme="dark")
    colour = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")) < 60


def test_every_control_has_a_name(page: Opened) -> None:
    """Buttons, fields and charts say what they are to a screen reader."""
    nameless = page.page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, [role=img], [role=group], nav, summary')]
        .filter(node => node.checkVisibility())
        .filter(node => !(node.getAttribute('aria-label') || node.getAttribute('aria-labelledby')
                          || node.textContent.trim())).map(node => node.outerHTML.slice(0, 120))"""
    )
    assert nameless == []


def test_sources_are_listed_with_what_is_wrong(page: Opened) -> None:
    """The one that is down says why."""
    page.page.click("#top-sources")
    text = _text(page, "#sources")
    assert "gpu-12" in text
    assert "no answer within 5 s" in text
    assert "blank value × 12" in text


def test_advice_can_be_approved_once(browser: object) -> None:
    """The button posts, the card changes, the button goes."""
    own = Server(FakeReads(time.time))
    opened = _open(browser, own.url)
    try:
        opened.page.get_by_role("button", name="Approve shift of vision").click()
        opened.page.wait_for_selector("#advice-list > li:first-child .status-applied")
        assert "dry run" in opened.page.locator("#advice-list > li").first.inner_text()
        assert opened.page.get_by_role("button", name="Approve shift of vision").count() == 0
        assert opened.console == []
    finally:
        opened.page.close()
        own.stop()


def test_when_the_service_goes_the_page_says_so_and_keeps_what_it_had(browser: object) -> None:
    """A banner, the old chart, and no blank page."""
    own = Server(FakeReads(time.time))
    opened = _open(browser, own.url)
    try:
        own.stop()
        opened.page.locator("#banner").wait_for()
        assert "does not answer" in opened.page.locator("#banner").inner_text()
        assert "Not reachable" in opened.page.locator("#top-state").inner_text()
        assert len(opened.page.locator("#fan path.median").get_attribute("d")) > 300
        assert opened.page.title().startswith("⚠")
        assert not [line for line in opened.console if line.startswith("error: ") and "ERR_" not in line]
    finally:
        opened.page.close()


def test_a_service_that_is_not_ready_shows_its_reasons_and_empty_states(browser: object, tmp_path: Path) -> None:
    """The first minute of a fresh installation is readable."""

    class Fresh(FakeReads):
        def jobs(self) -> list[object]:
            return []

        def links(self) -> list[object]:
            return []

        def advice(self) -> list[object]:
            return []

    own = Server(Fresh(time.time, ready=False))
    page = browser.new_page()
    try:
        page.goto(own.url)
        page.locator("#top-state:has-text('Not ready')").wait_for()
        assert "no source has given a sample yet" in page.locator("#top-state").inner_text()
        for empty in ("#jobs-empty", "#links-empty", "#advice-empty"):
            page.locator(empty).wait_for()
        page.screenshot(path=str(tmp_path / "fresh.png"))
    finally:
        page.close()
        own.stop()
