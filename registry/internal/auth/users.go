package auth

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// maxCost is the highest bcrypt cost taken from a file: it already costs about
// ten seconds of a core, and each further step twice that.
const maxCost = 17

// users is one reading of a password file. It never changes.
type users struct {
	byName map[string]user
	// disabled are the users who can't log in until they are enabled. The value is the last hash.
	disabled map[string]string
	costs    []int // of the hashes, in the order of the file
	broken   []brokenLine
}

// user is a line that gives access.
type user struct {
	name, hash string
	stamp      string // ties sessions and tokens to the hash
	bond       string // ties personal access tokens to the hash in any spelling
}

// brokenLine is a line that gives no one access. It holds no part of the hash,
// nor of a line without a colon, which may be anything, a password too.
type brokenLine struct {
	number int
	user   string
	reason string
}

// parseUsers reads the lines of an htpasswd file. Empty lines and those that
// begin with # say nothing; of two lines for one user the last counts, also
// if it gives no one access. A hash after an exclamation mark is that of a disabled user.
func parseUsers(content []byte) *users {
	u := &users{byName: map[string]user{}, disabled: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, hash, found := strings.Cut(line, ":")
		if !found {
			u.broken = append(u.broken, brokenLine{number, "", "no colon"})
			continue
		}
		delete(u.disabled, name)
		if last, disabled := strings.CutPrefix(hash, disabledPrefix); disabled && name != "" {
			u.disabled[name] = last
			delete(u.byName, name)
			continue
		}
		cost, err := checkLine(name, hash)
		if err != nil {
			u.broken = append(u.broken, brokenLine{number, name, err.Error()})
			delete(u.byName, name)
			continue
		}
		u.byName[name] = user{name, hash, stampOf(hash), stampOf(hash[len("$2a"):])}
		u.costs = append(u.costs, cost)
	}
	return u
}

// isDisabled reports whether the user is disabled.
func (u *users) isDisabled(name string) bool {
	_, disabled := u.disabled[name]
	return disabled
}

// UserNames are the users whom an htpasswd file lets in, in no order.
func UserNames(content []byte) []string {
	return slices.Collect(maps.Keys(parseUsers(content).byName))
}

// BrokenLines describes which lines of an htpasswd file at path give no one access, why, and what to do.
func BrokenLines(path string, content []byte) []string {
	var lines []string
	for _, b := range parseUsers(content).broken {
		user := b.user
		if user == "" {
			user = "USER"
		}
		lines = append(lines, fmt.Sprintf("line %d of %s gives no one access, %s: registry htpasswd %[2]s %[4]s", b.number, path, b.reason, user))
	}
	return lines
}

// respelled returns a bcrypt hash with another letter of its version, which means the same.
func respelled(hash string) string {
	next := map[byte]string{'a': "b", 'b': "y", 'y': "a"}
	if _, err := checkHash(hash); err != nil {
		return hash
	}
	return hash[:2] + next[hash[2]] + hash[3:]
}

// stampOf is another text for each hash, and says nothing of it.
func stampOf(hash string) string {
	sum := sha256.Sum256([]byte("slipway token " + hash))
	return hex.EncodeToString(sum[:8])
}

func checkLine(name, hash string) (cost int, err error) {
	switch {
	case hash == "":
		return 0, errors.New("nothing after the colon")
	case name == "":
		return 0, errors.New("no user name before the colon")
	}
	return checkHash(hash)
}

// checkHash accepts what bcrypt can compare and says of the rest what it is.
func checkHash(hash string) (cost int, err error) {
	switch {
	case strings.HasPrefix(hash, "$2a$"), strings.HasPrefix(hash, "$2b$"), strings.HasPrefix(hash, "$2y$"):
	case strings.HasPrefix(hash, "$apr1$"), strings.HasPrefix(hash, "$1$"):
		return 0, errors.New("an MD5 hash; only bcrypt is accepted")
	case strings.HasPrefix(hash, "{SHA}"), strings.HasPrefix(hash, "$5$"), strings.HasPrefix(hash, "$6$"):
		return 0, errors.New("an SHA hash; only bcrypt is accepted")
	default:
		return 0, errors.New("not a bcrypt hash")
	}
	const length = 60
	if len(hash) != length || strings.Trim(hash[7:], bcryptAlphabet) != "" {
		return 0, errors.New("a damaged bcrypt hash")
	}
	cost, err = bcrypt.Cost([]byte(hash))
	if err != nil {
		return 0, errors.New("a damaged bcrypt hash")
	}
	if cost > maxCost {
		return 0, errors.New("a bcrypt cost above 17")
	}
	return cost, nil
}

const bcryptAlphabet = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// find returns the user with that name, or a decoy for one that does not exist: the
// comparison then takes as long as that of a user who does, and no password
// matches it. Which cost a decoy has depends on the name alone, so that files
// with mixed costs do not betray who is in them.
func (u *users) find(name []byte, seed maphash.Seed) (found user, known bool) {
	if found, ok := u.byName[string(name)]; ok {
		return found, true
	}
	cost := bcrypt.DefaultCost
	if n := uint64(len(u.costs)); n > 0 {
		cost = u.costs[maphash.Bytes(seed, name)%n]
	}
	return user{hash: decoy(cost)}, false
}

// decoy is a well-formed hash of the cost that matches no known password.
func decoy(cost int) string {
	return fmt.Sprintf("$2a$%02d$NoSuchUserInThisFileNobodyKnowsThePasswordOfThisHash.", cost)
}
