"""Make the pictures of the documentation: a timeline, a roofline and a task graph, as the product draws them.

``python tools/pictures.py``, with Playwright, a Chromium and matplotlib. The pictures are of real launches, so they
differ from run to run; make them again when what draws them has changed.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
KERNELS = ROOT / "examples" / "kernels"
PICTURES = ROOT / "docs" / "pictures"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def pypto(*words: object) -> None:
    """Runs the command."""
    subprocess.run([sys.executable, "-m", "pypto.cli", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def timeline(report: Path, picture: Path) -> None:
    """The timeline of a report, zoomed to its second launch, as a picture."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme="light")
        page.goto(report.as_uri())
        section = page.locator("section", has=page.get_by_role("heading", name="Timeline"))
        section.get_by_role("button", name="launch 2").click()
        section.screenshot(path=picture)
        browser.close()


def main() -> None:
    """Makes all pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.html")
        pypto("bench", KERNELS / "split_k.py", "--report", report, "--rounds", 20, "--cores", 2)
        timeline(report, PICTURES / "timeline.png")
    pypto("profile", KERNELS / "flash_attention.py", "--roofline", PICTURES / "roofline.svg")
    tasks = PICTURES / "tasks.svg"
    pypto("inspect", KERNELS / "split_k.py", "--graph", tasks)
    # Where this machine has the sources is nobody's business.
    tasks.write_text(tasks.read_text().replace(f"{ROOT}/", ""))


if __name__ == "__main__":
    main()
