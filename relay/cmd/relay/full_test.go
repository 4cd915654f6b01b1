package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/shared/programtest"
)

// A relay that starts on a full disk says so until there is room.
func TestServe_DiskIsFull(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprint("with a database ", before), func(t *testing.T) {
			d := newDesk(t)
			dir := programtest.Mount(t, "tmpfs", "size=8m")
			d.file = filepath.Join(dir, "relay.yml")
			d.configure("relay.yml", "")
			if before {
				d.serve()()
			}
			filler := filepath.Join(dir, "filler")
			programtest.Fill(t, filler)
			stop := d.serve()
			ask := func(path string) (status int, text string) {
				resp, err := http.Get("http://" + d.addr + path) //nolint:noctx // it answers at once
				if err != nil {
					return 0, err.Error() // one server gives way to the other
				}
				defer resp.Body.Close()
				body, _ := io.ReadAll(resp.Body)
				return resp.StatusCode, string(body)
			}
			if status, text := ask("/health"); status != 503 || !strings.Contains(text, `"red"`) || !strings.Contains(text, "The disk of the database is full") {
				t.Errorf("health: %d %s", status, text)
			}
			if status, text := ask("/livez"); status != 200 {
				t.Errorf("alive: %d %s", status, text)
			}
			if status, text := ask("/readyz"); status != 503 {
				t.Errorf("ready: %d %s", status, text)
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			status, text := 0, ""
			for end := time.Now().Add(time.Minute); status != 200 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				status, text = ask("/health")
			}
			if status != 200 {
				t.Errorf("with room: %d %s", status, text)
			}
			if code := stop(); code != 0 {
				t.Errorf("exit code %d\n%s", code, d.errout)
			}
		})
	}
}
