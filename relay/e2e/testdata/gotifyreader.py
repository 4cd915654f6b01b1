# Reads messages as Gotify's Android app does: it keeps a stream open and, whenever that was opened, pages back to the last message that
# it knows. Prints how each message came and its text, and "open" when it has caught up.
import asyncio
import sys

import websockets.client
from gotify import AsyncGotify

last = 0
client = AsyncGotify(base_url=sys.argv[1], client_token=sys.argv[2])


def show(way, message):
    global last
    if message["id"] > last:
        last = message["id"]
        print(way, message["message"], flush=True)


async def missed():
    found, since = [], None
    while True:
        page = await client.get_messages(limit=2, since=since)
        new = [m for m in page["messages"] if m["id"] > last]
        found += new
        if len(new) < len(page["messages"]) or not page["paging"].get("next"):
            break
        since = page["paging"]["since"]
    for message in reversed(found):
        show("list", message)


class connect(websockets.client.connect):
    async def __aenter__(self):
        connection = await super().__aenter__()
        await missed()
        print("open", flush=True)
        return connection


websockets.client.connect = connect


async def main():
    assert (await client.get_health())["health"]
    assert (await client.get_version())["version"]
    assert (await client.get_current_user())["name"] == "admin"
    assert [c["name"] for c in await client.get_clients()] == ["phone"]
    assert [a["name"] for a in await client.get_applications()] == ["read"]
    while True:
        try:
            async for message in client.stream():
                show("stream", message)
        except Exception as error:  # the relay is killed
            print(error, file=sys.stderr)
        await asyncio.sleep(0.02)


asyncio.run(main())
