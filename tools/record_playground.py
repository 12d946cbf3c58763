"""Film the playground: docs/figures/playground.webp, the moving picture of the README.

    python tools/record_playground.py [--out FILE]

Opens the page in Chromium, trains the paper's setting step by step, and takes a picture after each;
the address of the page says which step, so that every picture is of a finished state.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
from pathlib import Path

import featavg as fa

ROOT = Path(__file__).resolve().parent.parent
STEPS = [0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 22, 26, 30, 36, 42, 50, 60, 70, 80, 90, 100]
WIDTH, HEIGHT = 1180, 900
SHOWN = 760  # pixels across in the README
LIMIT = 1_000_000


def frames() -> list[bytes]:
    """A picture of the page at every step."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    address = fa.playground(tempfile.mkdtemp()).as_uri()
    taken = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
        page = context.new_page()
        page.goto(f"{address}#step=0")
        for step in STEPS:
            page.evaluate(f"location.hash = '#step={step}'")
            ready = f"html[data-ready][data-busy=no][data-step='{step}']"
            page.wait_for_selector(ready, timeout=120_000)
            page.locator("#laboratory").scroll_into_view_if_needed()
            page.wait_for_timeout(150)
            taken.append(page.screenshot())
        browser.close()
    return taken


def film(taken: list[bytes], target: Path) -> None:
    from PIL import Image

    images = []
    for picture in taken:
        image = Image.open(io.BytesIO(picture)).convert("RGB")
        size = (SHOWN, round(SHOWN * image.height / image.width))
        images.append(image.resize(size, Image.Resampling.LANCZOS))
    # The end comes first: where nothing moves, and in the first moment, a reader sees trained networks.
    images.insert(0, images[-1])
    lengths = [1600, 900] + [220] * (len(images) - 3) + [1000]
    for quality in (80, 65, 50, 35):
        images[0].save(
            target, save_all=True, append_images=images[1:], duration=lengths, loop=0, quality=quality, method=6
        )
        if target.stat().st_size <= LIMIT:
            return
    raise SystemExit(f"{target} is {target.stat().st_size} bytes: take fewer pictures")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "docs" / "figures" / "playground.webp")
    given = options.parse_args()
    film(frames(), given.out)
    print(f"{given.out}: {given.out.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
