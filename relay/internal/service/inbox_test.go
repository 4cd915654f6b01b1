package service_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// collect reads a stream until it has n messages, and checks that they come in the order of their ids.
func collect(t *testing.T, st *service.Stream, n int) (ids []int64, texts map[string]int) {
	t.Helper()
	texts = map[string]int{}
	for end := time.After(time.Minute); len(ids) < n; {
		all, err := st.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if len(ids) > 0 && m.ID <= ids[len(ids)-1] {
				t.Fatalf("%d comes after %d", m.ID, ids[len(ids)-1])
			}
			ids = append(ids, m.ID)
			texts[m.Body]++
		}
		if len(all) > 0 {
			continue
		}
		select {
		case <-st.Moved():
		case <-end:
			t.Fatalf("%d of %d messages came", len(ids), n)
		}
	}
	return ids, texts
}

// Several senders, at two relays if they share the database, send to several rooms at once. Each stream gets every message
// once, in one order, whichever relay it is at.
func TestStream_ManySenders_EachMessageOnceAndInOrder(t *testing.T) {
	const senders, each = 4, 50
	r := relaytest.NewSharedRig(t)
	r.Start()
	relays := []*service.Service{r.Service}
	if relaytest.OnPostgres() {
		relays = append(relays, another(t, r))
	}
	var tokens []string
	for i := range senders {
		tokens = append(tokens, r.NewApp(fmt.Sprint("a", i), fmt.Sprintf("!room%d:hs", i)).Token)
	}
	var streams []*service.Stream
	for _, s := range relays {
		st, err := s.NewStream(t.Context(), r.Admin, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		streams = append(streams, st)
	}
	var sending sync.WaitGroup
	for i, token := range tokens {
		sending.Go(func() {
			for n := range each {
				_, err := relays[i%len(relays)].Accept(context.Background(), post.Draft{Token: token, Content: post.Content{Body: fmt.Sprint(i, " ", n)}, Source: "test"})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	var first []int64
	for i, st := range streams {
		ids, texts := collect(t, st, senders*each)
		if len(texts) != senders*each {
			t.Errorf("stream %d has %d different messages", i, len(texts))
		}
		if first == nil {
			first = ids
		}
	}
	sending.Wait()
	st, err := relays[0].NewStream(t.Context(), r.Admin, first[99])
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	rest, _ := collect(t, st, senders*each-100)
	if fmt.Sprint(rest) != fmt.Sprint(first[100:]) {
		t.Errorf("continued after %d it gets %v, want %v", first[99], rest, first[100:])
	}
	page, err := relays[0].ReadMessages(t.Context(), r.Admin, 0, 0, 3)
	if err != nil || len(page.Messages) != 3 || page.Messages[0].ID != first[len(first)-1] || !page.More {
		t.Errorf("the first page is %v, %v", page, err)
	}
}

// another begins a second relay on the database of a rig.
func another(t *testing.T, r *relaytest.Rig) *service.Service {
	t.Helper()
	o := r.Options
	o.Metrics = service.NewMetrics(prometheus.NewRegistry())
	var err error
	if o.Store, err = relaytest.OpenStore(r.Path, true); err != nil {
		t.Fatal(err)
	}
	s, err := service.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A client that was made or deleted at one relay is known at the other.
func TestClient_OfAnotherRelay(t *testing.T) {
	relaytest.PostgresOnly(t)
	r := relaytest.NewSharedRig(t)
	r.Start()
	s := another(t, r)
	c, err := r.CreateClient(t.Context(), r.Admin, "phone", 0)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.ClientViewer(t.Context(), c.Token); err != nil || v.ClientID != c.ID || v.UserID != r.Admin.UserID || v.Admin {
		t.Fatalf("%+v, %v", v, err)
	}
	if err := s.DeleteClient(t.Context(), r.Admin, c.ID); err != nil {
		t.Fatal(err)
	}
	r.Eventually("the first relay knows that it is deleted", func() bool {
		_, err := r.ClientViewer(t.Context(), c.Token)
		return err != nil
	})
}
