// Package robot keeps robot accounts: named credentials for machines, with rights of
// their own. They are in the storage, so all replicas know them; of a secret only its
// hash is kept.
package robot

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"slipway/registry/internal/access"
	"slipway/registry/internal/pattern"
)

// UserPrefix precedes the name of a robot where a user name is asked
// for.
const UserPrefix = "robot+"

// secretPrefix lets scanners for leaked secrets recognize one.
const secretPrefix = "slipway_robot_"

const (
	maxNote     = 500
	maxPatterns = 50
)

// Robot is a robot account.
type Robot struct {
	Name         string    `json:"name"`
	ID           string    `json:"id"` // another one when the name is used again
	Repositories []string  `json:"repositories"`
	Allow        []string  `json:"allow"`
	Note         string    `json:"note,omitempty"`
	Created      time.Time `json:"created"`
	// CreatedBy is the caller who made the robot, as the access rules write it. Its rights
	// bound those of the robot, and without it the robot stops. "" is an operator at the
	// command line, who isn't bounded.
	CreatedBy string `json:"created_by,omitempty"`
	MakerID   string `json:"maker_id,omitempty"` // the maker's Caller.ID: the name may be somebody else's by now
	// Token is the ID of the personal access token by which the maker was known. The robot stops with it.
	Token    string    `json:"token,omitempty"`
	Orphaned bool      `json:"orphaned,omitempty"` // the maker has vanished, and doesn't come back with the name
	Tenure   string    `json:"tenure,omitempty"`   // another one with each maker, who doesn't get the robots that this one made before
	Expires  time.Time `json:"expires,omitzero"`   // zero = never
}

// Maker is a caller who makes a robot or gives it another secret; see the fields of Robot.
type Maker struct {
	Name, ID, Token string
}

// record is a robot as it is stored.
type record struct {
	Robot
	Hash string `json:"hash"` // of the secret, which is random: SHA-256 is enough
}

// nameForm keeps names fit for rules, file names and command lines.
var nameForm = regexp.MustCompile(`^[a-z0-9]+(?:[._-][a-z0-9]+)*$`)

// Check describes what is wrong with a robot that is about to be created.
func (r *Robot) Check(now time.Time) error {
	switch {
	case len(r.Name) > 100 || !nameForm.MatchString(r.Name):
		return fmt.Errorf("%.120q is not a valid name of a robot: lower-case letters and digits, separated by single dots, dashes or underscores, at most 100", r.Name)
	case (len(r.Repositories) == 0) != (len(r.Allow) == 0):
		return errors.New("rights and patterns of repositories belong together: give both, or none for a robot that only the access rules name")
	case len(r.Repositories) > maxPatterns:
		return fmt.Errorf("a robot can have at most %d patterns", maxPatterns)
	case len(r.Note) > maxNote:
		return fmt.Errorf("a note has at most %d bytes", maxNote)
	case !r.Expires.IsZero() && !r.Expires.After(now):
		return errors.New("the robot would have expired already")
	}
	_, err := access.NewGrant(r.Repositories, r.Allow)
	return err
}

// Grant returns the rights of the robot. Older versions accepted patterns that match no repository: they
// do not take the others away.
func (r *Robot) Grant() (access.Grant, error) {
	return access.NewGrant(slices.DeleteFunc(slices.Clone(r.Repositories), pattern.MatchesNone), r.Allow)
}

// Summary describes the rights of the robot in one line.
func (r *Robot) Summary() string {
	text := "only the rights of access rules"
	if len(r.Allow) > 0 {
		text = "allow " + strings.Join(r.Allow, ", ") + " in " + strings.Join(r.Repositories, ", ")
	}
	if !r.Expires.IsZero() {
		text += " until " + r.Expires.UTC().Format(time.RFC3339)
	}
	return text
}

// Expired reports whether the robot's time is over.
func (r *Robot) Expired(now time.Time) bool { return !r.Expires.IsZero() && !now.Before(r.Expires) }

// newSecret returns 256 random bits as text, and their hash.
func newSecret() (secret, hash string) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	secret = secretPrefix + base64.RawURLEncoding.EncodeToString(b[:])
	return secret, hashOf([]byte(secret))
}

func hashOf(secret []byte) string {
	sum := sha256.Sum256(secret)
	return hex.EncodeToString(sum[:])
}

func (account *Account) accepts(secret []byte) bool {
	return subtle.ConstantTimeCompare([]byte(account.hash), []byte(hashOf(secret))) == 1
}

// newID tells two robots of one name apart.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
