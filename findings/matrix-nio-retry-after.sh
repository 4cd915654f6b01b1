#!/bin/bash
# PyPI matrix-nio 0.26.0: a 429 with Retry-After alone is repeated after 5 seconds, whatever the header says.
#
# Since version 1.10 of the Matrix specification the header replaces the field retry_after_ms, which is deprecated. The
# client reads the field only.
# Seen: 5 s after "Retry-After: 1", 1 s with the field
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check matrix-nio==0.26.0

cat >"$dir/try.py" <<'END'
import asyncio, json, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from nio import AsyncClient

field = {}
slept = []

class Homeserver(BaseHTTPRequestHandler):
    asked = 0

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        Homeserver.asked += 1
        refuse = Homeserver.asked % 2 == 1
        body = {"errcode": "M_LIMIT_EXCEEDED", "error": "slow down", **field} if refuse else {"event_id": "$e"}
        self.send_response(429 if refuse else 200)
        self.send_header("Retry-After", "1")
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass

async def send(url):
    client = AsyncClient(url, "@a:example.org")
    client.access_token = "t"
    pause = asyncio.sleep
    asyncio.sleep = lambda seconds, *rest: slept.append(seconds) or pause(0)
    try:
        await client.room_send("!r:example.org", "m.room.message", {"msgtype": "m.text", "body": "hi"})
    finally:
        asyncio.sleep = pause
        await client.close()

server = ThreadingHTTPServer(("127.0.0.1", 0), Homeserver)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
asyncio.run(send(url))
header, slept = [s for s in slept if s], []
field["retry_after_ms"] = 1000
asyncio.run(send(url))
field_too = [s for s in slept if s]
print("matrix-nio 0.26.0 waits", header, "s after Retry-After: 1, and", field_too, "s with retry_after_ms 1000")
sys.exit(0 if header == [5] and field_too == [1] else 1)
END
"$dir/venv/bin/python" "$dir/try.py"
