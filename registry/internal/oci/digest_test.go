package oci

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

var digestGrammar = regexp.MustCompile(`\A(sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})\z`)

// Sums of the empty input, from the standards' test vectors.
const (
	emptySHA256 = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	emptySHA384 = "sha384:38b060a751ac96384cd9327eb1b1e36a21fdb71114be07434c0cc7bf63f6e1da274edebfe76f65fbd51ad2f14898b95b"
	emptySHA512 = "sha512:cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"
)

func TestDigestOfAlgorithms(t *testing.T) {
	for alg, want := range map[Algorithm]Digest{SHA256: emptySHA256, SHA384: emptySHA384, SHA512: emptySHA512} {
		if got := alg.FromBytes(nil); got != want {
			t.Errorf("%s of nothing = %s, want %s", alg, got, want)
		}
		if got := alg.Digest(alg.New().Sum(nil)); got != want {
			t.Errorf("%s by hash = %s, want %s", alg, got, want)
		}
		if want.Algorithm() != alg || !want.Empty() || string(alg)+":"+want.Hex() != string(want) {
			t.Errorf("%s does not come apart into its parts", want)
		}
	}
	if got := SHA256.FromBytes([]byte("x")); got.Empty() {
		t.Errorf("%s counts as empty", got)
	}
}

func TestParseDigest(t *testing.T) {
	hex := strings.Repeat("ab", 32)
	for in, want := range map[string]bool{
		emptySHA256:                            true,
		emptySHA384:                            true,
		emptySHA512:                            true,
		"":                                     false,
		hex:                                    false,
		"sha256:":                              false,
		"sha256:" + hex + "0":                  false,
		"sha256:" + strings.ToUpper(hex):       false,
		"SHA256:" + hex:                        false,
		"sha256:" + strings.Repeat("g", 64):    false,
		"sha256:../../../../etc/" + hex[:48]:   false,
		"sha512:" + hex:                        false,
		"md5:d41d8cd98f00b204e9800998ecf8427e": false,
		"sha256:" + hex[:63] + "\x00":          false,
		"sha256:" + hex + "\n":                 false,
	} {
		_, err := ParseDigest(in)
		var e *Error
		if (err == nil) != want || err != nil && (!errors.As(err, &e) || e.Code != CodeDigestInvalid) {
			t.Errorf("ParseDigest(%q): error %v, want valid %v", in, err, want)
		}
	}
}

func FuzzParseDigest(f *testing.F) {
	for _, s := range []string{emptySHA256, emptySHA512, "sha256:", "md5:00", ":", "a:b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDigest(s)
		if want := digestGrammar.MatchString(s); (err == nil) != want {
			t.Errorf("ParseDigest(%q): error %v, grammar says %v", s, err, want)
		}
		if err == nil && (string(d) != s || string(d.Algorithm())+":"+d.Hex() != s) {
			t.Errorf("%q does not come apart into its parts", s)
		}
	})
}
