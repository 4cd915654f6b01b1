package layout

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"slipway/registry/internal/oci"
)

// MaxPushes is the number of pushes of a tag that its push record holds.
const MaxPushes = 20

// MaxPushed is more than any push record holds, in bytes.
const MaxPushed = 16 << 10

// maxBy bounds a name in a record, in bytes.
const maxBy = 256

// ErrBadPushed means that a push record can't be read.
var ErrBadPushed = errors.New("the push record holds no digest and time")

// Push is one push of a tag.
type Push struct {
	Digest oci.Digest // that the tag was pointed at
	At     time.Time
	By     string // "" if nobody knows
}

// Pushed returns the content of a push record: a line for each push, the latest first. Unlike
// the date of the tag's link, it survives a copy of the tree.
func Pushed(pushes []Push) []byte {
	var b strings.Builder
	for _, p := range pushes[:min(len(pushes), MaxPushes)] {
		fmt.Fprintf(&b, "%s %s %s\n", p.Digest, p.At.UTC().Format(time.RFC3339Nano), printable(p.By))
	}
	return []byte(b.String())
}

// ParsePushed parses the content of a push record. Its first push is valid only while the tag
// still points at that digest: distribution moves a tag without updating the record. The error is
// ErrBadPushed, and the pushes before the malformed line are returned with it.
func ParsePushed(b []byte) (pushes []Push, err error) {
	for line := range strings.Lines(string(b)) {
		digest, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		date, by, _ := strings.Cut(rest, " ")
		d, err := oci.ParseDigest(digest)
		at, err2 := time.Parse(time.RFC3339Nano, date)
		if err != nil || err2 != nil || len(pushes) == MaxPushes {
			return pushes, fmt.Errorf("%w: %.120q", ErrBadPushed, line)
		}
		pushes = append(pushes, Push{d, at.UTC(), printable(by)})
	}
	if len(pushes) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrBadPushed)
	}
	return pushes, nil
}

// printable returns as much of a name as a record has room for, on one line.
func printable(name string) string {
	name = strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return '?'
	}, strings.TrimSpace(name))
	for len(name) > maxBy {
		_, last := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-last]
	}
	return name
}
