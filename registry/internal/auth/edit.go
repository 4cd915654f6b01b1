package auth

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/crypto/bcrypt"
)

// DefaultCost is the bcrypt cost of new passwords.
const DefaultCost = bcrypt.DefaultCost

// disabledPrefix begins the hash of a user who can't log in. No password has such a hash, here or in CNCF
// distribution, and without the prefix the password is the one from before.
const disabledPrefix = "!"

// HashPassword returns the bcrypt hash of a new password.
func HashPassword(password string, cost int) (string, error) {
	switch {
	case password == "":
		return "", errors.New("the password is empty")
	case len(password) > maxPassword:
		return "", fmt.Errorf("the password is longer than %d bytes, and bcrypt looks at no more", maxPassword)
	case strings.ContainsRune(password, 0):
		return "", errors.New("the password holds a zero byte")
	case cost < bcrypt.MinCost || cost > maxCost:
		return "", fmt.Errorf("the cost must be from %d to %d", bcrypt.MinCost, maxCost)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	// "2y" is what Apache's htpasswd -B writes; the three letters mean the same.
	return strings.Replace(string(hash), "$2a$", "$2y$", 1), err
}

// SetHash returns the content of an htpasswd file in which the user has the hash; "" removes the user.
// Every other line, comments and broken ones too, stays as it is.
func SetHash(content []byte, user, hash string) ([]byte, error) {
	rest, at, _ := withoutUser(content, user)
	if hash == "" {
		return rest, nil
	}
	if err := checkUser(user); err != nil {
		return nil, err
	}
	entry := user + ":" + hash + "\n"
	if at < 0 {
		at = len(rest)
		if at > 0 && rest[at-1] != '\n' {
			entry = "\n" + entry
		}
	}
	return append(append(rest[:at:at], entry...), rest[at:]...), nil
}

// withoutUser copies the content without the user's lines. It returns where the first of them was, -1 if there was
// none, and what the last one has after the name.
func withoutUser(content []byte, user string) (rest []byte, at int, last string) {
	at = -1
	for line := range bytes.Lines(content) {
		name, after, ok := strings.Cut(strings.TrimSpace(string(line)), ":")
		if ok && name == user {
			if at < 0 {
				at = len(rest)
			}
			last = after
			continue
		}
		rest = append(rest, line...)
	}
	return rest, at, last
}

func checkUser(user string) error {
	switch {
	case user == "":
		return errors.New("the user name is empty")
	case strings.ContainsRune(user, ':'), strings.HasPrefix(user, "#"):
		return errors.New("the user name must not contain ':' or start with '#'")
	case strings.ContainsFunc(user, unicode.IsControl), strings.TrimSpace(user) != user:
		return errors.New("the user name must not contain control characters, or start or end with a space")
	}
	return nil
}
