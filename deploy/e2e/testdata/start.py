#!/usr/bin/python3
"""What the entry point of the official Synapse image does in its mode "run":
become $UID:$GID (991 unless given) when root, and run the homeserver with the
arguments, and with /data/homeserver.yaml when they name no configuration."""
import os
import sys

mode = sys.argv[1] if len(sys.argv) > 1 else "run"
if mode != "run":
    sys.exit(f"Unknown execution mode '{mode}'")

args = sys.argv[2:]
if "-m" not in args:
    args = ["-m", os.environ.get("SYNAPSE_WORKER", "synapse.app.homeserver")] + args
if not any(a.startswith(("--config-path", "-c")) for a in args):
    directory = os.environ.get("SYNAPSE_CONFIG_DIR", "/data")
    path = os.environ.get("SYNAPSE_CONFIG_PATH", directory + "/homeserver.yaml")
    if not os.path.exists(path):
        sys.exit(f"Config file '{path}' does not exist.")
    args += ["--config-path", path]

args = [sys.executable] + args
if "UID" in os.environ:
    args = ["gosu", f"{int(os.environ['UID'])}:{int(os.environ.get('GID', '991'))}"] + args
elif os.getuid() == 0:
    args = ["gosu", "991:991"] + args
program = "/usr/sbin/gosu" if args[0] == "gosu" else sys.executable
os.execve(program, args, os.environ)
