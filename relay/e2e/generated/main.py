"""Sends, lists and withdraws a message with the client that openapi-python-client makes of relay/openapi/openapi.yml: main.py BASE TOKEN."""

import sys

from relay_client import AuthenticatedClient
from relay_client.api.message import get_message, list_messages, send_message, withdraw_message
from relay_client.models import PriorityType0, Problem, Submission

base, token = sys.argv[1:]
client = AuthenticatedClient(base_url=base, token=token)
submission = Submission(title="Python", message="sent by Python", priority=PriorityType0.HIGH)
sent = send_message.sync(client=client, body=submission, wait="20s", idempotency_key="from-python")
assert not isinstance(sent, Problem) and sent.priority == 1 and sent.status == "sent", sent
page = list_messages.sync(client=client, state="sent")
assert page.messages[0].id == sent.id and page.messages[0].title == "Python", page
assert withdraw_message.sync(id=sent.id, client=client).id == sent.id
missing = get_message.sync(id=sent.id + 1000, client=client)
assert isinstance(missing, Problem) and missing.code == "not_found", missing
