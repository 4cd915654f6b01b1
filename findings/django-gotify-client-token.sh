#!/bin/bash
# PyPI django-gotify 0.4.0: its mail backend sends nothing with an application's token alone.
#
# Before each mail it asks for the server's health, which needs no token at Gotify. The library gotify 0.6.0 refuses to ask without a
# client's token, and takes any text for one.
# Seen: GotifyConfigurationError and no request; with the client token "x" the health and the message.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check django-gotify==0.4.0 gotify==0.6.0 django==5.2.19

cat >"$dir/try.py" <<'END'
import http.server, json, sys, threading
from django.conf import settings

asked = []

class Gotify(http.server.BaseHTTPRequestHandler):
    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked.append(f"{self.command} {self.path}")
        body = json.dumps({"health": "green", "database": "green", "id": 1}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Gotify)
threading.Thread(target=server.serve_forever, daemon=True).start()
settings.configure(GOTIFY_URL=f"http://127.0.0.1:{server.server_port}", GOTIFY_TOKEN="Aapplication")

from django.core.mail import EmailMessage, get_connection

def send(**options):
    del asked[:]
    try:
        connection = get_connection("django_gotify.email.GotifyEmailBackend", **options)
        outcome = connection.send_messages([EmailMessage("Title", "body", "a@example.org", ["b@example.org"])])
    except Exception as error:
        outcome = type(error).__name__
    return outcome, list(asked)

without, with_client = send(), send(client_token="x")
print("django-gotify 0.4.0:", without, with_client)
sys.exit(0 if without == ("GotifyConfigurationError", []) and with_client == (1, ["GET /health", "POST /message"]) else 1)
END
"$dir/venv/bin/python" "$dir/try.py"
