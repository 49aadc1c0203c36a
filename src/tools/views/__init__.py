"""The pages that nodes show as their views: plain HTML, made from values, without scripts."""
