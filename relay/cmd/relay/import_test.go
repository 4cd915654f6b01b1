package main

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImportPushBits: what PushBits wrote is taken over once, and what changes here
// afterwards is not brought back.
func TestImportPushBits(t *testing.T) {
	d := newDesk(t)
	old := pushBitsFile(t)
	line := "import pushbits --config % " + old
	d.does(0, line+" --dry-run", `imported  user         "Carol"`, "6 of 9 would be imported; nothing was changed")
	d.does(0, "app list --config %")
	if strings.Contains(d.out, "backup") {
		t.Fatalf("a dry run has imported:\n%s", d.out)
	}

	d.does(0, line, `skipped   user         "admin"       already exists; left unchanged`, `imported  user         "Carol"       with the password`,
		`skipped   user         "carol"       names are case-insensitive here and Carol exists; the applications go to admin`,
		`skipped   user         "a:b"`, `imported  application  "backup"      with its token, as backup 2`, `imported  application  "cron"        with its token, to admin`, "6 of 9 imported")
	d.does(0, line, `skipped  application  "backup"      already exists`, "0 of 9 imported")
	d.does(0, "app list --config %", "backup 2", "watchtower", "sensors")

	stop := d.serve()
	d.sends("AKgxq8bx8r6pdlQ0UjflE7E6CWzUcXDXLB127EFvd82CGIamW59kBHVdd6g77kqN", 200) // as PushBits gave it out
	d.sends("Ask6hyH03Af0tvH", 200)
	d.sends("AnotherTokenThatNobodyHas", 401)
	for range 2 { // the second time against the hash of our own
		d.logsIn("Carol", "battery staple", 200)
		d.logsIn("Carol", "another staple", 401)
	}
	d.does(1, line, "a relay uses the database")
	d.does(0, "app token create watchtower --config %")
	stop()
	d.does(0, line, `skipped  application  "watchtower"  was imported earlier, and was deleted or given a new token since`, "0 of 9 imported")
}

// asks sends a request and fails the test unless the answer has the status.
func (d *desk) asks(status int, path, body string, prepare func(*http.Request)) {
	d.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(d.Context(), method, "http://"+d.addr+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	prepare(req)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != status {
		d.Errorf("%s: %s, want %d", path, resp.Status, status)
	}
}

func (d *desk) sends(token string, status int) {
	d.Helper()
	d.asks(status, "/message", `{"message":"hello"}`, func(r *http.Request) { r.Header.Set("X-Gotify-Key", token) })
}

func (d *desk) logsIn(name, password string, status int) {
	d.Helper()
	d.asks(status, "/application", "", func(r *http.Request) { r.SetBasicAuth(name, password) })
}

func pushBitsFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../internal/store/testdata/pushbits.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pushbits.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(string(text)); err != nil {
		t.Fatal(err)
	}
	return path
}
