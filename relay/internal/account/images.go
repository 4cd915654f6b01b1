package account

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strconv"
	"strings"

	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// MaxImage bounds the picture of an application, in bytes.
const MaxImage = 256 << 10

// imageType returns the media type of a picture by its first bytes; "" for unknown types and those with scripts.
func imageType(data []byte) string {
	for mediaType, magic := range map[string]string{"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff", "image/gif": "GIF8"} {
		if strings.HasPrefix(string(data), magic) {
			return mediaType
		}
	}
	if len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP" {
		return "image/webp"
	}
	return ""
}

// Image returns the picture of an application that v may see, and its media type.
func (s *Accounts) Image(ctx context.Context, v Principal, id int64) (data []byte, mediaType string, err error) {
	if _, err := s.AppFor(ctx, v, id); err != nil {
		return nil, "", err
	}
	i, err := s.store.Image(ctx, id)
	switch {
	case err != nil:
		return nil, "", refusal.Unreadable(err)
	case len(i.Data) == 0:
		return nil, "", refusal.NotFound("image")
	}
	return i.Data, i.Type, nil
}

// SetImage stores the picture of an application; an empty one removes it.
func (s *Accounts) SetImage(ctx context.Context, v Principal, id int64, data []byte) error {
	kind := imageType(data)
	switch {
	case len(data) > MaxImage:
		return refusal.TooLarge("image", "An image may have at most", MaxImage)
	case len(data) > 0 && kind == "":
		return refusal.Invalid("image", "The image must be PNG, JPEG, GIF or WebP.")
	case v.UserID == 0:
		return refusal.NotFound("application")
	}
	_, err := s.change(ctx, v, id, func(tx *store.Tx, _ *store.Application) error {
		return tx.SetImage(store.Image{ApplicationID: id, Type: kind, Data: data})
	})
	return refusal.Unwritable(err)
}

// imageName names the picture of an application for programs that ask for it without a token. It cannot be guessed.
func imageName(a *store.Application) string {
	h := sha256.Sum256(append([]byte("picture "), a.TokenHash...))
	return strconv.FormatInt(a.ID, 10) + "-" + hex.EncodeToString(h[:16])
}

// NamedImage returns the picture that is named as an [Application] has it, and its media type.
func (s *Accounts) NamedImage(ctx context.Context, name string) (data []byte, mediaType string, err error) {
	number, _, _ := strings.Cut(name, "-")
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return nil, "", refusal.NotFound("image")
	}
	a, err := s.App(ctx, id)
	if refusal.KindOf(err) == refusal.KindUnavailable {
		return nil, "", err
	}
	if err != nil || subtle.ConstantTimeCompare([]byte(imageName(&a.Application)), []byte(name)) != 1 {
		return nil, "", refusal.NotFound("image")
	}
	return s.Image(ctx, Principal{ApplicationID: id}, id)
}
