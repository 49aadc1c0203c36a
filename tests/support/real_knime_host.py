"""Checks an extension or a workflow archive under KNIME's own Python sources; see `tests.support.real_knime`.

real_knime_host.py check KNIME_YML               problems of an extension; ends with 1 if one is an error
real_knime_host.py knwf FILE.knwf [KNIME_YML]    problems of an archive; ends with 1 if there are any
"""

import argparse
import json
import sys
from pathlib import Path


def main():
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.support import real_knime as rig

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check").add_argument("knime_yml")
    archive = commands.add_parser("knwf")
    archive.add_argument("file")
    archive.add_argument("knime_yml", nargs="?")
    given = parser.parse_args()
    host = rig.load_extension(given.knime_yml) if given.knime_yml else None
    if given.command == "knwf":
        found = rig.check_knwf(given.file, host)
        print(json.dumps(found, indent=2, default=str))
        return 1 if found["problems"] else 0
    problems = rig.describe_extension(host)["problems"]
    for problem in problems:
        print(": ".join(problem))
    return 1 if any(severity == "error" for severity, _, _ in problems) else 0


if __name__ == "__main__":
    sys.exit(main())
