package delivery_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

func withAttachments(o *service.Options) { o.Limits.MaxAttachments = 1 << 20 }

// postFiles sends a message with files, which have their names as content.
func postFiles(t *testing.T, r *relaytest.Rig, token, text string, names ...string) int64 {
	t.Helper()
	m := post.Draft{Token: token, Content: post.Content{Body: text}, Source: "test"}
	for _, name := range names {
		a, err := r.Attach(ctx, 1, strings.NewReader(name), 1000)
		if err != nil {
			t.Fatal(err)
		}
		a.Name = name
		m.Files = append(m.Files, a)
	}
	return r.Send(m).ID
}

// kept is the number of attachments whose content is kept.
func kept(r *relaytest.Rig) (n int) {
	r.Exec("SELECT count(*) FROM attachments", &n)
	return n
}

func TestAttachments_FollowTheirMessage(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprint("encrypted ", encrypted), func(t *testing.T) {
			r := relaytest.NewRig(t, withAttachments, withEncryption)
			r.HS.Sealed = map[string]bool{"!a:hs": encrypted}
			r.Start()
			app := r.NewApp("a", "!a:hs")
			id := postFiles(t, r, app.Token, strings.Repeat("long ", 40_000), "a.png", "b.txt")
			r.Post(app.Token, "next")
			r.Drained()
			want := []string{"m.text", "m.file", "m.file", "m.file", "m.text"} // the long text, the files, the next message
			var kinds []string
			r.HS.Mu.Lock()
			for _, e := range r.HS.Events["!a:hs"] {
				kinds = append(kinds, e.Kind)
			}
			files := strings.Join(r.HS.Files[1:], ",")
			r.HS.Mu.Unlock()
			if encrypted {
				if len(kinds) != 5 || files != "encrypted YS5wbmc=,encrypted Yi50eHQ=" {
					t.Errorf("%d events; uploaded %s", len(kinds), files)
				}
			} else if !slices.Equal(kinds, want) || files != "a.png,b.txt" {
				t.Errorf("the room has %q; uploaded %s", kinds, files)
			}
			if m := r.Stored(id); m.Error != "" || len(m.Files()) != 2 || m.Files()[0].Name != "a.png" {
				t.Errorf("the message: %q, %+v", m.Error, m.Files())
			}
			r.Eventually("nothing is kept", func() bool { return kept(r) == 0 })
		})
	}
}

// An attachment whose answer was lost is in the room once, after a crash too.
func TestAttachment_Crash_IsSentOnce(t *testing.T) {
	r := relaytest.NewRig(t, withAttachments)
	lost := make(chan struct{})
	var once sync.Once
	r.HS.Script = func(out matrix.Outgoing, _ int) (a *relaytest.Answer) {
		if strings.Contains(string(out.Content), `"m.file"`) {
			once.Do(func() {
				a = &relaytest.Answer{Err: &matrix.SendError{Class: matrix.ClassRetry, Reason: "no answer"}, Store: true}
				close(lost)
			})
		}
		return a
	}
	r.Start()
	id := postFiles(t, r, r.NewApp("a", "!a:hs").Token, "m", "a.bin", "b.bin")
	<-lost
	r.Recover()
	r.Drained()
	if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"m", "a.bin", "b.bin"}) {
		t.Errorf("the room has %q", got)
	}
	if m := r.Stored(id); m.State != post.StateSent || m.Error != "" {
		t.Errorf("it is %s, %q", m.State, m.Error)
	}
	r.Eventually("nothing is kept", func() bool { return kept(r) == 0 })
}

// A refused attachment is named, and those behind it are sent.
func TestAttachment_Refused_OthersAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, withAttachments)
		var once sync.Once
		r.HS.Script = func(out matrix.Outgoing, _ int) (a *relaytest.Answer) {
			if strings.Contains(string(out.Content), `"m.file"`) {
				once.Do(func() { f := relaytest.Fails(matrix.ClassDead); a = &f })
			}
			return a
		}
		r.Start()
		synctest.Wait()
		id := postFiles(t, r, r.NewApp("a", "!a:hs").Token, "m", "a.bin", "b.bin")
		time.Sleep(time.Minute)
		if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"m", "b.bin"}) {
			t.Errorf("the room has %q", got)
		}
		if m := r.Stored(id); m.State != post.StateSent || !strings.Contains(m.Error, "The attachment a.bin could not be sent") {
			t.Errorf("it is %s, %q", m.State, m.Error)
		}
		if n := kept(r); n != 0 {
			t.Errorf("%d are kept", n)
		}
	})
}

// A message that was given up keeps its attachments for another delivery.
func TestAttachment_DeliveredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, withAttachments)
		r.HS.Script = func(matrix.Outgoing, int) *relaytest.Answer { f := relaytest.Fails(matrix.ClassDead); return &f }
		r.Start()
		synctest.Wait()
		id := postFiles(t, r, r.NewApp("a", "!a:hs").Token, "m", "a.bin")
		r.Await(id, post.StateDead)
		r.HS.Do(func() { r.HS.Script = nil })
		if _, err := r.Redeliver(ctx, r.Admin, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := r.HS.Bodies("!a:hs"); !slices.Equal(got, []string{"m", "a.bin"}) {
			t.Errorf("the room has %q", got)
		}
	})
}

// Withdrawing a message removes its attachments from the room.
func TestAttachment_Withdrawn(t *testing.T) {
	r := relaytest.NewRig(t, withAttachments)
	r.Start()
	id := postFiles(t, r, r.NewApp("a", "!a:hs").Token, "m", "a.bin")
	r.Drained()
	r.Withdraw(id)
	r.Drained()
	if got := r.HS.Bodies("!a:hs"); len(got) != 0 {
		t.Errorf("the room has %q", got)
	}
}

// A report that repeats the last one with the same files says nothing, and its copies of them aren't kept.
func TestAttachments_OfAnAlertThatIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relaytest.NewRig(t, withAttachments)
		app := r.NewApp("a", "!a:hs")
		r.Start()
		report := func(content string) (again bool) {
			t.Helper()
			a, err := r.Attach(ctx, 1, strings.NewReader(content), 1000)
			if err != nil {
				t.Fatal(err)
			}
			a.Name = "graph.txt"
			got := r.Send(post.Draft{Token: app.Token, Content: post.Content{Body: "down"}, Key: "k", Change: post.Update, Files: []post.Attachment{a}})
			if got.Replay {
				err = r.Detach(ctx, a)
			}
			r.Drained()
			if n := kept(r); err != nil || n != 0 {
				t.Errorf("%d files are kept, %v", n, err)
			}
			return got.Replay
		}
		if report("one") || !report("one") || report("two") {
			t.Error("what is new is decided wrongly")
		}
		if got := strings.Join(r.HS.Bodies("!a:hs"), "|"); got != "down|graph.txt|* down|graph.txt" {
			t.Errorf("%q", got)
		}
	})
}
