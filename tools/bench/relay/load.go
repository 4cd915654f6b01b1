package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// marker begins the body of each message of the bench; the message's key follows.
const marker = "bench:"

// Load describes the rate at which messages are offered.
type Load struct {
	Connections int
	Rate        float64 // messages a second over all connections; 0 means as fast as they are taken
}

func (l Load) String() string {
	if l.Rate > 0 {
		return fmt.Sprintf("%.0f a second", l.Rate)
	}
	if l.Connections == 1 {
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", l.Connections)
}

// due returns the time at which the nth message is offered, after the first one.
func (l Load) due(n int) time.Duration {
	if l.Rate == 0 {
		return 0
	}
	return time.Duration(float64(n) / l.Rate * float64(time.Second))
}

// sent counts the messages that were offered and accepted.
type sent struct {
	at      map[string]time.Time // when each accepted message was posted
	answers []time.Duration
	refused int
	took    time.Duration
}

// offer posts messages with all tokens in turn for a while; at a rate all that belong to it, also where they take longer.
func offer(ctx context.Context, url string, tokens []string, l Load, d time.Duration) sent {
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
	defer client.CloseIdleConnections()
	out := sent{at: map[string]time.Time{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	for w := range l.Connections {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				due := l.due(i*l.Connections + w)
				if l.Rate > 0 && due >= d || l.Rate == 0 && time.Since(began) >= d {
					return
				}
				time.Sleep(time.Until(began.Add(due)))
				key := fmt.Sprintf("%d.%d", w, i)
				at := time.Now()
				err := post(ctx, client, url, tokens[(w+i)%len(tokens)], key)
				took := time.Since(at)
				mu.Lock()
				if err == nil {
					out.at[key] = at
					out.answers = append(out.answers, took)
				} else {
					out.refused++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	out.took = time.Since(began)
	return out
}

// post sends one message as clients of all three relays do.
func post(ctx context.Context, client *http.Client, url, token, key string) error {
	body, err := json.Marshal(map[string]any{
		"title": "Backup", "priority": 1,
		"message": marker + key + " The **nightly** backup of host db-1 has ended:\n\n- 12 files\n- 3.4 GB\n",
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/message?token="+token, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the message was refused: %s", resp.Status)
	}
	return nil
}
