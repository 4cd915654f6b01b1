#!/bin/bash
# PyPI django-ntfy 0.1.1: a mail object that is sent four times keeps three characters of its subject.
#
# The rate-limiting backend adds " (2)" to the subject of a repeated mail and cuts it off afterwards, but counts from the beginning. Later
# mails of the object have the short subject, and count as another mail, so the limit starts again.
# Seen: Backup failed, Backup failed, nothing, Backup failed (2), Bac, Bac
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check django-ntfy==0.1.1 django==5.2.19

cat >"$dir/try.py" <<'END'
import http.server, json, sys, threading
from django.conf import settings

titles = []

class Ntfy(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        titles.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["title"])
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Ntfy)
threading.Thread(target=server.serve_forever, daemon=True).start()
settings.configure(NTFY_BASE_URL=f"http://127.0.0.1:{server.server_port}", NTFY_DEFAULT_TOPIC="alerts")

from django.core.mail import EmailMessage, get_connection

connection = get_connection("django_ntfy.NtfyBackendExponentialRateLimitBackend")
mail = EmailMessage("Backup failed", "x", "a@example.org", ["b@example.org"])
sent = [connection.send_messages([mail]) for _ in range(6)]
print("django-ntfy 0.1.1:", sent, titles)
want = ["Backup failed", "Backup failed", "Backup failed (2)", "Bac", "Bac"]
sys.exit(0 if sent == [1, 1, 0, 1, 1, 1] and titles == want else 1)
END
"$dir/venv/bin/python" "$dir/try.py"
