package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	adminName     = "admin"
	adminPassword = "password-of-the-bench"
)

// Peer is a relay that is measured.
type Peer struct {
	Name     string
	Command  string
	Delivers bool // into Matrix rooms; Gotify has clients of its own instead

	// prepare writes what the relay needs and returns how it is started.
	prepare func(dir, addr, homeserver string) (args, env []string, err error)
	ownRoom bool // the bot makes rooms itself
	devices int  // of those who read in its rooms, which are encrypted; 0 where they are not
}

// Encrypted is a peer whose rooms are encrypted for n devices.
func Encrypted(p Peer, devices int) Peer {
	p.Name, p.devices = fmt.Sprintf("%s, encrypted for %d", p.Name, devices), devices
	return p
}

// Ours is the relay of this repository, on SQLite.
func Ours(binary string) Peer {
	return ours("slipway", binary, func(dir string) (string, error) {
		return fmt.Sprintf("connection: %q", filepath.Join(dir, "relay.db")), nil
	})
}

// OursOnPostgres is the relay of this repository on PostgreSQL, with a database of its own each time. Its CPU is the relay's alone.
func OursOnPostgres(binary string, newDatabase func() (dsn string, err error)) Peer {
	return ours("slipway, PostgreSQL", binary, func(string) (string, error) {
		dsn, err := newDatabase()
		return fmt.Sprintf("dialect: postgres, connection: %q", dsn), err
	})
}

// newDatabase creates a database with psql, which must be installed, and returns its connection string.
func newDatabase(ctx context.Context, server string) (dsn string, err error) {
	name := "bench_" + strings.ToLower(rand.Text())
	out, err := exec.CommandContext(ctx, "psql", server, "-qc", "CREATE DATABASE "+name).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, out)
	}
	return server + " dbname=" + name, nil
}

func ours(name, binary string, database func(dir string) (string, error)) Peer {
	return Peer{Name: name, Command: binary, Delivers: true, prepare: func(dir, addr, homeserver string) ([]string, []string, error) {
		settings, err := database(dir)
		if err != nil {
			return nil, nil, err
		}
		file := filepath.Join(dir, "relay.yml")
		text := fmt.Sprintf("http: {listenaddress: %q}\ndatabase: {%s}\nmatrix: {homeserver: %q, username: %q, password: bot-password, encrypt_new_rooms: false}\n"+
			"admin: {name: %q, password: %q, matrixid: \"@admin:bench.test\"}\nlimits: {rateperminute: 0}\n",
			addr, settings, homeserver, bot, adminName, adminPassword)
		return []string{"serve", "--config", file}, nil, os.WriteFile(file, []byte(text), 0o600)
	}}
}

// pushBits stores nothing: it answers when the homeserver has.
func pushBits(binary string) Peer {
	return Peer{Name: "PushBits", Command: binary, Delivers: true, ownRoom: true, prepare: func(dir, addr, homeserver string) ([]string, []string, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, nil, err
		}
		text := fmt.Sprintf("http: {listenaddress: %q, port: %s}\ndatabase: {dialect: sqlite3, connection: %q}\nmatrix: {homeserver: %q, username: %q, password: bot-password}\n"+
			"admin: {name: %q, password: %q, matrixid: \"@admin:bench.test\"}\n",
			host, port, filepath.Join(dir, "pushbits.db"), homeserver, bot, adminName, adminPassword)
		return nil, nil, os.WriteFile(filepath.Join(dir, "config.yml"), []byte(text), 0o600)
	}}
}

// gotify stores messages for clients of its own: only what it takes in is measured.
func gotify(binary string) Peer {
	return Peer{Name: "Gotify", Command: binary, prepare: func(dir, addr, _ string) ([]string, []string, error) {
		host, port, err := net.SplitHostPort(addr)
		return nil, []string{
			"GOTIFY_SERVER_LISTENADDR=" + host, "GOTIFY_SERVER_PORT=" + port, "GOTIFY_DATABASE_DIALECT=sqlite3", "GIN_MODE=release",
			"GOTIFY_DATABASE_CONNECTION=" + filepath.Join(dir, "gotify.db"), "GOTIFY_DEFAULTUSER_NAME=" + adminName, "GOTIFY_DEFAULTUSER_PASS=" + adminPassword,
		}, err
	}}
}

// Installed returns the other relays that are there.
func Installed() []Peer {
	var peers []Peer
	for name, peer := range map[string]func(string) Peer{"pushbits": pushBits, "gotify-server": gotify} {
		if path, err := exec.LookPath(name); err == nil {
			peers = append(peers, peer(path))
		}
	}
	return peers
}

// application makes an application and returns its token.
func (p *server) application(ctx context.Context, peer Peer, name, room string) (string, error) {
	fields := map[string]any{"name": name}
	if !peer.ownRoom && peer.Delivers {
		fields["room_id"] = room
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/application", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth(adminName, adminPassword)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var app struct{ Token string }
	if err := json.NewDecoder(resp.Body).Decode(&app); err != nil || app.Token == "" {
		return "", fmt.Errorf("%s makes no application: %s (%w)", peer.Name, resp.Status, err)
	}
	return app.Token, nil
}
