package service

import (
	"bytes"
	"image"
	_ "image/gif"  // for the size of pictures
	_ "image/jpeg" // for the size of pictures
	_ "image/png"  // for the size of pictures
	"mime"
	"net/http"
	"path"
	"strings"

	"slipway/relay/internal/post"
)

const (
	maxFileName  = 255 // bytes
	maxMediaType = 127
)

// detectMedia returns the media type of a file from its first bytes, and the size of a picture.
func detectMedia(start []byte) (mediaType string, width, height int) {
	mediaType, _, _ = mime.ParseMediaType(http.DetectContentType(start))
	if strings.HasPrefix(mediaType, "image/") {
		if c, _, err := image.DecodeConfig(bytes.NewReader(start)); err == nil {
			width, height = c.Width, c.Height
		}
	}
	return mediaType, width, height
}

// fileName returns the last element of a name, without control characters and with an extension.
func fileName(name, mediaType string) string {
	name = path.Base(strings.ReplaceAll(post.Clean(name), `\`, "/"))
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 { // and what turns the direction of text
			return -1
		}
		return r
	}, name))
	if name == "" || name == "." || name == "/" || name == ".." {
		name = "attachment"
		if list, err := mime.ExtensionsByType(mediaType); err == nil && len(list) > 0 {
			name += list[len(list)-1]
		}
	}
	if len(name) > maxFileName {
		ext := path.Ext(name)
		if len(ext) > 16 {
			ext = ""
		}
		name = strings.ToValidUTF8(name[:maxFileName-len(ext)], "") + ext
	}
	return name
}

const unknownType = "application/octet-stream"

// mediaTypeOf returns the media type of a file as its sender gives it, without parameters, or else by its name.
func mediaTypeOf(given, name string) string {
	t := clean(given)
	if byName := mime.TypeByExtension(path.Ext(name)); t == unknownType && byName != "" {
		return clean(byName)
	}
	return t
}

func clean(s string) string {
	t, _, err := mime.ParseMediaType(s)
	if err != nil || len(t) > maxMediaType || !strings.Contains(t, "/") || !post.Printable(t) {
		return unknownType
	}
	return t
}
