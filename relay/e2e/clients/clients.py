"""Sends messages with a library in Python: clients.py LIBRARY BASE TOKEN.

It sends each line of its input and answers with "ok" or the error.
"""

import sys
import warnings

library, base, token = sys.argv[1:]
warnings.simplefilter("ignore")


def slack(text):
    from slack_sdk.webhook import WebhookClient

    answer = WebhookClient(base + "/services/T0/B0/" + token).send(text=text)
    assert answer.status_code == 200 and answer.body == "ok", answer.body


def pushover(text):
    from pushover_complete import PushoverAPI, pushover_api

    pushover_api.PUSHOVER_API_URL = base + "/1/"
    api = PushoverAPI(token)
    api.validate("u" * 30)
    api.send_message("u" * 30, text, title="Title", url="https://example.org", url_title="Site")


def gotify(text):
    import gotify as library

    with library.Gotify(base_url=base, app_token=token) as client:
        assert client.create_message(text, title="Title", priority=5)["id"] > 0


def ntfy(text):
    import python_ntfy

    actions = [python_ntfy.NtfyClient.ViewAction("Site", "https://example.org")]
    client = python_ntfy.NtfyClient("alerts", server=base, auth=token)
    answer = client.send(text, title="Title", tags=["warning"], actions=actions)
    assert answer["event"] == "message", answer


def teams(text):
    import pymsteams

    card = pymsteams.connectorcard(base + "/hook/teams/" + token)
    card.title("Title").text(text).addLinkButton("Site", "https://example.org").send()


send = globals()[library]
for line in sys.stdin:
    try:
        send(line.strip())
        print("ok", flush=True)
    except Exception as e:
        print(repr(e), flush=True)
