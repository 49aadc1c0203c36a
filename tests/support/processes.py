"""What became of the processes that a test had started."""

import subprocess
import time


def gone(group):
    """Whether nobody of a process group is alive; zombies of others are for the system to clear away."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        listed = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True)
        members = [line.split() for line in listed.stdout.splitlines()]
        if not any(found == str(group) and state[0] != "Z" for found, state in members):
            return True
        time.sleep(0.05)
    return False
