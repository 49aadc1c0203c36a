"""What became of the processes that a test had started."""

import subprocess

from tests.support.waiting import until


def gone(group):
    """Waits until nobody of a process group is alive; zombies of others are for the system to clear away."""

    def alive():
        listed = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True)
        members = [line.split() for line in listed.stdout.splitlines()]
        return [state for found, state in members if found == str(group) and state[0] != "Z"]

    until(lambda: not alive(), f"process group {group} ends")
    return True
