package delivery_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/format"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

const (
	childEnv = "RELAY_TEST_CHILD" // path of the database and URL of the homeserver, for the process that is killed
	senders  = 8
	each     = 200
	maxKills = 12
)

// child is a relay that takes a message from each line of its input and says so when it is accepted.
func child(where string) {
	path, url, _ := strings.Cut(where, "|")
	hs := relaytest.NewHomeserver()
	db, err := relaytest.OpenStore(path, false)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s, err := service.New(context.Background(), service.Options{
		Store: db, Sender: &remote{hs, url}, Rooms: hs, Format: format.Options{}, Log: zap.NewNop(),
		Metrics: service.NewMetrics(prometheus.NewRegistry()), CheckToken: true, Admin: account.Admin{Name: "admin", Password: "administrator"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	admin, _ := relaytest.Administrator(s)
	if apps, _ := s.Applications(context.Background(), admin); len(apps) == 0 {
		for i := range 3 {
			if _, err := s.CreateApplication(context.Background(), admin, account.ApplicationInput{Name: p(fmt.Sprint(i)), Room: p(fmt.Sprintf("!%d", i))}); err != nil {
				panic(err)
			}
		}
	}
	go func() { _ = s.Run(context.Background()) }()
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		text := lines.Text()
		go func() {
			app := int64(text[0]-'0')%3 + 1
			if _, err := s.AcceptFor(context.Background(), admin, app, post.Draft{Content: post.Content{Body: text}, IdempotencyKey: text}); err == nil {
				fmt.Println(text)
			}
		}()
	}
}

// remote sends to the homeserver in the parent process.
type remote struct {
	*relaytest.Homeserver
	url string
}

func (r *remote) Send(_ context.Context, out matrix.Outgoing) (string, error) {
	body, _ := json.Marshal(out)
	resp, err := http.Post(r.url, "application/json", strings.NewReader(string(body)))
	if err != nil {
		return "", &matrix.SendError{Class: matrix.ClassRetry, Reason: "lost", Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	id, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", &matrix.SendError{Class: matrix.ClassRetry, Reason: "lost", Err: err}
	}
	return string(id), nil
}

// TestKill9 kills the relay again and again while senders, which wait for each answer and repeat unanswered
// requests, send through it. At the end every message is in its room once, and each sender's are in order.
func TestKill9(t *testing.T) {
	hs := relaytest.NewHomeserver()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var out matrix.Outgoing
		if json.NewDecoder(req.Body).Decode(&out) == nil {
			_, _ = io.WriteString(w, hs.Put(out))
		}
	}))
	defer server.Close()
	k := &killed{t: t, where: relaytest.NewDatabase(t) + "|" + server.URL, acks: map[string]chan struct{}{}}
	k.start()
	defer k.kill()
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for i := range each {
				k.send(fmt.Sprintf("%d.%d", sender, i))
			}
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	kills := 0
	for going := true; going; {
		select {
		case <-over:
			going = false
		case <-time.After(20*time.Millisecond + rand.N(80*time.Millisecond)):
			if kills < maxKills {
				k.kill()
				k.start()
				kills++
			}
		}
	}
	k.check(hs, kills)
}

// check waits for the messages to arrive and checks which ones did.
func (k *killed) check(hs *relaytest.Homeserver, kills int) {
	arrived := func() (n int) {
		for room := range 3 {
			n += len(hs.Bodies(fmt.Sprintf("!%d", room)))
		}
		return n
	}
	for end := time.Now().Add(20 * time.Second); arrived() < senders*each && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // for those that come twice
	if n := arrived(); n != senders*each || kills == 0 {
		k.t.Errorf("%d events for %d messages after %d kills", n, senders*each, kills)
	}
	next := [senders]int{}
	for room := range 3 {
		for _, body := range hs.Bodies(fmt.Sprintf("!%d", room)) {
			var sender, i int
			if _, err := fmt.Sscanf(body, "%d.%d", &sender, &i); err != nil || next[sender] != i {
				k.t.Errorf("room %d has %q, want %d.%d", room, body, sender, next[sender])
			}
			next[sender] = i + 1
		}
	}
	k.t.Logf("%d kills", kills)
	k.checkCounts()
}

// checkCounts kills the relay for good and looks whether the applications' totals
// have lost anything.
func (k *killed) checkCounts() {
	path, _, _ := strings.Cut(k.where, "|")
	k.awaitStored(path)
	k.kill()
	hs := relaytest.NewHomeserver()
	db, err := relaytest.OpenStore(path, false)
	if err != nil {
		k.t.Fatal(err)
	}
	s, err := service.New(context.Background(), service.Options{
		Store: db, Sender: hs, Rooms: hs, Log: zap.NewNop(), Metrics: service.NewMetrics(prometheus.NewRegistry()), CheckToken: true,
		Admin: account.Admin{Name: "admin", Password: "administrator"},
	})
	if err != nil {
		k.t.Fatal(err)
	}
	defer s.Close()
	apps, err := s.Applications(context.Background(), account.Principal{UserID: 1, Admin: true})
	accepted, sent := int64(0), int64(0)
	for _, a := range apps {
		accepted += a.Accepted
		sent += a.Sent
	}
	if err != nil || accepted != senders*each || sent != senders*each {
		k.t.Errorf("%d messages are counted as accepted and %d as sent, want %d (%v)", accepted, sent, senders*each, err)
	}
}

// awaitStored waits until the results of all messages are stored.
func (k *killed) awaitStored(path string) {
	k.t.Helper()
	db, err := relaytest.OpenDatabase(path)
	if err != nil {
		k.t.Fatal(err)
	}
	defer db.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var left int
		if err := db.QueryRow("SELECT count(*) FROM outbox WHERE final_at = 0").Scan(&left); err != nil || left == 0 {
			if err != nil {
				k.t.Error(err)
			}
			return
		}
		if time.Now().After(end) {
			k.t.Errorf("%d results are not stored", left)
			return
		}
	}
}

// killed is a relay in a process of its own.
type killed struct {
	t     *testing.T
	where string

	mu    sync.Mutex
	cmd   *exec.Cmd
	stdin io.WriteCloser
	acks  map[string]chan struct{}
}

func (k *killed) start() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+k.where)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		k.t.Error(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		k.t.Error(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Error(err)
		return
	}
	k.mu.Lock()
	k.cmd, k.stdin = cmd, stdin
	k.mu.Unlock()
	lines := bufio.NewScanner(stdout)
	lines.Scan() // ready
	go func() {
		for lines.Scan() {
			k.mu.Lock()
			if c := k.acks[lines.Text()]; c != nil {
				close(c)
				delete(k.acks, lines.Text())
			}
			k.mu.Unlock()
		}
	}()
}

func (k *killed) kill() {
	k.mu.Lock()
	cmd := k.cmd
	k.mu.Unlock()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// send repeats a message until it is accepted.
func (k *killed) send(text string) {
	for {
		c := make(chan struct{})
		k.mu.Lock()
		k.acks[text] = c
		_, _ = fmt.Fprintln(k.stdin, text)
		k.mu.Unlock()
		select {
		case <-c:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}
