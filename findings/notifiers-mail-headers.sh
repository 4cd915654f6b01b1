#!/bin/bash
# PyPI notifiers 2.0.0: its mails have no Message-ID and no MIME-Version, though they are multipart.
#
# A receiver that drops repeated deliveries by Message-ID can't recognize these, and one that follows RFC 2045 strictly
# reads the body without MIME-Version as plain text, boundaries included.
# Seen: multipart/alternative, Message-ID None, MIME-Version None
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check notifiers==2.0.0 aiosmtpd==1.4.6

cat >"$dir/try.py" <<'END'
import email, socket, sys
from aiosmtpd.controller import Controller
from notifiers import get_notifier

mails = []

class Keep:
    async def handle_DATA(self, server, session, envelope):
        mails.append(email.message_from_bytes(envelope.content))
        return "250 OK"

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
controller = Controller(Keep(), hostname="127.0.0.1", port=port)
controller.start()
get_notifier("email").notify(to="b@example.org", from_="a@example.org", subject="s", message="m", host="127.0.0.1", port=port, raise_on_errors=True)
controller.stop()
mail = mails[0]
print("notifiers 2.0.0:", mail.get_content_type(), "Message-ID", mail["Message-ID"], "MIME-Version", mail["MIME-Version"])
sys.exit(0 if mail.is_multipart() and mail["Message-ID"] is None and mail["MIME-Version"] is None else 1)
END
"$dir/venv/bin/python" "$dir/try.py"
