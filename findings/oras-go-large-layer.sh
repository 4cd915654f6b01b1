#!/bin/bash
# Go oras.land/oras-go/v2 2.7.0: oci.NewFromTar reads a layer larger than 8 GiB as if it were empty.
#
# The size of such a member doesn't fit in the tar header proper; archive/tar, and so crane, skopeo and Docker, write it
# in a PAX header before that. The package remembers where the second header begins, and reads from there without the first.
# Seen: 0 bytes, EOF
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
export GOFLAGS=-mod=mod GOWORK=off
cat >go.mod <<'END'
module try

go 1.26

require oras.land/oras-go/v2 v2.7.0
END

cat >main.go <<'END'
package main

import (
	"archive/tar"
	"context"
	_ "crypto/sha256"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/oci"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	const size = 9 << 30 // a sparse file
	layer := digest.FromString("some layer")
	file, err := os.Create("layout.tar")
	must(err)
	writer := tar.NewWriter(file)
	for name, content := range map[string]string{v1.ImageLayoutFile: `{"imageLayoutVersion":"1.0.0"}`, v1.ImageIndexFile: `{"schemaVersion":2,"manifests":[]}`} {
		must(writer.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}))
		_, err := writer.Write([]byte(content))
		must(err)
	}
	must(writer.WriteHeader(&tar.Header{Name: "blobs/sha256/" + layer.Encoded(), Mode: 0o644, Size: size}))
	_, err = file.Seek(size, io.SeekCurrent)
	must(err)
	must(tar.NewWriter(file).Close())

	store, err := oci.NewFromTar(context.Background(), "layout.tar")
	must(err)
	found, err := store.Resolve(context.Background(), layer.String())
	must(err)
	reader, err := store.Fetch(context.Background(), found)
	must(err)
	n, err := io.CopyN(io.Discard, reader, 1<<20)
	fmt.Printf("oras-go 2.7.0: a layer of %d bytes: %d bytes, %v\n", found.Size, n, err)
	if n != 0 || err != io.EOF {
		os.Exit(1)
	}
}
END
go run .
