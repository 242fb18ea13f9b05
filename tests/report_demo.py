"""`make report-demo`: the report of a real study of the real pair, and how it looks on a phone and on a desk.

The study is that of `make demo`; where there is none yet, it is made first.
"""

import subprocess
import sys

from tests.demo import ROOT, STUDY
from tests.demo import main as demo
from tests.support.browser import DESKTOP, PHONE, browser, opened
from tuner.cli.study_folder import DATABASE, REPORT


def main() -> int:
    """Make the study if need be, write its report, and look at it; returns an exit code."""
    if not (STUDY / DATABASE).is_file() and (code := demo()) != 0:
        return code
    argv = [str(ROOT / ".venv" / "bin" / "tuner"), "report", str(STUDY)]
    if (code := subprocess.run(argv, cwd=ROOT, check=False).returncode) != 0:
        return code
    with browser() as started:
        for name, size in (("phone", PHONE), ("desktop", DESKTOP)):
            for scheme in ("light", "dark"):
                path = STUDY / f"report-{name}-{scheme}.png"
                with opened(started, STUDY / REPORT, size=size, scheme=scheme) as one:
                    one.page.screenshot(path=str(path), full_page=True)
                    for complaint in (*one.complaints, *one.fetched):
                        print(f"report-demo: {name}, {scheme}: {complaint}", file=sys.stderr)
                print(f"Written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
