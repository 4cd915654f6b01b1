package harness

import (
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// WriteUser writes a password file with one user.
func WriteUser(t *testing.T, path, user, password string) {
	t.Helper()
	WriteFile(t, path, []byte(HashLine(t, user, password)))
}

// HashLine is a user's line of a password file.
func HashLine(t testing.TB, user, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return user + ":" + string(hash) + "\n"
}
