"""Calls made by workers: other processes, on this machine or on others.

`Workers` makes the calls of a batch or a replay with any `concurrent.futures.Executor`.
"""
