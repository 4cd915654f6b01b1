#!/bin/bash
# MinIO of 2026-02-12: in a bucket with versions a listing with a delimiter has the prefixes of deleted objects, one without has not.
#
# ListObjectsV2 leaves out objects whose newest version is a delete marker. With a delimiter MinIO still answers their prefix, for good,
# so a program that takes prefixes for directories goes on showing what was deleted: a registry its deleted tags, for instance.
# Seen: with versions ['a/', 'b/'] and keys ['a/x']; without versions ['a/'] and keys ['a/x']
set -euo pipefail
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$dir"' EXIT
GOBIN=$dir CGO_ENABLED=0 GOFLAGS=-trimpath GOWORK=off go install github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check boto3==1.44.8
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
MINIO_ROOT_USER=finding MINIO_ROOT_PASSWORD=findingsecret MINIO_BROWSER=off "$dir/minio" server --quiet --address "127.0.0.1:$port" "$dir/data" >"$dir/log" 2>&1 &
server=$!

cat >"$dir/try.py" <<'END'
import sys, time
import boto3
from botocore.exceptions import ClientError, EndpointConnectionError

s3 = boto3.client("s3", endpoint_url=sys.argv[1], aws_access_key_id="finding", aws_secret_access_key="findingsecret", region_name="us-east-1")
for attempt in range(100):
    try:
        s3.list_buckets()
        break
    except (ClientError, EndpointConnectionError):
        time.sleep(0.2)
seen = {}
for bucket in "versions", "plain":
    s3.create_bucket(Bucket=bucket)
    if bucket == "versions":
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in "a/x", "b/x":
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    s3.delete_object(Bucket=bucket, Key="b/x")
    prefixes = [p["Prefix"] for p in s3.list_objects_v2(Bucket=bucket, Delimiter="/").get("CommonPrefixes", [])]
    keys = [o["Key"] for o in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
    seen[bucket] = prefixes, keys
print("minio 2026-02-12:", seen)
sys.exit(0 if seen == {"versions": (["a/", "b/"], ["a/x"]), "plain": (["a/"], ["a/x"])} else 1)
END
"$dir/venv/bin/python" "$dir/try.py" "http://127.0.0.1:$port"
