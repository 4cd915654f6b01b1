#!/bin/bash
# PyPI moto 5.2.5: the fake S3 honors conditions on PutObject and DeleteObject, not on CopyObject and DeleteObjects.
#
# Amazon S3 answers 412 to a CopyObject with If-None-Match: * onto an existing key, and reports an error for a key of
# DeleteObjects whose ETag differs. A lock built on those passes its tests here and isn't tested.
# Seen: put refused, delete refused, copy overwrites, DeleteObjects deletes
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check 'moto[s3]==5.2.5' boto3==1.44.8

cat >"$dir/try.py" <<'END'
import os, sys
import boto3
from botocore.exceptions import ClientError
from moto import mock_aws

os.environ.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_DEFAULT_REGION="us-east-1")

def outcome(call, **arguments):
    try:
        answer = call(Bucket="bucket", **arguments)
        return "error" if answer.get("Errors") else "done"
    except ClientError as error:
        return error.response["Error"]["Code"]

with mock_aws():
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="bucket")
    for key in "source", "target":
        s3.put_object(Bucket="bucket", Key=key, Body=key.encode())
    seen = {
        "put": outcome(s3.put_object, Key="target", Body=b"x", IfNoneMatch="*"),
        "delete": outcome(s3.delete_object, Key="target", IfMatch='"00"'),
        "copy": outcome(s3.copy_object, Key="target", CopySource="bucket/source", IfNoneMatch="*"),
        "deleteobjects": outcome(s3.delete_objects, Delete={"Objects": [{"Key": "target", "ETag": '"00"'}]}),
    }
print("moto 5.2.5:", seen)
want = {"put": "PreconditionFailed", "delete": "PreconditionFailed", "copy": "done", "deleteobjects": "done"}
sys.exit(0 if seen == want else 1)
END
"$dir/venv/bin/python" "$dir/try.py"
