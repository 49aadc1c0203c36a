"""The HTML pages that nodes show as their views, without scripts."""
