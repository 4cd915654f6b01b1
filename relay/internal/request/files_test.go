package request

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"slipway/relay/internal/refusal"
)

// lifted returns what Lift leaves and takes out.
func lifted(contentType, body string, limit int64) (rest string, files []string, err error) {
	b, err := Lift(contentType, strings.NewReader(body), limit, func(name, mediaType string, content io.Reader, _ func() []byte) error {
		text, err := io.ReadAll(content)
		files = append(files, name+"|"+mediaType+"|"+string(text))
		return err
	})
	return string(b), files, err
}

func TestLift_JSON(t *testing.T) {
	for body, want := range map[string]struct {
		rest  string
		files []string
	}{
		`{"message":"m"}`: {`{"message":"m"}`, nil},
		`{"attachments":[{"filename":"a","base64":"YQ=="},{"base64" : "Yg==" ,"mimetype":"x/y"}],"title":"t"}`: {
			`{"attachments":[{"filename":"a","base64":"0"},{"base64" : "1" ,"mimetype":"x/y"}],"title":"t"}`, []string{"||a", "||b"},
		},
		`{"attachments":{"base64":"YQ=="},"base64":"YQ=="}`:  {`{"attachments":{"base64":"0"},"base64":"YQ=="}`, []string{"||a"}},
		`{"attachment_base64":"YWI\u003d","attachments":[]}`: {`{"attachment_base64":"0","attachments":[]}`, []string{"||ab"}},
		`{"attachment_base64":"YW\nI=\r\n"}`:                 {`{"attachment_base64":"0"}`, []string{"||ab"}},
		`{"message":"\"base64\":\"","base64":{"a":"YQ=="}}`:  {`{"message":"\"base64\":\"","base64":{"a":"YQ=="}}`, nil},
		`{"attachments":["base64","YQ=="]}`:                  {`{"attachments":["base64","YQ=="]}`, nil},
		`{"attachment_base64":""}`:                           {`{"attachment_base64":"0"}`, []string{"||"}},
	} {
		if rest, files, err := lifted("application/json", body, 1000); rest != want.rest || !slices.Equal(files, want.files) || err != nil {
			t.Errorf("%s: %s, %q, %v", body, rest, files, err)
		}
	}
	for _, body := range []string{`{"attachment_base64":"!"}`, `{"attachment_base64":"YQ="}`, `{"attachment_base64":"YQ==`, `{"attachment_base64":"\u00`, `{"a":"b`} {
		if _, _, err := lifted("", body, 1000); refusal.KindOf(err) != refusal.KindInvalid {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, _, err := lifted("", `{"message":"`+strings.Repeat("m", 1000)+`"}`, 1000); refusal.KindOf(err) != refusal.KindTooLarge {
		t.Errorf("a long text: %v", err)
	}
	big := strings.Repeat("0123456789", 100_000)
	rest, files, err := lifted("", `{"attachment_base64":"`+base64.StdEncoding.EncodeToString([]byte(big))+`"}`, 1000)
	if rest != `{"attachment_base64":"0"}` || len(files) != 1 || files[0] != "||"+big || err != nil {
		t.Errorf("a big file: %s, %v", rest, err)
	}
}

func TestLift_Base64InForm(t *testing.T) {
	const multipart = "--x\r\nContent-Disposition: form-data; name=\"attachment_base64\"\r\n\r\nYQ==\r\n--x--\r\n"
	rest, files, err := lifted("multipart/form-data; boundary=x", multipart, 1000)
	if !slices.Equal(files, []string{"||a"}) || strings.Contains(rest, "YQ==") || err != nil {
		t.Errorf("multipart: %q, %q, %v", rest, files, err)
	}
	const pairs = "token=t&attachment_base64=YWI%3D&message=a+b"
	if rest, files, err = lifted("application/x-www-form-urlencoded", pairs, 100); rest != "attachment_base64=0&message=a+b&token=t" || !slices.Equal(files, []string{"||ab"}) || err != nil {
		t.Errorf("a form: %q, %q, %v", rest, files, err)
	}
	for body, want := range map[string]refusal.Kind{"attachment_base64=%3F": refusal.KindInvalid, "attachment_base64=%": refusal.KindInvalid, "a=" + strings.Repeat("x", 100): refusal.KindTooLarge} {
		if _, _, err := lifted("", body, 100); refusal.KindOf(err) != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	for body, want := range map[string]bool{pairs: true, "a=b": false, "xattachment_base64=": false, multipart: false} {
		if HoldsFiles("application/x-www-form-urlencoded", []byte(body)) != want {
			t.Errorf("%s holds files: %v", body, !want)
		}
	}
}

func TestLift_Form(t *testing.T) {
	const body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.txt\"\r\nContent-Type: text/plain\r\n\r\nfile\r\n--x\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\n2\r\n--x--\r\n"
	var before []byte
	var files []string
	rest, err := Lift("multipart/form-data; boundary=x", strings.NewReader(body), 1000, func(name, mediaType string, content io.Reader, form func() []byte) error {
		text, err := io.ReadAll(content)
		before, files = form(), append(files, name+"|"+mediaType+"|"+string(text))
		return err
	})
	if err != nil || !slices.Equal(files, []string{"f.txt|text/plain|file"}) {
		t.Errorf("%q, %v", files, err)
	}
	names := func(b []byte) (all []string) {
		err := Each("multipart/form-data; boundary=x", b, func(name string, v Value) error {
			content, file := v.File()
			all = append(all, fmt.Sprint(name, "=", string(content), file))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return all
	}
	if got, want := names(rest), []string{"a=1false", "f=true", "b=2false"}; !slices.Equal(got, want) {
		t.Errorf("the rest has %q, want %q", got, want)
	}
	if got, want := names(before), []string{"a=1false"}; !slices.Equal(got, want) {
		t.Errorf("before the file there is %q, want %q", got, want)
	}
	for limit, body := range map[int64]string{100: strings.Replace(body, "1\r\n", strings.Repeat("1", 200)+"\r\n", 1), 1000: body[:150]} {
		if _, _, err := lifted("multipart/form-data; boundary=x", body, limit); err == nil {
			t.Errorf("%q is taken", body)
		}
	}
}

// The headers of the parts count, too.
func TestLift_LongHeaders(t *testing.T) {
	part := "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\nX-Long: " + strings.Repeat("x", 500) + "\r\n\r\n\r\n"
	for n, want := range map[int]refusal.Kind{1: "", 5: refusal.KindTooLarge} {
		rest, _, err := lifted("multipart/form-data; boundary=x", strings.Repeat(part, n)+"--x--\r\n", 1000)
		if refusal.KindOf(err) != want {
			t.Errorf("%d parts: %d bytes are left, %v", n, len(rest), err)
		}
	}
}

// Whatever the JSON is, what isn't a file stays as it is, and Lift doesn't make JSON of what isn't.
func FuzzLift(f *testing.F) {
	f.Add([]byte(`{"attachments":[{"filename":"a","base64":"YQ=="}],"attachment_base64":"Yg==","m":"\""}`))
	f.Add([]byte(`{"attachments":{"base64":"`))
	f.Fuzz(func(t *testing.T, body []byte) {
		files := 0
		rest, err := Lift("application/json", bytes.NewReader(body), int64(len(body)), func(_, _ string, content io.Reader, _ func() []byte) error {
			files++
			n, err := io.Copy(io.Discard, content)
			if n > int64(len(body)) {
				t.Errorf("a file of %d bytes in %d", n, len(body))
			}
			return err
		})
		if err != nil || !IsJSON(body) {
			return
		}
		if files == 0 && !bytes.Equal(rest, body) {
			t.Errorf("%q became %q", body, rest)
		}
		if json.Valid(body) && !json.Valid(rest) {
			t.Errorf("%q became invalid: %q", body, rest)
		}
	})
}
