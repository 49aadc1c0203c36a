"""The web page: shows the catalogue, and the tools with forms to try them. Plain HTML without scripts."""
