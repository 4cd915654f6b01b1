package store

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes a database of SQL and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "push bits.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadPushBits(t *testing.T) {
	text, err := os.ReadFile("testdata/pushbits.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, string(text))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := ReadPushBits(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Users) != 4 || len(d.Applications) != 5 {
		t.Fatalf("%d users, %d applications", len(d.Users), len(d.Applications))
	}
	if u := d.Users[0]; u.ID != 1 || u.Name != "admin" || !u.Admin || u.MatrixID != "@you:localhost" || !strings.HasPrefix(u.PasswordHash, "$argon2id$v=19$m=131072,t=4,p=4$") {
		t.Errorf("first user %+v", u)
	}
	if a := d.Applications[3]; a.ID != 4 || a.UserID != 2 || a.Name != "sensors" || len(a.Token) != 64 || a.RoomID[0] != '!' {
		t.Errorf("an application %+v", a)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(before) != string(after) {
		t.Errorf("the file has changed (%v)", err)
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	const users = "CREATE TABLE users (id, name, password_hash, is_admin, matrix_id);"
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "no"):     "there is no file",
		t.TempDir():                          "is not a file",
		text:                                 "is not a database of PushBits: file is not a database",
		write(t, "CREATE TABLE other (id);"): "no such table: users",
		write(t, "CREATE TABLE users (id, name)"): "no such column",
		write(t, users):                 "no such table: applications",
		"user:pw@tcp(db:3306)/pushbits": "only PushBits' SQLite file can be read",
		"postgres://db/pushbits":        "only PushBits' SQLite file can be read",
		write(t, users+"CREATE TABLE applications (id, token, user_id, name, matrix_id); INSERT INTO users VALUES (1, zeroblob(70000), '', 0, '')"): "a value has 70000 bytes",
		write(t, users+"CREATE TABLE applications (id, token, user_id, name, matrix_id); INSERT INTO applications VALUES ('x', '', 0, '', '')"):     "converting",
	} {
		if _, err := ReadPushBits(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", path, err, want)
		}
	}
}
