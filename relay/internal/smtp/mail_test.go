package smtp

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// read reads a mail written with line feeds.
func read(text string) (m Mail, files []string, err error) {
	m, err = readMail(strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n")), 1000, func(name, mediaType string, content io.Reader) error {
		b, err := io.ReadAll(content)
		files = append(files, name+"|"+mediaType+"|"+string(b))
		return err
	})
	return m, files, err
}

func TestRead(t *testing.T) {
	for name, tt := range map[string]struct {
		mail  string
		want  Mail
		files []string
	}{
		"plain": {"Subject: s\nFrom: a@b\nMessage-ID: <1@b>\n\nline\n.\nü\n", Mail{ID: "<1@b>", Subject: "s", From: "a@b", Text: "line\n.\nü"}, nil},
		"encoded words": {
			"Subject: =?utf-8?q?T=C3=BCr?= =?iso-8859-1?b?9g==?=\n folded\nFrom: =?utf-8?q?=C3=84?= <a@b>\n\nx",
			Mail{Subject: "Türö folded", From: "Ä <a@b>", Text: "x"},
			nil,
		},
		"quoted-printable, Latin-1": {"Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nT=FCr =\nzu", Mail{Text: "Tür zu"}, nil},
		"base64, KOI8-R":            {"Content-Type: text/plain; charset=koi8-r\nContent-Transfer-Encoding: base64\n\n8NLJ\n18XU\n", Mail{Text: "Привет"}, nil},
		"no charset, not UTF-8":     {"\nT\xfcr", Mail{Text: "Tür"}, nil},
		"unknown charset":           {"Content-Type: text/plain; charset=nonsense\n\nx", Mail{Text: "x"}, nil},
		"HTML":                      {"Content-Type: text/html; charset=utf-8\nX-Priority: 1 (Highest)\n\n<b>x</b>", Mail{Text: "<b>x</b>", HTML: true, Priority: 1}, nil},
		"alternatives": {
			"Content-Type: multipart/alternative; boundary=x\nImportance: low\n\n--x\n\nplain\n--x\nContent-Type: text/html\n\n<i>html</i>\n--x--\n",
			Mail{Text: "<i>html</i>", HTML: true, Priority: -1},
			nil,
		},
		"attachments": {
			"Content-Type: multipart/mixed; boundary=x\n\npreamble\n--x\nContent-Type: multipart/alternative; boundary=y\n\n--y\n\nplain\n--y--\n--x\n" +
				"Content-Type: application/pdf; name=\"=?utf-8?q?=C3=A4.pdf?=\"\nContent-Transfer-Encoding: base64\nContent-Disposition: attachment\n\nYWJj\nZA\n--x\n" +
				"Content-Type: text/plain\nContent-Disposition: attachment; filename*=utf-8''%C3%BC.txt\n\nx\n--x\n" +
				"Content-Type: message/rfc822\n\nSubject: inner\n\ny\n--x\nContent-Type: image/png\nContent-ID: <1>\n\nz\n--x--\nepilogue",
			Mail{Text: "plain"},
			[]string{"ä.pdf|application/pdf|abcd", "ü.txt|text/plain|x", "message.eml|message/rfc822|Subject: inner\r\n\r\ny", "|image/png|z"},
		},
		"texts in a row":            {"Content-Type: multipart/mixed; boundary=x\n\n--x\n\na<b\n--x\nContent-Type: text/html\n\n<p>c</p>\n--x--", Mail{Text: "<p>a&lt;b</p>\n<p>c</p>", HTML: true}, nil},
		"without its last boundary": {"Content-Type: multipart/mixed; boundary=x\n\n--x\n\na\n", Mail{Text: "a"}, nil},
		"a type that isn't one":     {"Content-Type: ;;\n\na", Mail{}, []string{"|application/octet-stream|a"}},
		"a broken parameter":        {"Content-Type: text/plain; charset\n\nü", Mail{Text: "ü"}, nil},
		"a parameter twice":         {"Content-Type: Text/HTML; charset=utf-8; charset=utf-8\n\n<b>x</b>", Mail{Text: "<b>x</b>", HTML: true}, nil},
		"an open quote":             {"Content-Type: text/plain; charset=\"utf-8\n\na", Mail{Text: "a"}, nil},
		"a charset that is refused": {"Content-Type: text/plain; charset=iso-2022-kr\n\nabc", Mail{Text: "abc"}, nil},
		"nothing":                   {"Subject: s\n\n", Mail{Subject: "s"}, nil},
		"no header":                 {"no header\nline", Mail{Text: "no header\nline"}, nil},
		"no header, with a colon":   {"Backup: failed\nsda\n\nmore", Mail{Text: "Backup: failed\nsda\n\nmore"}, nil},
		"a line that is no header":  {"Subject: s\nbroken line\n\ntext", Mail{Subject: "s", Text: "broken line\n\ntext"}, nil},
		"a space in a name":         {"Subject: s\nno name: x\n\ntext", Mail{Subject: "s", Text: "no name: x\n\ntext"}, nil},
		"a mailbox":                 {"From root@nas Sun Nov 29 00:00:00 2026\nSubject: s\n\ntext", Mail{Subject: "s", Text: "text"}, nil},
		"columns":                   {"\n\n  a\n\tb  c  \n\n", Mail{Text: "  a\n\tb  c"}, nil},
		"UTF-8 as ASCII":            {"Content-Type: text/plain; charset=ANSI_X3.4-1968\n\nGröße – ✗", Mail{Text: "Größe – ✗"}, nil},
		"Latin-1 as ASCII":          {"Content-Type: text/plain; charset=us-ascii\n\nGr\xf6\xdfe", Mail{Text: "Größe"}, nil},
		"UTF-8 far from the start":  {"\n" + strings.Repeat("x", 980) + "\n" + strings.Repeat("y\n", 3) + "ü", Mail{Text: strings.Repeat("x", 980) + "\ny\ny\ny\nü"}, nil},
		"HTML with its charset":     {"Content-Type: text/html\n\n<meta charset=iso-8859-15>\xa4", Mail{Text: "<meta charset=iso-8859-15>€", HTML: true}, nil},
		"a subject in Latin-1":      {"Subject: Gr\xf6\xdfe \xfcberschritten\n\nx", Mail{Subject: "Größe überschritten", Text: "x"}, nil},
		"a subject in UTF-8":        {"Subject: Größe\n\nx", Mail{Subject: "Größe", Text: "x"}, nil},
		"a word of ASCII":           {"Subject: =?ANSI_X3.4-1968?Q?Gr=C3=B6=C3=9Fe_a?= =?us-ascii?b?w7w=?=\n\nx", Mail{Subject: "Größe aü", Text: "x"}, nil},
		"words cut in a character":  {"Subject: =?utf-8?b?w5xi?= =?UTF-8?Q?=C3?=\n =?utf-8?Q?=BC?= =?gb2312?b?xA==?= =?gb2312?b?47rD?= end\n\nx", Mail{Subject: "Übü你好 end", Text: "x"}, nil},
		"a broken word":             {"Subject: =?utf-8?b?!?= =?utf-8?q?a?=\n\nx", Mail{Subject: "=?utf-8?b?!?= a", Text: "x"}, nil},
		"flowed": {
			"Content-Type: text/plain; format=flowed\n\na \nb\n c\n> d \n> e\nf \n-- \nname",
			Mail{Text: "a b\nc\n> d e\nf \n-- \nname"},
			nil,
		},
		"flowed, without spaces":    {"Content-Type: text/plain; format=Flowed; delsp=yes\n\nlong \nword", Mail{Text: "longword"}, nil},
		"several lines of a header": {"Subject: a\n\tb\x00c\n\n", Mail{}, nil},
	} {
		m, files, err := read(tt.mail)
		if name == "several lines of a header" { // a NUL is refused, or gone
			if strings.Contains(m.Subject, "\x00") {
				t.Errorf("%s: %q", name, m.Subject)
			}
			continue
		}
		if err != nil || m != tt.want || !slices.Equal(files, tt.files) {
			t.Errorf("%s: %+v, %q, %v\nwant %+v, %q", name, m, files, err, tt.want, tt.files)
		}
	}
}

func TestRead_Refused(t *testing.T) {
	deep := "Subject: s\n"
	for i := range maxDepth + 2 {
		deep += fmt.Sprintf("Content-Type: multipart/mixed; boundary=x%d\n\n--x%d\n", i, i)
	}
	many := "Content-Type: multipart/mixed; boundary=x\n\n" + strings.Repeat("--x\n\na\n", maxParts+1)
	for name, tt := range map[string]struct {
		mail string
		want error
	}{
		"a long text":     {"\n" + strings.Repeat("x", 1001), ErrTooLong},
		"many texts":      {"Content-Type: multipart/mixed; boundary=x\n\n" + strings.Repeat("--x\n\n"+strings.Repeat("x", 900)+"\n", 3), ErrTooLong},
		"a long header":   {"Subject: " + strings.Repeat("x", maxHeader) + "\n\n", ErrTooLong},
		"nothing":         {"", ErrMalformed},
		"nested too deep": {deep, ErrMalformed},
		"too many parts":  {many, ErrMalformed},
		"broken base64":   {"Content-Type: image/png\nContent-Transfer-Encoding: base64\n\nYWJjZ", ErrMalformed},
	} {
		if _, _, err := read(tt.mail); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// A mail that is cut short is never taken, wherever that is.
func TestRead_CutShort(t *testing.T) {
	lost := errors.New("the connection is lost")
	text := strings.ReplaceAll("Subject: s\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\na\n--x\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\nYWJj\n--x--\nend", "\n", "\r\n")
	for n := range len(text) + 1 {
		_, err := readMail(io.MultiReader(strings.NewReader(text[:n]), iotest.ErrReader(lost)), 1000, func(_, _ string, content io.Reader) error {
			_, err := io.Copy(io.Discard, content)
			return err
		})
		if !errors.Is(err, lost) {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
}

// Whatever a mail is, its text is bounded and there are no more files than parts.
func FuzzRead(f *testing.F) {
	f.Add([]byte("Subject: =?utf-8?q?x?=\r\nContent-Type: multipart/alternative; boundary=x\r\n\r\n--x\r\n\r\na\r\n--x\r\nContent-Type: text/html; charset=utf-16\r\n\r\n<b>\r\n--x--"))
	f.Add([]byte("Content-Type: image/png; name=\"a\"\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.StdEncoding.EncodeToString([]byte("content"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		files := 0
		m, err := readMail(strings.NewReader(string(b)), 100, func(_, _ string, content io.Reader) error {
			files++
			n, err := io.Copy(io.Discard, content)
			if n > int64(len(b)) {
				t.Errorf("a file of %d bytes in %d", n, len(b))
			}
			return err
		})
		if files > maxParts {
			t.Errorf("%d files", files)
		}
		if err == nil && (len(m.Text) > 100*20 || len(m.Subject) > maxSubject+8 || strings.ContainsAny(m.Subject, "\r\n\x00")) {
			t.Errorf("%d bytes of text, subject %q", len(m.Text), m.Subject)
		}
	})
}
