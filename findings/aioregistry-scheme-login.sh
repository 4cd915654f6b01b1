#!/bin/bash
# PyPI aioregistry 0.7.3: a login of Docker's configuration isn't used for an image whose name has a scheme.
#
# A registry without TLS on another machine needs http:// in the name. The credentials are then looked up under http://HOST:PORT,
# which no "docker login" writes, so requests go without, and the error is "unauthorized". With https:// it is the same.
# Seen: http://HOST -> login of http://HOST, no Authorization, unauthorized; HOST (which is HTTP on loopback) -> login of HOST, ['v1']
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check aioregistry==0.7.3

cat >"$dir/try.py" <<'END'
import asyncio, base64, http.server, sys, threading
from aioregistry import AsyncRegistryClient, parse_image_name
from aioregistry.auth import DockerCredentialStore

sent = []

class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        sent.append(self.headers.get("Authorization"))
        body = b'{"name": "app", "tags": ["v1"]}'
        self.send_response(200 if sent[-1] else 401)
        self.send_header("WWW-Authenticate", 'Basic realm="test"')
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
threading.Thread(target=server.serve_forever, daemon=True).start()
host = f"127.0.0.1:{server.server_port}"

class Store(DockerCredentialStore):
    asked = []

    async def get(self, name):
        self.asked.append(name.replace(host, "HOST"))
        return await super().get(name)

async def main():
    ends = []
    store = Store({"auths": {host: {"auth": base64.b64encode(b"ada:secret").decode()}}})
    async with AsyncRegistryClient(creds=store) as client:
        for scheme in "http://", "":
            image = parse_image_name(f"{scheme}{host}/app:v1")
            try:
                end = await client.registry_repo_tags(image.registry, image.repo)
            except Exception as error:
                end = str(error)
            print("aioregistry 0.7.3:", scheme or "no scheme", "-> login of", store.asked[-1], "->", end)
            ends.append(end)
    alike = store.asked == ["http://HOST", "HOST"] and sent == [None, "Basic YWRhOnNlY3JldA=="]
    return 0 if alike and ends == ["Failed to make request, unauthorized", ["v1"]] else 1

sys.exit(asyncio.run(main()))
END
"$dir/venv/bin/python" "$dir/try.py"
