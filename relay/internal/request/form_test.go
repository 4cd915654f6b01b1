package request

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"slipway/relay/internal/refusal"
)

// readForm returns what ReadForm leaves and takes out.
func readForm(body string, limit int64) (rest string, files []string, err error) {
	b, err := ReadForm(strings.NewReader(body), "x", limit, func(name, mediaType string, content io.Reader, _ func() []byte) error {
		text, err := io.ReadAll(content)
		files = append(files, name+"|"+mediaType+"|"+string(text))
		return err
	})
	return string(b), files, err
}

func TestReadForm(t *testing.T) {
	const body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.txt\"\r\nContent-Type: text/plain\r\n\r\nfile\r\n--x\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\n2\r\n--x--\r\n"
	var before []byte
	var files []string
	rest, err := ReadForm(strings.NewReader(body), "x", 1000, func(name, mediaType string, content io.Reader, form func() []byte) error {
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
		if _, _, err := readForm(body, limit); err == nil {
			t.Errorf("%q is taken", body)
		}
	}
}

// The headers of the parts count, too.
func TestReadForm_LongHeaders(t *testing.T) {
	part := "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\nX-Long: " + strings.Repeat("x", 500) + "\r\n\r\n\r\n"
	for n, want := range map[int]refusal.Kind{1: "", 5: refusal.KindTooLarge} {
		rest, _, err := readForm(strings.Repeat(part, n)+"--x--\r\n", 1000)
		if refusal.KindOf(err) != want {
			t.Errorf("%d parts: %d bytes are left, %v", n, len(rest), err)
		}
	}
}

// Whatever the body is, fields stay as they are.
func FuzzReadForm(f *testing.F) {
	f.Add([]byte("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nfile\r\n--x--\r\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		fields := func(form []byte) (all []string, err error) {
			err = Each("multipart/form-data; boundary=x", form, func(name string, v Value) error {
				if _, isFile := v.File(); !isFile {
					all = append(all, name+"="+string(v.Raw()))
				}
				return nil
			})
			return all, err
		}
		want, err := fields(body)
		if err != nil {
			return // no form
		}
		rest, err := ReadForm(bytes.NewReader(body), "x", int64(2*len(body)+1000), func(_, _ string, content io.Reader, _ func() []byte) error {
			n, err := io.Copy(io.Discard, content)
			if n > int64(len(body)) {
				t.Errorf("a file of %d bytes in %d", n, len(body))
			}
			return err
		})
		if err != nil {
			return
		}
		if got, err := fields(rest); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q became %q: %v", body, rest, err)
		}
	})
}
