"""The process driver: each broker is a JVM on this machine."""
