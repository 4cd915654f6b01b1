package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/registry/internal/proxy"
)

func TestSyncBar(t *testing.T) {
	var out bytes.Buffer
	bar := &syncBar{out: &out, on: true}
	bar.show(proxy.Progress{Image: "hub/app:1", Blobs: 1, All: 4, Bytes: 3 << 20})
	if got := out.String(); !strings.HasSuffix(got, "[#####...............] hub/app:1: 1 of 4 blobs, 3.0 MiB fetched") {
		t.Errorf("%q", got)
	}
	out.Reset()
	bar.shown = time.Now().Add(time.Hour) // a moment ago, whatever the machine does
	bar.show(proxy.Progress{Image: "hub/app:1", Blobs: 2, All: 4})
	if out.Len() > 0 {
		t.Errorf("shown again at once: %q", out.String())
	}
	bar.end()
	if out.String() != "\r\x1b[K" {
		t.Errorf("the end: %q", out.String())
	}
	out.Reset()
	quiet := &syncBar{out: &out}
	quiet.show(proxy.Progress{Image: "hub/app:1", All: 1})
	quiet.end()
	if out.Len() > 0 {
		t.Errorf("without a terminal: %q", out.String())
	}
}

// Caches take no imports, as they take no pushes.
func TestImport_IntoACache(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yml")
	config := "version: 0.1\nstorage: {filesystem: {rootdirectory: " + dir + "}}\nproxy: {upstreams: [{prefix: hub, remoteurl: 'http://127.0.0.1:1'}]}\n"
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"hub/app": true, "team/app": false} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"import", "-c", path, filepath.Join(dir, "layout"), name}, nil, &out, &errs); code == 0 || strings.Contains(errs.String(), name+" is a cache of another registry") != refused {
			t.Errorf("%s: %d %s", name, code, errs.String())
		}
	}
}
