#!/bin/bash
# PyPI yagmail 0.16.0: all mails with the same sender, recipients and subject have the same Message-ID, and of several texts only the
# first is in the HTML part of the mail, which mail programs show.
#
# The Message-ID is a hash of these three, so that mail programs group them. Servers and mailboxes that know a mail by its Message-ID keep the first
# of a job's mails with the subject "Backup failed", and drop those of the next nights. group_messages=False makes another one each time.
# contents may be a list, as in its README, and each text gets a <div>. After each one all is given to premailer, which makes a whole
# document of it; the next <div> comes after </html>, and is lost in the next turn. The plain part has all texts.
# Seen: one Message-ID in two mails with other texts; two with group_messages=False; text/html with the first text only, with
# premailer 3.10.0 and lxml 6.1.3
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv env
env/bin/pip install --quiet --disable-pip-version-check yagmail==0.16.0 premailer==3.10.0 lxml==6.1.3

cat >try.py <<'END_TRY'
import email
import socketserver
import threading

import yagmail

mails = []


class Session(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"220 test\r\n")
        while line := self.rfile.readline():
            verb = line[:4].upper()
            if verb == b"EHLO":
                self.wfile.write(b"250-test\r\n250 AUTH PLAIN\r\n")
            elif verb == b"AUTH":
                self.wfile.write(b"235 ok\r\n")
            elif verb == b"DATA":
                self.wfile.write(b"354 go\r\n")
                mail = b""
                while (line := self.rfile.readline()) != b".\r\n":
                    mail += line
                mails.append(email.message_from_bytes(mail))
                self.wfile.write(b"250 ok\r\n")
            elif verb == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 ok\r\n")


server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
client = yagmail.SMTP("nas@example.org", "secret", "127.0.0.1", server.server_address[1], smtp_starttls=False, smtp_ssl=False)
for day in ("Monday", "Tuesday"):
    client.send("ops@example.org", "Backup failed", "on " + day)
for day in ("Monday", "Tuesday"):
    client.send("ops@example.org", "Backup failed", "on " + day, group_messages=False)
client.send("ops@example.org", "Backup", ["Backup of nas1: done", "Backup of nas2: failed"])
client.close()
ids = [m["Message-ID"] for m in mails[:4]]
parts = {p.get_content_type(): p.get_payload(decode=True).decode() for p in mails[4].walk() if not p.is_multipart()}
print("yagmail 0.16.0:", *ids)
for kind, text in parts.items():
    print(kind, repr(text))
plain, html = parts["text/plain"], parts["text/html"]
ok = len(ids) == 4 and ids[0] == ids[1] and len(set(ids)) == 3
ok = ok and "nas1" in plain and "nas2" in plain and "nas1" in html and "nas2" not in html
raise SystemExit(0 if ok else 1)
END_TRY
timeout 60 env/bin/python try.py
