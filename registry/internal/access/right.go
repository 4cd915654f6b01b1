package access

import (
	"fmt"
	"strings"
)

// Rights is a set of what a caller may do in a repository.
type Rights uint8

// The rights.
const (
	Pull    Rights = 1 << iota // read manifests, blobs, referrers and the list of tags
	Push                       // upload blobs and manifests and set new tags; includes Pull
	TagMove                    // point a tag that exists at another manifest
	Delete                     // delete manifests, tags and blobs
	List                       // see the repository in the catalog, if it may be pulled
	Admin                      // everything; for all repositories also the management of robots

	All = Pull | Push | TagMove | Delete | List | Admin
)

// rightNames are the words of the configuration, in the order of the bits.
var rightNames = [...]string{"pull", "push", "tag-move", "delete", "list", "admin"}

// ParseRights reads the words of the configuration.
func ParseRights(words []string) (Rights, error) {
	var all Rights
	for _, word := range words {
		right, err := ParseRight(word)
		if err != nil {
			return 0, err
		}
		all |= right
	}
	return all, nil
}

// ParseRight reads one word.
func ParseRight(word string) (Rights, error) {
	for i, name := range rightNames {
		if name == word {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("%q is not one of the rights %s", word, strings.Join(rightNames[:], ", "))
}

// granted adds the rights that are included in those of a grant.
func (r Rights) granted() Rights {
	if r&Admin != 0 {
		return All
	}
	if r&Push != 0 {
		r |= Pull
	}
	return r
}

// Needs returns the right and those that it is useless without: a push reads, too, and the
// catalog shows only what may be pulled.
func (r Rights) Needs() Rights {
	if r&TagMove != 0 {
		r |= Push
	}
	if r&(Push|List) != 0 {
		r |= Pull
	}
	return r
}

// Words is the set in the words of the configuration.
func (r Rights) Words() []string {
	var words []string
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			words = append(words, name)
		}
	}
	return words
}

// String lists the words.
func (r Rights) String() string { return strings.Join(r.Words(), ", ") }
