#!/usr/bin/env python3
"""Makes first-edition.sql: a database that the first edition of the relay has written, with messages in every state.

    git worktree add /tmp/first a45f881 && (cd /tmp/first && go build -o /tmp/relay-first ./relay/cmd/relay)
    ./first-edition.py /tmp/relay-first

It runs that binary against a homeserver that fails room by room, kills it with SIGKILL, and dumps its database. What the
homeserver has got until then stands at the end of the dump, in a table of its own.
"""
import base64, json, os, re, signal, sqlite3, subprocess, sys, tempfile, threading, time, urllib.parse, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HS, RELAY = ("127.0.0.1", 18099), "127.0.0.1:18098"
device, token, events, txns, fail_upload, fail_redact = "SINK", "token1", [], {}, False, False


class Homeserver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def fail(self, status, code):
        self.answer({"errcode": code, "error": code}, status)

    def handle_all(self):
        path = urllib.parse.urlsplit(self.path).path
        seg = [urllib.parse.unquote(s) for s in re.sub(r"^/_matrix/(client|media)/(v\d|r0)/", "", path).split("/")]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path.endswith("/versions"):
            return self.answer({"versions": ["v1.11"]})
        if seg[0] == "login":
            return self.answer({"user_id": "@bot:hs", "access_token": token, "device_id": device})
        if self.headers.get("Authorization") != "Bearer " + token:
            return self.fail(401, "M_UNKNOWN_TOKEN")
        if seg[-1] == "whoami":
            return self.answer({"user_id": "@bot:hs", "device_id": device})
        if seg[0] == "sync":
            if "since=" in self.path:
                time.sleep(20)
            return self.answer({"next_batch": "s1"})
        if seg[0] == "upload":
            return self.fail(500, "M_UNKNOWN") if fail_upload else self.answer({"content_uri": "mxc://hs/file"})
        if seg[0] == "rooms" and seg[2] == "messages":
            if seg[1] == "!doubt:hs":
                return self.fail(500, "M_UNKNOWN")
            return self.answer({"chunk": [], "start": "a", "end": "b%d" % time.time_ns()})  # without an end
        if seg[0] == "rooms" and seg[2] == "redact":
            return self.fail(500, "M_UNKNOWN") if fail_redact else self.answer({"event_id": "$redaction"})
        if seg[0] == "rooms" and seg[2] == "send":
            return self.event(seg[1], seg[4], json.loads(body))
        if seg[0] == "rooms" and seg[2] == "state":
            return self.fail(404, "M_NOT_FOUND")
        if seg[0] == "join":
            return self.fail(403, "M_FORBIDDEN")
        self.answer({})

    def event(self, room, txn, content):
        if room == "!blocked:hs":
            return self.fail(403, "M_FORBIDDEN")
        if "never" in content["body"]:
            return self.fail(400, "M_BAD_JSON")
        if "lost before" not in content["body"]:  # it arrives
            key = device + room + txn
            if key not in txns:
                txns[key] = "$%d" % (len(txns) + 1)
                events.append((room, device, txn, txns[key], content["body"][:40]))
            if "lost" not in content["body"]:
                return self.answer({"event_id": txns[key]})
        self.close_connection = True

    do_GET = do_PUT = do_POST = handle_all


def api(method, path, value=None, key=False):
    r = urllib.request.Request("http://" + RELAY + path, method=method, data=json.dumps(value).encode() if value is not None else None)
    r.add_header("Content-Type", "application/json")
    if not value or "token" not in value:
        r.add_header("Authorization", "Basic " + base64.b64encode(b"admin:administrator").decode())
    if key:
        r.add_header("Idempotency-Key", "key of " + value["message"][:20])
    with urllib.request.urlopen(r) as answer:
        body = answer.read()
        return json.loads(body) if body else None


def main(binary):
    global fail_upload, fail_redact, device, token
    threading.Thread(target=ThreadingHTTPServer(HS, Homeserver).serve_forever, daemon=True).start()
    work = tempfile.mkdtemp()
    with open(work + "/relay.yml", "w") as f:
        f.write("http: {listenaddress: '%s'}\ndatabase: {connection: %s/relay.db}\n" % (RELAY, work) +
                "matrix: {homeserver: 'http://%s:%d', username: '@bot:hs', password: bot}\n" % HS +
                "admin: {name: admin, password: administrator, matrixid: '@admin:hs'}\n")
    relay = subprocess.Popen([binary, "serve", work + "/relay.yml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        try:
            urllib.request.urlopen("http://" + RELAY + "/health")
            break
        except OSError:
            time.sleep(0.1)
    apps = {n: api("POST", "/application", {"name": n, "room_id": "!%s:hs" % n}) for n in ("good", "blocked", "lost", "doubt", "unsure", "dead")}

    def send(app, text, key=False):
        return api("POST", "/message", {"token": apps[app]["token"], "message": text}, key)["id"]

    long = "long " * 20_000
    time.sleep(1)
    send("good", "sent", key=True)
    removed = send("good", "removed")
    send("good", long + "with its file")
    send("dead", "never taken")
    time.sleep(2)
    api("DELETE", "/message/%s" % removed)
    send("blocked", "first in a blocked room")
    cancelled = send("blocked", "cancelled while it waits")
    send("blocked", long + "cut and not sent yet", key=True)
    time.sleep(1)
    api("DELETE", "/message/%s" % cancelled)
    # In doubt: cancelled after a lost answer; and after a lost answer the bot has another device.
    doubt = send("doubt", "lost before it arrived, cancelled")
    send("unsure", "lost after it arrived, another device")
    time.sleep(0.7)
    api("DELETE", "/message/%s" % doubt)
    device, token = "SINK2", "token2"
    time.sleep(8)
    # What is left in the middle: a file, a removal, an attempt without an answer with messages behind it.
    fail_upload = fail_redact = True
    withdrawn = send("dead", "withdrawn, not removed yet")
    send("good", long + "without its file yet")
    time.sleep(1)
    api("DELETE", "/message/%s" % withdrawn)
    send("lost", "lost after it arrived")
    for i in range(3):
        send("lost", "waits behind it %d" % i, key=True)
    time.sleep(2)
    relay.send_signal(signal.SIGKILL)
    relay.wait()
    db = sqlite3.connect(work + "/relay.db")
    db.execute("CREATE TABLE arrived (room, device, txn, event_id, body)")
    db.executemany("INSERT INTO arrived VALUES (?, ?, ?, ?, ?)", events)
    db.commit()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "first-edition.sql"), "w") as f:
        for line in db.iterdump():
            f.write(line.replace("long " * 20_000, "\x01") + "\n")
    for row in db.execute("SELECT o.id, o.op, o.room, o.state, o.step, o.attempts, o.first_attempt_at > 0, o.device, o.error, substr(replace(m.body, 'long ', ''), 1, 40) FROM outbox o JOIN messages m ON m.id = o.message_id"):
        print(row)


main(sys.argv[1])
