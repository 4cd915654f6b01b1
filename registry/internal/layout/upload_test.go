package layout

import (
	"testing"
	"time"
)

func TestUploadIDs(t *testing.T) {
	a, b := NewUploadID(), NewUploadID()
	if a == b {
		t.Errorf("two ids are both %s", a)
	}
	for _, id := range []string{a, b, "0b5e0b3c-6f0e-4a3c-9d0c-1f2e3d4c5b6a"} {
		if !ValidUploadID(id) {
			t.Errorf("%s is refused", id)
		}
	}
	if a[14] != '4' {
		t.Errorf("%s is not of version 4", a)
	}
	for _, id := range []string{
		"", ".", "..", "0b5e0b3c6f0e4a3c9d0c1f2e3d4c5b6a", "0B5E0B3C-6F0E-4A3C-9D0C-1F2E3D4C5B6A",
		"0b5e0b3c-6f0e-4a3c-9d0c-1f2e3d4c5b6", "0b5e0b3c-6f0e-4a3c-9d0c-1f2e3d4c5b6a0",
		"../../..-6f0e-4a3c-9d0c-1f2e3d4c5b6a", "0b5e0b3c-6f0e-4a3c-9d0c/1f2e3d4c5b6a", "------------------------------------",
		"0b5e0b3c-6f0e-4a3c-9d0c-1f2e3d4c5b6\x00",
	} {
		if ValidUploadID(id) {
			t.Errorf("%q is accepted", id)
		}
	}
}

func TestStartedAt(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 46, 28, 999, time.FixedZone("CET", 3600))
	if got := string(StartedAt(at)); got != "2026-11-21T01:46:28Z" {
		t.Errorf("StartedAt = %s", got)
	}
	for _, s := range []string{"2026-11-21T01:46:28Z", "2026-11-21T02:46:28+01:00\n"} {
		if got, err := ParseStartedAt([]byte(s)); err != nil || !got.Equal(at.Truncate(time.Second)) {
			t.Errorf("ParseStartedAt(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "yesterday", "2026-11-21"} {
		if _, err := ParseStartedAt([]byte(s)); err == nil {
			t.Errorf("ParseStartedAt(%q) accepts it", s)
		}
	}
}
