package service

import (
	"bytes"
	"image"
	"image/png"
	"strings"
	"testing"
)

func TestDetectMedia(t *testing.T) {
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]struct {
		kind string
		w, h int
	}{
		picture.String():       {"image/png", 3, 2},
		"\x89PNG\r\n\x1a\n...": {"image/png", 0, 0},
		"text":                 {"text/plain", 0, 0},
		"%PDF-1.7":             {"application/pdf", 0, 0},
		"":                     {"text/plain", 0, 0},
		"\x00\x01":             {"application/octet-stream", 0, 0},
	} {
		if kind, w, h := detectMedia([]byte(content)); kind != want.kind || w != want.w || h != want.h {
			t.Errorf("%.10q: %s %d×%d, want %v", content, kind, w, h, want)
		}
	}
}

func TestFileName(t *testing.T) {
	for name, want := range map[string]string{
		"a.txt": "a.txt", "../../etc/passwd": "passwd", `C:\dir\a.txt`: "a.txt", "": "attachment.png", "..": "attachment.png", "/": "attachment.png",
		"a\r\nb\x00\u202egnp.exe": "abgnp.exe", " ü.pdf ": "ü.pdf", "\xff.txt": "\uFFFD.txt",
		strings.Repeat("é", 200) + ".pdf": strings.Repeat("é", 125) + ".pdf",
		strings.Repeat("x", 300):          strings.Repeat("x", 255),
	} {
		if got := fileName(name, "image/png"); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestMediaTypeOf(t *testing.T) {
	for _, tt := range []struct{ given, name, want string }{
		{"image/png", "a.txt", "image/png"},
		{"Text/Plain; charset=utf-8", "", "text/plain"},
		{"application/octet-stream", "a.pdf", "application/pdf"},
		{"nonsense", "a.unknown-extension", "application/octet-stream"},
		{"text/" + strings.Repeat("x", 200), "", "application/octet-stream"},
	} {
		if got := mediaTypeOf(tt.given, tt.name); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.given, tt.name, got, tt.want)
		}
	}
}
