package oci

import (
	"errors"
	"io"
	"testing"
)

func TestErrorTexts(t *testing.T) {
	for _, c := range []struct {
		err       *Error
		text, log string
	}{
		{NewError(CodeBlobUnknown, nil), "blob unknown to registry", "BLOB_UNKNOWN: blob unknown to registry"},
		{NewError(CodeTagInvalid, "why"), "manifest tag did not match URI", "TAG_INVALID: manifest tag did not match URI: why"},
		{&Error{Code: CodeUnknown, Message: "no space", Err: io.ErrShortWrite}, "no space", "UNKNOWN: no space: short write"},
	} {
		if c.err.Text() != c.text || c.err.Error() != c.log {
			t.Errorf("%+v: text %q, log %q, want %q and %q", c.err, c.err.Text(), c.err.Error(), c.text, c.log)
		}
	}
	if err := error(&Error{Code: CodeUnknown, Err: io.EOF}); !errors.Is(err, io.EOF) {
		t.Error("the cause is not reachable")
	}
	several := Errors{NewError(CodeBlobUnknown, nil), NewError(CodeNameUnknown, nil)}
	if got, want := several.Error(), "BLOB_UNKNOWN: blob unknown to registry; NAME_UNKNOWN: repository name not known to registry"; got != want {
		t.Errorf("several errors read %q, want %q", got, want)
	}
}

func TestErrors_Body(t *testing.T) {
	list := Errors{NewError(CodeBlobUnknown, map[string]string{"digest": "x"}), NewError(CodeUnknown, nil)}
	want := `{"errors":[{"code":"BLOB_UNKNOWN","message":"blob unknown to registry","detail":{"digest":"x"}},{"code":"UNKNOWN","message":"unknown error"}]}` + "\n"
	if got := string(list.Body()); got != want {
		t.Errorf("got %s", got)
	}
	got := string(Errors{NewError(CodeUnknown, func() {})}.Body())
	if want := `{"errors":[{"code":"UNKNOWN","message":"unknown error"}]}` + "\n"; got != want {
		t.Errorf("with a detail that isn't JSON: %s", got)
	}
	parsed := ParseErrors(list.Body())
	if len(parsed) != 2 || parsed[0].Code != CodeBlobUnknown || parsed[0].Message != "blob unknown to registry" || parsed[1].Code != CodeUnknown {
		t.Errorf("parsed %+v", parsed)
	}
	for _, body := range []string{"", "<html>", "{}", `{"errors":[]}`} {
		if parsed := ParseErrors([]byte(body)); len(parsed) > 0 {
			t.Errorf("parsed %+v of %q", parsed, body)
		}
	}
}
