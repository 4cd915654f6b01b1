#!/bin/bash
# PyPI gcp-storage-emulator 2026.7.19: ifGenerationMatch has no effect, not even 0 on an upload.
#
# Google Cloud Storage answers 412 to an upload with ifGenerationMatch=0 if the object exists, and to a deletion with
# another generation. The emulator counts generations, but never compares them.
# Seen: upload 200 and the content replaced, DELETE with generation 999 is 200
set -euo pipefail
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check gcp-storage-emulator==2026.7.19
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$dir/venv/bin/gcp-storage-emulator" start --host=127.0.0.1 --port="$port" --in-memory --default-bucket=b >"$dir/log" 2>&1 &
server=$!
url=http://127.0.0.1:$port
for _ in $(seq 100); do
	curl -fsS -o /dev/null "$url/storage/v1/b/b" 2>/dev/null && break
	sleep 0.1
done

status() { curl -sS -o /dev/null -w '%{http_code}' "$@"; }
upload="$url/upload/storage/v1/b/b/o?uploadType=media&name=k"
first=$(status -H 'Content-Type: text/plain' -d one "$upload")
second=$(status -H 'Content-Type: text/plain' -d two "$upload&ifGenerationMatch=0")
content=$(curl -sS "$url/storage/v1/b/b/o/k?alt=media")
deleted=$(status -X DELETE "$url/storage/v1/b/b/o/k?ifGenerationMatch=999")
echo "gcp-storage-emulator 2026.7.19: upload $first, with ifGenerationMatch=0 $second, content $content, deletion $deleted"
[ "$second $content $deleted" = "200 two 200" ]
