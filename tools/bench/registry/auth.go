package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// AuthCost compares the rate of honest requests with and without something that may slow
// them: their authentication, or guesses in parallel.
type AuthCost struct {
	Work          string
	Without, With Cost    // medians of the rounds
	Ratio         float64 // with to without, of the rates: the median of the rounds
	Goal          float64 // at least
}

// Cost is the cost of requests of one kind.
type Cost struct {
	Rate         float64 // a second
	PerOperation float64 // CPU seconds of the server
}

const (
	guessers        = 200
	guesserNetworks = 50 // addresses that they come from behind a trusted proxy
	guessesBefore   = 2 * time.Second
	firstLogins     = 20_000 // users who have not logged in yet
	authPassword    = "a password of the benchmark"
)

const authConfig = distributionConfig + `auth:
  htpasswd: {realm: bench, path: "{users}", cachettl: 1m}
  service: builtin
access:
  groups: {owners: [honest0, honest1]}
  rules:
    - {who: [anyone], repositories: ["library/**"], allow: [pull, list]}
    - {who: ["robot:ci"], repositories: ["web/**"], allow: [push, tag-move]}
    - {who: ["group:owners"], repositories: ["**"], allow: [delete]}
    - {who: [users], repositories: ["**"], allow: [push, tag-move]}
`

// honest is requests that somebody sends who may.
type honest struct {
	server  *server
	clients []*client
	do      func(c *client, n int64) error
	guesses []http.Header // what those send who guess meanwhile; nil = nobody does
}

// authPair is a pair of logins that are compared.
type authPair struct {
	name          string
	goal          float64
	without, with honest
}

// Auth measures ours: a server without authentication, and one with the token service and a
// password file.
func (o Options) Auth(ctx context.Context, ours Peer) (costs []AuthCost, err error) {
	dir, err := os.MkdirTemp(o.Directory, "bench-auth-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	hash, err := bcrypt.GenerateFromPassword([]byte(authPassword), bcrypt.DefaultCost)
	if err != nil {
		return nil, err
	}
	users := filepath.Join(dir, "users")
	if err := os.WriteFile(users, o.usersFile(string(hash)), 0o600); err != nil {
		return nil, err
	}
	var servers [2]*server
	trusted := strings.Replace(authConfig, `addr: "{addr}"`, `addr: "{addr}", trustedproxies: [127.0.0.0/8]`, 1)
	for i, config := range []string{ours.Config, trusted} {
		own := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			return nil, err
		}
		peer := ours
		peer.Config = strings.ReplaceAll(config, "{users}", users)
		if servers[i], err = start(ctx, peer, own, filepath.Join(own, "data")); err != nil {
			return nil, err
		}
		defer servers[i].Stop()
	}
	pairs, closeAll, err := o.authPairs(ctx, servers)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	for _, p := range pairs {
		fmt.Fprintf(o.Log, "authentication: %s\n", p.name)
		cost, err := o.compare(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		costs = append(costs, cost)
	}
	return costs, nil
}

// usersFile is one user for each connection, and those who log in for the first time. All
// have the same hash: nothing is remembered of one user for another.
func (o Options) usersFile(hash string) []byte {
	var b strings.Builder
	for i := range o.Connections {
		fmt.Fprintf(&b, "honest%d:%s\n", i, hash)
	}
	for i := range firstLogins {
		fmt.Fprintf(&b, "first%d:%s\n", i, hash)
	}
	return []byte(b.String())
}

// authPairs pushes what is read, logs in, and describes what is measured.
func (o Options) authPairs(ctx context.Context, servers [2]*server) (pairs []authPair, closeAll func(), err error) {
	var all []*client
	closeAll = func() {
		for _, c := range all {
			c.close()
		}
	}
	clients := func(s *server, header func(i int) http.Header) []*client {
		list := make([]*client, o.Connections)
		for i := range list {
			list[i] = newClient(ctx, s.addr)
			list[i].header = header(i)
		}
		all = append(all, list...)
		return list
	}
	password := func(i int) http.Header { return basicHeader(fmt.Sprint("honest", i), authPassword) }
	var size int64
	for _, s := range servers {
		c := newClient(ctx, s.addr)
		c.header = password(0)
		what, err := pushPulled(c)
		c.close()
		if err != nil {
			return nil, closeAll, err
		}
		size = what.manifest
	}
	token, err := fetchToken(ctx, servers[1].addr, password(0))
	if err != nil {
		return nil, closeAll, err
	}
	get := func(c *client, _ int64) error { return c.read(repo, http.MethodGet, "manifests/v1", size) }
	bearer := func(int) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	open := honest{server: servers[0], clients: clients(servers[0], func(int) http.Header { return nil }), do: get}
	byToken := honest{server: servers[1], clients: clients(servers[1], bearer), do: get}
	remembered := honest{server: servers[1], clients: clients(servers[1], password), do: get}
	first := honest{server: servers[1], clients: clients(servers[1], func(i int) http.Header {
		return http.Header{"X-Forwarded-For": {fmt.Sprint("192.0.2.", 1+i%250)}}
	}), do: logIn}
	return []authPair{
		{"manifest GET with a token, beside none", 0.85, open, byToken},
		{"manifest GET with a remembered password, beside none", 0.7, open, remembered},
		{"with guesses from the same address: token", 0.7, byToken, byToken.among(guesses(false))},
		{"with guesses from the same address: remembered password", 0.7, remembered, remembered.among(guesses(false))},
		{"with guesses from 50 addresses behind a trusted proxy: first logins", 0.7, first, first.among(guesses(true))},
	}, closeAll, nil
}

func (h honest) among(guesses []http.Header) honest {
	h.guesses = guesses
	return h
}

// logIn asks with the name and password of somebody who has not been there before.
func logIn(c *client, n int64) error {
	if n >= firstLogins {
		return errors.New("nobody is left who has not logged in")
	}
	c.header = http.Header{
		"Authorization":   basicHeader(fmt.Sprint("first", n), authPassword)["Authorization"],
		"X-Forwarded-For": c.header["X-Forwarded-For"],
	}
	_, _, err := c.do(http.MethodGet, "http://"+c.addr+"/v2/", "", nil, http.StatusOK)
	return err
}

// guesses are the requests of each guesser: from the address of the honest, or from
// addresses of their own as a proxy reports them.
func guesses(forwarded bool) []http.Header {
	list := make([]http.Header, guessers)
	for i := range list {
		list[i] = http.Header{}
		if forwarded {
			list[i].Set("X-Forwarded-For", fmt.Sprint("198.51.100.", 1+i%guesserNetworks))
		}
	}
	return list
}

func basicHeader(user, password string) http.Header {
	return http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}}
}

func fetchToken(ctx context.Context, addr string, login http.Header) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/auth/token?scope=repository:"+repo+":pull", nil)
	if err != nil {
		return "", err
	}
	r.Header = login
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Token == "" {
		return "", unexpected("no token: "+resp.Status, err)
	}
	return answer.Token, nil
}

// compare measures both in turn, so that what else happens on the machine meets both.
func (o Options) compare(ctx context.Context, p authPair) (cost AuthCost, err error) {
	var serial atomic.Int64
	var rates, cpu [2][]float64
	var ratios []float64
	for round := range o.Rounds {
		var measured [2]Result
		for i := range 2 {
			side := (i + round) % 2 // each is first in every other round
			if measured[side], err = o.measureHonest(ctx, []honest{p.without, p.with}[side], &serial); err != nil {
				return cost, err
			}
			rates[side] = append(rates[side], measured[side].Rate)
			cpu[side] = append(cpu[side], measured[side].PerOperation)
		}
		ratios = append(ratios, measured[1].Rate/measured[0].Rate)
	}
	return AuthCost{
		Work: p.name, Goal: p.goal, Ratio: middle(ratios),
		Without: Cost{middle(rates[0]), middle(cpu[0])}, With: Cost{middle(rates[1]), middle(cpu[1])},
	}, nil
}

func (o Options) measureHonest(ctx context.Context, h honest, serial *atomic.Int64) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	var guessing sync.WaitGroup
	defer guessing.Wait()
	defer cancel()
	if h.guesses != nil {
		guess(ctx, &guessing, h.server.addr, h.guesses)
		time.Sleep(guessesBefore)
	}
	return o.Workload.measure(h.server, step{do: h.do}, h.clients, serial)
}

// guess sends wrong passwords until ctx ends, half of them at the name of an honest user.
func guess(ctx context.Context, guessing *sync.WaitGroup, addr string, headers []http.Header) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: len(headers)}}
	for i, header := range headers {
		user := []string{"honest0", "nobody"}[i%2]
		guessing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/v2/", nil)
				if err != nil {
					return
				}
				r.Header = header.Clone()
				r.SetBasicAuth(user, fmt.Sprint(time.Now().UnixNano(), " ", i, " ", n))
				resp, err := client.Do(r)
				if err != nil {
					continue // the end, or a server that is too busy
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	context.AfterFunc(ctx, client.CloseIdleConnections)
}

// ReportAuth writes a table.
func ReportAuth(w io.Writer, costs []AuthCost) error {
	text := fmt.Sprintf("| requests; guesses are %d at once | without: a second, µs | with: a second, µs | ratio of the rates | goal |\n|---|--:|--:|--:|--:|\n", guessers)
	for _, c := range costs {
		met := "yes"
		if c.Ratio < c.Goal {
			met = "no"
		}
		text += fmt.Sprintf("| %s | %.0f, %.0f | %.0f, %.0f | **%.2f** | %.2f %s |\n", c.Work,
			c.Without.Rate, c.Without.PerOperation*1e6, c.With.Rate, c.With.PerOperation*1e6, c.Ratio, c.Goal, met)
	}
	_, err := io.WriteString(w, text)
	return err
}
