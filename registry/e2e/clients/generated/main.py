"""Makes a robot, deletes a tag and restores it with the client that openapi-python-client makes of registry/openapi/openapi.yml: main.py BASE USER PASSWORD."""

import base64
import sys

from registry_client import AuthenticatedClient
from registry_client.api.content import delete_manifest, list_tags
from registry_client.api.deleted import list_deleted, restore
from registry_client.api.robot import create_robot
from registry_client.models import Errors, Right, RobotInput, Selection

REPOSITORY = "team/app"


def client_of(base: str, user: str, password: str) -> AuthenticatedClient:
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return AuthenticatedClient(base_url=base, token=token, prefix="Basic")


base, user, password = sys.argv[1:]
robot = RobotInput(name="python", repositories=[REPOSITORY], allow=[Right.PULL, Right.PUSH, Right.DELETE])
made = create_robot.sync(client=client_of(base, user, password), body=robot, idempotency_key="from-python")
assert not isinstance(made, Errors) and made.username == "robot+python", made
again = create_robot.sync(client=client_of(base, user, password), body=robot, idempotency_key="from-python")
assert again.password == made.password

client = client_of(base, made.username, made.password)
assert delete_manifest.sync_detailed(REPOSITORY, "v1", client=client).status_code == 202
deletions = list_deleted.sync(REPOSITORY, client=client).deleted
assert deletions[0].by == "robot:python", deletions
restored = restore.sync(REPOSITORY, client=client, body=Selection(deletion=deletions[0].id))
assert "v1" in restored.tags.additional_properties, restored
assert "v1" in list_tags.sync(REPOSITORY, client=client).tags
denied = create_robot.sync(client=client, body=RobotInput(name="another"))
assert isinstance(denied, Errors) and denied.errors[0].code == "DENIED", denied
