"""The processes that Aftershock starts: how they are started, marked, found again and ended."""
