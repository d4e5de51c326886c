"""`python -m checks.report PAGE PATH`: print or write a page. The command line runs it as a child process.

    run RUN_DIR       print the result of a run
    compare RUN_DIR   write and print the comparison of the variants of an A/B scenario
    campaign FOLDER    write the files of a campaign next to its campaign.json
    campaign-text FOLDER    print it
    trend FILE        write the trend page, from the output of `python -m chaos history --json` on standard input
    trend-text FOLDER    print it, with links to reports relative to the folder
    look -            print the style sheet of all pages, and the digests of their scripts, as JSON

Exit codes: that of the verdict for `compare`, else 0; 2 with a message on standard error if the page cannot be written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from chaos.errors import PASS, USAGE, AftershockError
from chaos.run.directory import Run
from chaos.run.result import EXIT_CODES, Result


def main(page: str, target: str) -> int:
    """Print or write the page and return the exit code."""
    path = Path(target)
    try:
        return _make(page, path)
    except AftershockError as e:
        sys.stderr.write(f"{e}\n")
        return e.exit_code
    except OSError as e:
        sys.stderr.write(f"{path} cannot be {'written to' if path.is_dir() else 'written'}: {e.strerror}\n")
        return USAGE


def _make(page: str, path: Path) -> int:
    # each page imports what it needs: the terminal alone needs no templates
    if page == "run":
        from checks.report import terminal

        terminal.render(Result.read(Run(path)), Console())
    elif page == "compare":
        from checks.report import compare

        comparison = compare.write(Run(path.absolute()))
        compare.show(comparison, Console())
        return EXIT_CODES[comparison.verdict]
    elif page in ("campaign", "campaign-text"):
        from checks.report import campaign

        (campaign.write if page == "campaign" else campaign.show)(path)
    elif page == "look":
        from checks.report import pages

        sys.stdout.write(pages.look())
    else:
        from checks.report import trend

        if page == "trend-text":
            sys.stdout.write(trend.page(trend.read(sys.stdin.read()), path / "trends.html"))
        else:
            trend.write(path, sys.stdin.read())
    return PASS


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
