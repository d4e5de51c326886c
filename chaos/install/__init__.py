"""Installation of what a run needs at run time: jars, the Java to run them, and the cache they are kept in."""
