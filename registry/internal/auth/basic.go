package auth

import (
	"bytes"
	"encoding/base64"
	"strings"

	"slipway/registry/internal/identity/token"
)

// maxCredentials bounds the encoded credentials of a header, so that nobody
// makes us hash a megabyte.
const maxCredentials = 4096

// credentials are the parts of a Basic header; they alias the room they were
// decoded into.
type credentials struct {
	user, password []byte
}

// none reports whether a client sent empty credentials. skopeo does so instead of
// leaving the header out.
func (c credentials) none() bool { return len(c.user) == 0 && len(c.password) == 0 }

// parseBasic reads the value of an Authorization header (RFC 7617). It decodes
// into room if that is large enough.
func parseBasic(header string, room []byte) (credentials, bool) {
	return parseBasicUpTo(maxCredentials, header, room)
}

// parseLongBasic takes a token in the place of the password as well.
func parseLongBasic(header string, room []byte) (credentials, bool) {
	return parseBasicUpTo(2*token.MaxSize, header, room)
}

func parseBasicUpTo(limit int, header string, room []byte) (credentials, bool) {
	const scheme = "Basic "
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return credentials{}, false
	}
	encoded := strings.Trim(header[len(scheme):], " ")
	if len(encoded) > limit {
		return credentials{}, false
	}
	plain, err := base64.StdEncoding.AppendDecode(room[:0], []byte(encoded))
	if err != nil {
		return credentials{}, false
	}
	user, password, ok := bytes.Cut(plain, []byte{':'})
	return credentials{user, password}, ok
}
