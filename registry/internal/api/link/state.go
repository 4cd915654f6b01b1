package link

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"slipway/registry/internal/oci"
)

// UploadState is the content of the _state parameter of an upload's Location: how far the upload
// had come. CNCF distribution writes the same document, so an upload can continue at either, and at
// any replica that has the same http.secret.
type UploadState struct {
	Name      oci.Name
	UUID      string
	Offset    int64
	StartedAt time.Time
	Algorithm oci.Algorithm `json:",omitempty"` // ours: distribution passes over it
}

// Signer signs and reads the _state parameter.
type Signer struct{ Secret []byte }

// Sign returns base64url(HMAC-SHA256(secret, document) ‖ document).
func (s Signer) Sign(st UploadState) (string, error) {
	doc, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	return base64.URLEncoding.EncodeToString(append(s.mac(doc), doc...)), nil
}

// Read checks the signature, and that the state is that of this upload. The
// error is BLOB_UPLOAD_INVALID.
func (s Signer) Read(token string, name oci.Name, id string) (UploadState, error) {
	var st UploadState
	raw, err := base64.URLEncoding.DecodeString(token)
	if err != nil || len(raw) < sha256.Size {
		return st, oci.NewError(oci.CodeBlobUploadInvalid, "the upload's state is malformed")
	}
	mac, doc := raw[:sha256.Size], raw[sha256.Size:]
	if !hmac.Equal(mac, s.mac(doc)) {
		return st, oci.NewError(oci.CodeBlobUploadInvalid, "the upload's state is not signed by this registry")
	}
	if err := json.Unmarshal(doc, &st); err != nil {
		return st, oci.NewError(oci.CodeBlobUploadInvalid, "the upload's state is malformed")
	}
	if st.Name != name || st.UUID != id {
		return st, oci.NewError(oci.CodeBlobUploadInvalid, "the upload's state belongs to another upload")
	}
	return st, nil
}

func (s Signer) mac(doc []byte) []byte {
	h := hmac.New(sha256.New, s.Secret)
	h.Write(doc)
	return h.Sum(make([]byte, 0, sha256.Size+len(doc)))
}
