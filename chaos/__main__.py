"""`python -m chaos`."""

import sys

try:
    from chaos.cli import main
except KeyboardInterrupt:
    sys.stderr.write("interrupted; nothing was started\n")
    sys.exit(130)

except ModuleNotFoundError as e:
    if e.name != "typer":  # the first package that the command line imports
        raise
    sys.stderr.write(f"{sys.executable} lacks the packages of Aftershock: run `make setup`, then .venv/bin/python\n")
    sys.exit(2)

main()
