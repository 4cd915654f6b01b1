#!/bin/bash
# PyPI mautrix 0.21.1: a matrix.to link is decoded before it is split, so an event ID ends at its first slash.
#
# Event IDs of room version 3 are base64 of the standard alphabet, with "/" and "+"; links carry them as %2F and %2B.
# Seen: $abc for $abc%2Fdef, while the room and "via" are right
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check mautrix==0.21.1

cat >"$dir/try.py" <<'END'
import sys
from mautrix.types import MatrixURI

link = "https://matrix.to/#/%21room%3Aexample.org/%24abc%2Fdef?via=example.org"
uri = MatrixURI.parse(link)
print("mautrix 0.21.1:", link)
print("is room", uri.room_id, "event", uri.event_id, "via", uri.via)
sys.exit(0 if uri.event_id == "$abc" and uri.room_id == "!room:example.org" and uri.via == ["example.org"] else 1)
END
"$dir/venv/bin/python" "$dir/try.py"
