package post

import (
	"fmt"
	"strings"
	"testing"
)

func TestCollect(t *testing.T) {
	const window = 1000
	f, collected := Collect(Digest{ApplicationID: 1}, window, 5000, "first", 0)
	if collected || f.BeganAt != 5000 || f.Times != 0 {
		t.Fatalf("the first: %+v %v", f, collected)
	}
	for i := range 12 {
		if f, collected = Collect(f, window, 5001+int64(i), DigestLine("T", fmt.Sprintf("\n m%d\nmore", i)), -2+i%2); !collected {
			t.Fatalf("message %d is not collected", i)
		}
		if title, body := f.Message(); i == 0 && (title != "1 more message" || body != "T: m0") {
			t.Errorf("%q %q", title, body)
		}
	}
	title, body := f.Message()
	if title != "12 more messages" || !strings.HasPrefix(body, "The last 10:\nT: m2\n") || !strings.HasSuffix(body, "\nT: m11") || f.Priority != -1 {
		t.Errorf("%q %q %+v", title, body, f)
	}
	if f, _ = Collect(f, window, 5999, DigestLine("", strings.Repeat("x", 5000)+"\u202e"), 0); len(f.Lines) > 10*210 {
		t.Errorf("%d bytes", len(f.Lines))
	}
	for _, at := range []int64{6000, 4999} {
		if next, collected := Collect(f, window, at, "next", 0); collected || next.BeganAt != at || next.MessageID != 0 || next.Lines != "" {
			t.Errorf("at %d: %+v %v", at, next, collected)
		}
	}
}

// With a topic the first message collects the others. It is one of them.
func TestCollect_Topic(t *testing.T) {
	f, collected := Collect(Digest{ApplicationID: 1, Topic: "team/app"}, 1000, 5000, "first", -1)
	if title, body := f.Message(); collected || title != "team/app: 1 message" || body != "first" {
		t.Errorf("%v %q %q", collected, title, body)
	}
	f, collected = Collect(f, 1000, 5999, "second", 0)
	if title, body := f.Message(); !collected || title != "team/app: 2 messages" || body != "first\nsecond" || f.Priority != 0 || !DigestsSeveral(title) {
		t.Errorf("%v %q %q %+v", collected, title, body, f)
	}
	if f, collected = Collect(f.Withdrawn(), 1000, 5999, "third", 0); collected || f.Times != 1 || f.BeganAt != 5999 {
		t.Errorf("after the message was withdrawn: %v %+v", collected, f)
	}
}
