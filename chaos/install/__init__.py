"""What is fetched from package registries, and the user cache that holds it."""
