package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/delivery"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/post"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/service"
)

// TestHomeserver: what is wrong with it, and what to do, in a sentence or two.
func TestHomeserver(t *testing.T) {
	for _, tt := range []struct {
		what   string
		err    error
		check  string
		ok     bool
		prefix string
		within string
	}{
		{"well", nil, "login", true, "The login is good: the bot is @bot:hs.", ""},
		{
			"away", &matrix.SendError{Class: matrix.ClassAway, Reason: "the homeserver cannot be reached", Err: errors.New("connection refused")}, "homeserver", false,
			"The homeserver does not respond: the homeserver cannot be reached (connection refused). Start it, or correct matrix.homeserver", "",
		},
		{
			"silent", &matrix.SendError{Class: matrix.ClassRetry, Reason: "the homeserver did not answer in time", Err: context.DeadlineExceeded}, "homeserver", false,
			"The homeserver does not respond: the homeserver did not answer in time. Start it", "",
		},
		{
			"something else", &matrix.SendError{Class: matrix.ClassAway, Reason: "the server is not a Matrix homeserver: is its URL right?"}, "homeserver", false,
			"The homeserver does not respond: ", "correct matrix.homeserver",
		},
		{
			"wrong password", &matrix.SendError{Class: matrix.ClassLocked, Reason: "the homeserver refuses the bot's user name or password"}, "login", false,
			"The login fails: the homeserver refuses the bot's user name or password", "Correct matrix.username and matrix.password",
		},
		{
			"no login with a password", &matrix.SendError{Class: matrix.ClassLocked, Reason: "the homeserver has no login with a password", Setting: "matrix.accesstoken"}, "login", false,
			"The login fails: the homeserver has no login with a password", "Set matrix.accesstoken to a valid one and start the relay again.",
		},
		{"session over", &matrix.SendError{Class: matrix.ClassRelogin, Reason: "the bot's session is over"}, "login", false, "The login fails: the bot's session is over.", ""},
		{"limited", &matrix.SendError{Class: matrix.ClassWait, Reason: "the homeserver limits the rate"}, "login", false, "The homeserver limits the relay's requests: ", ""},
		{"no class", errors.New("odd"), "homeserver", false, "The homeserver check failed: odd.", ""},
	} {
		findings, answers := homeserver(t.Context(), Target{Probe: func(context.Context) error { return tt.err }, Identity: func() string { return "@bot:hs" }})
		last := findings[len(findings)-1]
		if answers != (tt.err == nil) || last.Check != tt.check || last.OK != tt.ok || !strings.HasPrefix(last.Text, tt.prefix) || !strings.Contains(last.Text, tt.within) {
			t.Errorf("%s: %v %+v", tt.what, answers, last)
		}
	}
}

// TestNewRooms: that rooms are made without encryption is said where it is not intended.
func TestNewRooms(t *testing.T) {
	for problem, want := range map[string]string{"": "", "matrix.pickle_key is not set": "are not encrypted, because matrix.pickle_key is not set."} {
		said := ""
		for _, f := range newRooms(Target{NewRooms: func() (bool, string) { return false, problem }}) {
			if !f.OK || !f.Warn {
				t.Errorf("%q is no warning: %+v", problem, f)
			}
			said += f.Text
		}
		if (said == "") != (want == "") || !strings.Contains(said, want) {
			t.Errorf("%q is told as %q", problem, said)
		}
	}
}

// TestRoom: one that the bot is not in.
func TestRoom(t *testing.T) {
	s, hs := relaytest.New(t, nil)
	admin, err := s.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	p := Target{Service: s, Probe: hs.Probe, Identity: hs.Identity}
	hs.Has(matrix.RoomInfo{RoomID: "!outside:hs"})
	name, room := "app", "!outside:hs"
	if _, err := s.CreateApplication(t.Context(), admin, account.ApplicationInput{Name: &name, Room: &room}); err != nil {
		t.Fatal(err)
	}
	expect(t, Examine(t.Context(), p, admin), "room", false, "The bot is not in the room !outside:hs (app): invite it, or give the application another room.")
}

// TestReplacedRoom: to invite the bot is no help where the other room does not follow.
func TestReplacedRoom(t *testing.T) {
	s, hs := relaytest.New(t, nil)
	hs.Has(matrix.RoomInfo{RoomID: "!old:hs", Joined: true, ReplaceBy: "!new:hs"})
	for blocked, want := range map[string]string{
		"":                           "The room !old:hs (app) was replaced by !new:hs: invite the bot there.",
		"!new:hs does not follow it": "Messages to the room !old:hs (app) are blocked: !new:hs does not follow it",
	} {
		f := examineRoom(t.Context(), s, account.Room{RoomID: "!old:hs", Apps: []string{"app"}, Blocked: blocked})
		if f.OK || f.Text != want {
			t.Errorf("%+v, want %q", f, want)
		}
	}
}

// TestWrongPassword: the findings do not contradict each other about the homeserver.
func TestWrongPassword(t *testing.T) {
	s, hs := relaytest.New(t, nil)
	hs.Fail(&matrix.SendError{Class: matrix.ClassLocked, Reason: "the homeserver refuses the bot's user name or password"})
	admin, err := s.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	findings := Examine(t.Context(), Target{Service: s, Probe: hs.Probe, Identity: hs.Identity}, admin)
	expect(t, findings, "homeserver", true, "The homeserver answers.")
	for _, f := range findings {
		if strings.Contains(f.Text, "has not answered") || f.Check != "login" && !f.OK {
			t.Errorf("beside the login: %+v", f)
		}
	}
}

// TestOutboxThatPauses: with nothing in it, one message, more.
func TestOutboxThatPauses(t *testing.T) {
	s, _ := relaytest.New(t, func(o *service.Options) {
		o.Delivery.Sender.(*relaytest.Homeserver).Fail(&matrix.SendError{Class: matrix.ClassAway, Reason: "the homeserver cannot be reached"})
	})
	admin, err := s.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	name, room := "app", "!a:hs"
	app, err := s.CreateApplication(t.Context(), admin, account.ApplicationInput{Name: &name, Room: &room})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"No message waits.", "1 message waits until this is fixed.", "2 messages wait until this is fixed."} {
		if f := outbox(s.Status(t.Context()), false, true); f.Text != want || f.OK != (n == 0) {
			t.Errorf("%d messages: %+v", n, f)
		}
		if _, err := s.Accept(t.Context(), post.Draft{Token: app.Token, Content: post.Content{Body: "hello"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOutbox: messages that wait for a rate limit or were given up are no good state.
func TestOutbox(t *testing.T) {
	for _, tt := range []struct {
		status   delivery.Status
		ok, warn bool
		text     string
	}{
		{delivery.Status{}, true, false, "Waiting: 0 messages. Dead: none."},
		{delivery.Status{Waiting: 27, Condition: delivery.Condition{Interval: 5 * time.Second}}, false, false, "Waiting for the homeserver's rate limit: 27 messages, about 136 s. Exempt the bot"},
		{delivery.Status{Condition: delivery.Condition{Interval: 5 * time.Second}}, true, false, "Waiting: 0 messages. Dead: none."},
		{delivery.Status{Dead: 12}, true, true, "Waiting: 0 messages. Dead: 12 messages; `relay messages list --state dead` names the reasons."},
	} {
		if f := outbox(tt.status, true, true); f.OK != tt.ok || f.Warn != tt.warn || !strings.HasPrefix(f.Text, tt.text) {
			t.Errorf("%+v: %+v", tt.status, f)
		}
	}
}

func expect(t *testing.T, findings []Finding, check string, ok bool, text string) {
	t.Helper()
	for _, f := range findings {
		if f.Check == check && f.OK == ok && f.Text == text {
			return
		}
	}
	t.Errorf("no finding %s %v %q in %+v", check, ok, text, findings)
}
