"""The web page: the catalogue to read, and the tools with forms to try them. Plain HTML, no script."""
