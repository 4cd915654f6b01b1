#!/bin/bash
# PyPI matrix-client 0.4.0: rooms of version 12 are refused for their ID.
#
# Their IDs are "!" and the hash of the create event, without a domain. The SDK checks for a colon before any request, so
# none of its methods works in such a room; rooms of version 11 and older do.
# Seen: ValueError for an ID of 43 characters without a colon
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check matrix-client==0.4.0 setuptools==80.9.0

cat >"$dir/try.py" <<'END'
import sys
from matrix_client.room import Room

def accepts(room_id):
    try:
        Room(None, room_id)
        return True
    except ValueError as error:
        print("matrix-client 0.4.0:", error)
        return False

new = accepts("!" + "h3CcBk--HLGzglv15OssxZIJ-XfgKC8QDD-DaqQF3go")
old = accepts("!abcdef:example.org")
print("version 12 accepted:", new, "version 11 accepted:", old)
sys.exit(0 if old and not new else 1)
END
"$dir/venv/bin/python" "$dir/try.py"
