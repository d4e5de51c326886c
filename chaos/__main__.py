"""`python -m chaos`."""

from chaos.cli import main

main()
