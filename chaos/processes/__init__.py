"""The processes that Aftershock starts: how they start, carry marks, are found and end."""
