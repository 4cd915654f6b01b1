package header

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestParseRange(t *testing.T) {
	for _, c := range []struct {
		header string
		size   int64
		kind   RangeKind
		want   Span
	}{
		{"", 10, RangeNone, Span{}},
		{"items=0-1", 10, RangeNone, Span{}},
		{"bytes=0-0", 10, RangeOne, Span{0, 1}},
		{"bytes=0-9", 10, RangeOne, Span{0, 10}},
		{"bytes=2-", 10, RangeOne, Span{2, 8}},
		{"bytes=9-100", 10, RangeOne, Span{9, 1}},
		{"bytes=-3", 10, RangeOne, Span{7, 3}},
		{"bytes=-30", 10, RangeOne, Span{0, 10}},
		{"bytes= 1 - 2 ", 10, RangeOne, Span{1, 2}},
		{"bytes=0-1,3-4", 10, RangeSeveral, Span{}},
		{"bytes=0-1,20-", 10, RangeSeveral, Span{}},
		{"bytes=,0-1", 10, RangeSeveral, Span{}},
		{"bytes=20-,30-", 10, RangeUnsatisfiable, Span{}},
		{"bytes=0-1,x", 10, RangeUnsatisfiable, Span{}},
		{"bytes=,", 10, RangeNone, Span{}},
		{"bytes=10-", 10, RangeUnsatisfiable, Span{}},
		{"bytes=10-11", 10, RangeUnsatisfiable, Span{}},
		{"bytes=-0", 10, RangeUnsatisfiable, Span{}},
		{"bytes=0-", 0, RangeNone, Span{}},
		{"bytes=5-9", 0, RangeNone, Span{}},
		{"bytes=-1", 0, RangeNone, Span{}},
		{"bytes=0-0,2-", 0, RangeNone, Span{}},
		{"bytes=x", 0, RangeUnsatisfiable, Span{}},
		{"bytes=3-2", 10, RangeUnsatisfiable, Span{}},
		{"bytes=", 10, RangeNone, Span{}},
		{"bytes=x-", 10, RangeUnsatisfiable, Span{}},
		{"bytes=--1", 10, RangeUnsatisfiable, Span{}},
		{"bytes=+1-2", 10, RangeUnsatisfiable, Span{}},
		{"bytes=99999999999999999999-", 10, RangeUnsatisfiable, Span{}},
	} {
		if kind, got := ParseRange(c.header, c.size); kind != c.kind || got != c.want {
			t.Errorf("ParseRange(%q, %d) = %d %+v, want %d %+v", c.header, c.size, kind, got, c.kind, c.want)
		}
	}
}

func TestParseChunk(t *testing.T) {
	for header, want := range map[string]Span{
		"0-0":                    {0, 1},
		"10-19":                  {10, 10},
		"bytes 10-19/30":         {10, 10},
		"bytes 10-19/*":          {10, 10},
		"":                       {},
		"5":                      {},
		"-5":                     {},
		"5-":                     {},
		"9-8":                    {},
		"a-b":                    {},
		"0x1-2":                  {},
		"+0-1":                   {},
		"0-9223372036854775807":  {},
		"0-92233720368547758070": {},
	} {
		got, ok := parseChunk(header)
		if got != want || ok != (want.Length > 0) {
			t.Errorf("parseChunk(%q) = %+v %v, want %+v", header, got, ok, want)
		}
	}
}

// The ranges of net/http are the ruler.
func FuzzParseRange(f *testing.F) {
	for _, s := range []string{"bytes=0-1", "bytes=-5", "bytes=3-", "bytes=1-2,3-4", "none", "bytes= 4 -6"} {
		f.Add(s, int64(8))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 || size > 1<<12 || strings.ContainsAny(header, "\r\n") {
			return
		}
		kind, got := ParseRange(header, size)
		w := httptest.NewRecorder()
		r := &http.Request{Method: http.MethodGet, Header: http.Header{"Range": {header}}}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("x", int(size))))
		switch kind {
		case RangeUnsatisfiable:
			// net/http is laxer than the RFC: it sends the last 0 bytes (-0), or the
			// last of nothing, and takes a sign for a digit.
			bare := strings.NewReplacer(" ", "", "\t", "").Replace(header)
			if w.Code == http.StatusPartialContent && size > 0 && !strings.Contains(bare, "-0") && !strings.Contains(bare, "+") {
				t.Errorf("ParseRange(%q, %d) finds nothing, net/http %s", header, size, w.Header().Get("Content-Range"))
			}
		case RangeSeveral:
			if w.Code == http.StatusRequestedRangeNotSatisfiable {
				t.Errorf("ParseRange(%q, %d) leaves to net/http what it refuses", header, size)
			}
		case RangeOne:
			if got.Start < 0 || got.Length < 1 || got.Start+got.Length > size {
				t.Fatalf("ParseRange(%q, %d) = %+v lies outside", header, size, got)
			}
			if want := fmt.Sprintf("bytes %d-%d/%d", got.Start, got.Start+got.Length-1, size); w.Header().Get("Content-Range") != want {
				t.Errorf("ParseRange(%q, %d) = %s, net/http says %d %s", header, size, want, w.Code, w.Header().Get("Content-Range"))
			}
		}
	})
}

func FuzzParseChunk(f *testing.F) {
	for _, s := range []string{"0-0", "bytes 1-2/3", "5-4", "", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if got, ok := parseChunk(header); ok && (got.Start < 0 || got.Length < 1 || got.Start+got.Length-1 < got.Start) {
			t.Errorf("parseChunk(%q) = %+v", header, got)
		}
	})
}
