"""`bench --report` in a headless Chromium: no errors, the numbers of its data, a timeline that zooms."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_pages import KERNELS, embedded, made

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install pypto[browser]")

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium from the system, else the one that Playwright brought."""
    found = os.environ.get("PYPTO_TEST_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"no Chromium starts here (apt install chromium): {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=["one kernel", "two kernels", "a baseline"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("page")
    words: list[object] = [f"{KERNELS}:scale", "--dim", "M=64", "--arg", "factor=2", "--resident", "x", "--rounds", 20]
    if request.param == "two kernels":
        words.insert(1, f"{KERNELS}:scale")
    if request.param == "a baseline":
        made(directory / "old.html", *words, "--save", directory / "old.json")
        words += ["--baseline", directory / "old.json"]
    return made(directory / "page.html", *words)


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, browser: Any, path: Path) -> Iterator[Any]:
    """The open page; whatever it complains about, or fetches, fails the test."""
    page = browser.new_page(color_scheme=request.param, viewport={"width": 1100, "height": 900})
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    fetched: list[str] = []
    page.on("request", lambda one: fetched.append(one.url))
    page.goto(path.as_uri())
    yield page
    assert said == []
    assert [url for url in fetched if not url.startswith("data:")] == [path.as_uri()]
    page.close()


def cells(page: Any, selector: str) -> list[list[str]]:
    found: list[list[str]] = page.eval_on_selector_all(
        f"{selector} tbody tr", "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
    )
    return found


def test_the_numbers_are_those_of_the_data(page: Any, path: Path) -> None:
    data = embedded(path.read_text())
    results = data["results"]
    for name, digits, value in (
        ("host", 1, lambda stats: stats["summary"]["host_wall_us"]["median"]),
        ("device", 1, lambda stats: stats["summary"]["device_wall_us"]["median"]),
        ("h2d", 0, lambda stats: stats["h2d_bytes"]),
        ("d2h", 0, lambda stats: stats["d2h_bytes"]),
    ):
        shown = page.locator(f"[data-value={name}]").all_text_contents()
        assert [text.split()[0] for text in shown] == [f"{value(one['stats']):,.{digits}f}" for one in results]
    columns = ("min", "p5", "median", "p95", "p99", "max", "mean", "stdev")
    launches = cells(page, ".launches")
    wanted = [one["stats"]["summary"][clock] for one in results for clock in ("host_wall_us", "device_wall_us")]
    assert [row[1:9] for row in launches] == [[f"{one[name]:,.1f}" for name in columns] for one in wanted]
    trees = [row for one in results for row in one["tree"]]
    names = ("median_us", "mean_us", "stdev_us", "min_us", "max_us")
    assert [[row[0], *row[2:7]] for row in cells(page, ".tree")] == [
        [row["name"], *(f"{row[name]:,.1f}" for name in names)] for row in trees
    ]
    transfers = [one for result in results for one in result["stats"]["summary"]["transfers"]]
    assert [[row[0], row[2], row[3]] for row in cells(page, ".transfers")] == [
        [one["parameter"], f"{one['nbytes']:,}", f"{one['us']:,.1f}"] for one in transfers
    ]
    profiles = [one["profile"] for one in results if one["profile"]]
    assert [row[:7] for row in cells(page, ".steps")] == [row for one in profiles for row in step_rows(one)]
    assert page.locator("svg.roofline circle").count() == sum(len(one["steps"]) for one in profiles)
    roofs = page.locator("svg.roofline").first.text_content()
    assert f"FP32 {profiles[0]['peaks']['fp32'] / 1e9:,.0f} GFLOP/s" in roofs
    assert f"cache {profiles[0]['peaks']['cached_read'] / 1e9:,.1f} GB/s" in roofs
    assert dict(cells(page, "#machine")) == data["machine"]
    assert page.locator(".verdict").all_text_contents() == [one["verdict"] for one in results]
    if "comparison" in data:
        ratios = [data["comparison"][clock] for clock in ("host", "device")]
        assert [row[3:] for row in cells(page, "#comparison")] == [
            [f"{one['value']:,.3f}", f"{one['low']:,.3f}..{one['high']:,.3f}", one["word"]] for one in ratios
        ]


def test_types_that_are_computed_alike_have_one_roof(browser: Any, tmp_path: Path) -> None:
    page = browser.new_page()
    page.goto(made(tmp_path / "half.html", f"{KERNELS}:half", "--rounds", 3).as_uri())
    roofs = [text for text in page.locator("svg.roofline text").all_text_contents() if text.endswith(" GFLOP/s")]
    assert len(roofs) == 1
    assert roofs[0].startswith("FP32 ")
    page.close()


def test_what_lives_on_the_device_is_drawn_or_said_to_be_nothing(browser: Any, path: Path, tmp_path: Path) -> None:
    page = browser.new_page()
    nothing = "No argument is resident: nothing lives on the device between launches."
    page.goto(path.as_uri())
    assert page.get_by_role("heading", name="Live bytes from opening the device").count() >= 1
    assert page.get_by_text(nothing).count() == 0
    page.goto(made(tmp_path / "none.html", f"{KERNELS}:double", "--rounds", 3).as_uri())
    assert page.get_by_role("heading", name="Live bytes from opening the device").count() == 0
    assert page.get_by_text(nothing).count() == 1
    page.close()


def step_rows(profile: dict[str, Any]) -> list[list[str]]:
    """The first columns of a profile's table, as the command line writes the numbers."""
    rows = []
    for step in profile["steps"]:
        share, nbytes, rate = f"{100 * step['share']:,.0f} %", f"{step['bytes']:,}", f"{step['gb_per_s']:,.1f}"
        rows.append([str(step["line"]), step["name"], f"{step['runs']:,}", f"{step['us']:,.1f}", share, nbytes, rate])
        for one in step["operations"]:
            bytes_of = f"{one['device_bytes'] + one['tile_bytes']:,}"
            time, part = f"~{one['us']:,.1f}", f"~{100 * one['share']:,.0f} %"
            rows.append([str(one["line"]), one["name"], "", time, part, bytes_of, ""])
    return rows


def window(page: Any) -> tuple[float, float]:
    svg = page.locator("svg.timeline").first
    return float(svg.get_attribute("data-from")), float(svg.get_attribute("data-to"))


def test_the_timeline_zooms_and_moves(page: Any) -> None:
    timeline = page.locator("svg.timeline").first
    timeline.scroll_into_view_if_needed()
    begin, end = window(page)
    page.get_by_title("Zoom in").first.click()
    inner = window(page)
    assert inner[0] > begin
    assert inner[1] < end
    assert inner[1] - inner[0] == pytest.approx((end - begin) / 2)
    page.get_by_title("Zoom out").first.click()
    assert window(page) == pytest.approx((begin, end))
    box = timeline.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 40)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function("limit => +document.querySelector('svg.timeline').dataset.to < limit", arg=end)
    zoomed = window(page)
    assert zoomed[1] - zoomed[0] == pytest.approx((end - begin) * 0.8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7 - 50, box["y"] + 40)
    page.mouse.up()
    moved = window(page)
    assert moved[0] > zoomed[0], "what is drawn to the left shows what is later"
    assert moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0])
    timeline.focus()
    page.keyboard.press("ArrowLeft")
    assert window(page)[0] < moved[0]
    page.get_by_role("button", name="launch 1, cold").first.click()
    cold = window(page)
    page.get_by_role("button", name="everything").first.click()
    assert window(page)[0] < cold[0]
    assert window(page)[1] > cold[1]


def test_a_task_says_what_it_is(page: Any, path: Path) -> None:
    recording = embedded(path.read_text())["results"][0]["recording"]
    core = next(track for track in recording["tracks"] if track["name"].startswith("core"))
    *_, kernel, begin, duration, words = core["slices"][-1]
    page.locator("svg.timeline").first.scroll_into_view_if_needed()
    shown = page.locator("svg.timeline").first.locator("rect").last
    shown.hover()
    lines = page.locator("#tip > div").all_text_contents()
    assert lines[:2] == [kernel, f"{duration:,.3f} us, at {begin:,.3f} us"]
    assert f"source: {words['source']}" in lines


def test_numbers_are_rounded_as_the_command_line_rounds_them(page: Any) -> None:
    values = [0.0, 0.05, 0.15, 0.25, 0.35, 0.45, 0.75, 1.25, 2.5, 3.5, 999.95, 1234.25, 1234567.85, 0.0449, 12.0]
    for digits in (0, 1, 3):
        shown = page.evaluate("([values, digits]) => values.map(value => number(value, digits))", [values, digits])
        assert shown == [f"{value:,.{digits}f}" for value in values]


def test_launches_that_were_left_out_have_no_button(page: Any) -> None:
    names = page.evaluate(
        """() => {
            const recording = { ...data.results[0].recording, left_out: 3 };
            recording.shown_from = recording.launches[1][0];
            return [...new Timeline(recording).node.querySelectorAll("button")].map(one => one.textContent);
        }"""
    )
    assert names == ["+", "\N{MINUS SIGN}", "everything", "launch 2", "launch 3", "launch 4"]


def test_a_narrow_window_scrolls_tables_and_not_the_page(browser: Any, path: Path) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 800})
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.close()
