// Package layout names every path of the tree on disk, which is that of CNCF
// distribution 2.8 and 3.x, so that either can serve what the other wrote:
//
//	/docker/registry/v2/
//	  blobs/sha256/<first 2 hex>/<hex>/data              bytes of layer, config or manifest
//	  repositories/<name>/
//	    _layers/<alg>/<hex>/link                         the repository has the blob
//	    _manifests/revisions/<alg>/<hex>/link            the repository has the manifest
//	    _manifests/tags/<tag>/current/link               what the tag points at
//	    _manifests/tags/<tag>/index/<alg>/<hex>/link     each manifest it has pointed at
//	    _manifests/tags/<tag>/pushed                     its last pushes; unknown to distribution
//	    _uploads/<uuid>/data                             bytes so far
//	    _uploads/<uuid>/startedat                        when it began
//	    _uploads/<uuid>/hashstates/<alg>/<offset>        state of the hash after offset bytes; only distribution uses it
//	  slipway/trash/<name>/_deleted/<id>[.<alg>-<hex>]   what was deleted and can be restored; unknown to distribution
//
// # Digests other than sha256
//
// Content pushed by its sha512 digest is under blobs/sha512, and its links
// contain that digest. Distribution never writes such paths, but it reads them
// and its garbage collection keeps them. For a layer known by two digests
// distribution writes an alias: a link under _layers/sha512 that contains the
// sha256 digest. So a link may contain another digest than its path; the
// digest that it contains names the bytes.
package layout

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"slipway/registry/internal/oci"
)

// Roots of the two trees. Distribution walks nothing beside them, and this registry only Own.
const (
	Root         = "/docker/registry/v2"
	Blobs        = Root + "/blobs"
	Repositories = Root + "/repositories"

	// Own holds this registry's own files, beside the trees.
	Own = Root + "/slipway"
)

// Below Own.
const (
	Pulls        = Own + "/pulls"           // when manifests were last pulled
	Verified     = Own + "/verify/progress" // progress of the verification
	Quarantine   = Own + "/quarantine"      // damaged blobs and dangling links
	Events       = Own + "/events"          // undelivered notifications
	Auth         = Own + "/auth"            // keys, robots and personal access tokens
	Robots       = Auth + "/robots"         // robot accounts, one object each
	People       = Auth + "/people"         // personal access tokens, below a folder for each owner
	Keys         = Auth + "/keys"           // keys that sign tokens and sessions
	Sessions     = Auth + "/sessions"       // sessions of the pages that were ended
	Certificates = Own + "/certificates"    // an ACME account and its certificates
	ProxySpool   = Own + "/proxy/spool"     // blobs being fetched from an upstream; local files, never objects
	Quotas       = Own + "/quotas"          // bytes under prefixes that have a quota
	Trash        = Own + "/trash"           // records of restorable deletions, by repository
	Replication  = Own + "/replication"     // changes to copy to other registries, and the state of these
)

// Quota returns the key of the last count of the bytes of the repositories at and below n.
func Quota(n oci.Name) string { return Quotas + "/" + string(n) + "/_count" }

// Each path below is one concatenation, so that it costs one allocation.

// BlobData holds the bytes of d.
func BlobData(d oci.Digest) string { return BlobDir(d) + "/data" }

// BlobDir is the directory around BlobData, which has nothing else in it.
func BlobDir(d oci.Digest) string {
	h := d.Hex()
	return Blobs + "/" + string(d.Algorithm()) + "/" + h[:2] + "/" + h
}

// Repository is the directory of a repository. It also contains the repositories
// below it, such as a/b below a.
func Repository(n oci.Name) string { return Repositories + "/" + string(n) }

// Private reports whether a name in a listing of a repository's directory belongs
// to the repository, not to one further down.
func Private(name string) bool { return name != "" && name[0] == '_' }

// Layers is the directory of the links of one algorithm, named by their hex.
func Layers(n oci.Name, a oci.Algorithm) string {
	return Repositories + "/" + string(n) + "/_layers/" + string(a)
}

// LayerLink says that the repository has the blob.
func LayerLink(n oci.Name, d oci.Digest) string {
	return Repositories + "/" + string(n) + "/_layers/" + string(d.Algorithm()) + "/" + d.Hex() + "/link"
}

// Manifests is the directory of revisions and tags.
func Manifests(n oci.Name) string { return Repositories + "/" + string(n) + "/_manifests" }

// Revisions is the directory of the manifests of one algorithm, named by their
// hex. One whose link is gone may still have its directory.
func Revisions(n oci.Name, a oci.Algorithm) string {
	return Repositories + "/" + string(n) + "/_manifests/revisions/" + string(a)
}

// RevisionLink says that the repository has the manifest.
func RevisionLink(n oci.Name, d oci.Digest) string {
	return Repositories + "/" + string(n) + "/_manifests/revisions/" + string(d.Algorithm()) + "/" + d.Hex() + "/link"
}

// Tags is the directory of the tags, named by them.
func Tags(n oci.Name) string { return Repositories + "/" + string(n) + "/_manifests/tags" }

// Tag is the directory of all that belongs to a tag.
func Tag(n oci.Name, t oci.Tag) string {
	return Repositories + "/" + string(n) + "/_manifests/tags/" + string(t)
}

// TagCurrent is the link to the manifest that the tag points at.
func TagCurrent(n oci.Name, t oci.Tag) string {
	return Repositories + "/" + string(n) + "/_manifests/tags/" + string(t) + "/current/link"
}

// TagCurrentName is the key of TagCurrent below Tag.
const TagCurrentName = "current/link"

// TagIndex is one link of the tag's history. Trees may lack it.
func TagIndex(n oci.Name, t oci.Tag, d oci.Digest) string {
	return Repositories + "/" + string(n) + "/_manifests/tags/" + string(t) +
		"/index/" + string(d.Algorithm()) + "/" + d.Hex() + "/link"
}

// TagPushed is the record of the tag's last pushes. Distribution writes none, ignores
// it and deletes it with the tag.
func TagPushed(n oci.Name, t oci.Tag) string {
	return Repositories + "/" + string(n) + "/_manifests/tags/" + string(t) + "/pushed"
}

// Deletions is the directory of the records of what was deleted from a repository.
func Deletions(n oci.Name) string { return Trash + "/" + string(n) + "/_deleted" }

// Uploads is the directory of the uploads under way, named by their ids.
func Uploads(n oci.Name) string { return Repositories + "/" + string(n) + "/_uploads" }

// Upload is the directory of all that belongs to an upload.
func Upload(n oci.Name, id string) string {
	return Repositories + "/" + string(n) + "/_uploads/" + id
}

// UploadData holds an upload's bytes.
func UploadData(n oci.Name, id string) string {
	return Repositories + "/" + string(n) + "/_uploads/" + id + "/data"
}

// UploadStartedAt holds the time in the form of StartedAt. Without it
// distribution does not know the upload.
func UploadStartedAt(n oci.Name, id string) string {
	return Repositories + "/" + string(n) + "/_uploads/" + id + "/startedat"
}

// UploadHashStates returns the prefix, with a slash, of the keys of distribution's hash states: the algorithm and
// the offset, such as sha256/0, follow.
func UploadHashStates(n oci.Name, id string) string { return Upload(n, id) + "/hashstates/" }

// ParseRevisionLink parses the part of a RevisionLink below Manifests.
func ParseRevisionLink(name string) (oci.Digest, bool) {
	rest, found := strings.CutPrefix(name, "revisions/")
	parts := strings.Split(rest, "/")
	if !found || len(parts) != 3 || parts[2] != "link" {
		return "", false
	}
	d, err := oci.ParseDigest(parts[0] + ":" + parts[1])
	return d, err == nil
}

// ParseTagIndex parses the part of a TagIndex below Tag.
func ParseTagIndex(name string) (oci.Digest, bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || parts[0] != "index" || parts[3] != "link" {
		return "", false
	}
	d, err := oci.ParseDigest(parts[1] + ":" + parts[2])
	return d, err == nil
}

// IsUpload reports whether a key is that of UploadData.
func IsUpload(key string) bool {
	return strings.HasPrefix(key, Repositories+"/") && strings.HasSuffix(key, "/data") && strings.Contains(key, "/_uploads/")
}

// IsCollected reports whether garbage collections may delete what is at a key, other than records that have ended.
func IsCollected(key string) bool { return !strings.HasPrefix(key, Own+"/") }

// SHA256 is the hash in hex of what lies at the key of a blob, "" for any other key.
func SHA256(key string) string {
	rest, ok := strings.CutPrefix(key, Blobs+"/sha256/")
	if parts := strings.Split(rest, "/"); ok && len(parts) == 3 && parts[2] == "data" {
		return parts[1]
	}
	return ""
}

// MaxLink is an upper bound for the size of a link file, in bytes.
const MaxLink = 256

// Errors of a damaged link file. Distribution 2.8 writes links in place, so a crash
// leaves empty ones; manual edits leave others.
var (
	ErrEmptyLink = errors.New("the link file is empty")
	ErrBadLink   = errors.New("the link file holds no digest")
)

// Link returns the content of a link to d: the digest and nothing else. Both lines of
// distribution fail to read a link that ends with a newline.
func Link(d oci.Digest) []byte { return []byte(d) }

// ParseLink parses the content of a link file, ignoring trailing white space. The
// error is ErrEmptyLink or ErrBadLink.
func ParseLink(b []byte) (oci.Digest, error) {
	b = bytes.TrimRight(b, " \t\r\n")
	if len(b) == 0 {
		return "", ErrEmptyLink
	}
	d, err := oci.ParseDigest(string(b))
	if err != nil {
		return "", fmt.Errorf("%w: %.80q", ErrBadLink, b)
	}
	return d, nil
}

// NewUploadID returns a random UUID (RFC 9562, version 4). It must be hard to guess: a
// caller who may push and knows the ID of an upload can append to it.
func NewUploadID() string {
	var u [16]byte
	rand.Read(u[:]) //nolint:errcheck // never fails, by its documentation
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	b := make([]byte, 0, 36)
	for i, part := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return string(b)
}

// ValidUploadID reports whether s has the form of a lower-case UUID, as this registry
// and both lines of distribution generate it. Such a string is safe in a path.
func ValidUploadID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if strings.IndexByte("0123456789abcdef", c) < 0 {
			return false
		}
	}
	return true
}

// StartedAt returns the content of an upload's startedat file: RFC 3339, UTC, in seconds.
func StartedAt(t time.Time) []byte {
	return t.UTC().AppendFormat(make([]byte, 0, len(time.RFC3339)), time.RFC3339)
}

// ParseStartedAt parses the content of a startedat file, ignoring white space around
// it.
func ParseStartedAt(b []byte) (time.Time, error) {
	return time.Parse(time.RFC3339, string(bytes.TrimSpace(b)))
}
