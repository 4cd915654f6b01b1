package collect

import "slipway/registry/internal/oci"

// Event is a step of a run, for people who watch it.
type Event struct {
	Kind       Kind
	Repository oci.Name
	Digest     oci.Digest
	Err        error
	Report     *Report // of Marked: what is known so far
	Marked     int64   // of Marked: digests
}

// Kind says what happened.
type Kind int

// The kinds, in the order in which they come.
const (
	Repository  Kind = iota // begins
	Manifest                // is kept
	Blob                    // is needed by a manifest that is kept
	OldManifest             // goes
	OldLayer                // a repository's link to a blob goes
	LeftAlone               // the repository, because of Err
	Marked                  // all repositories were read
	OldBlob                 // goes
)
