"""`python -m chaos`."""

import sys

try:
    from chaos.cli import main
except KeyboardInterrupt:
    sys.stderr.write("interrupted; nothing was started\n")
    sys.exit(130)

main()
