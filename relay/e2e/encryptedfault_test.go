//go:build goolm

package e2e

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/servertest"
)

// told waits until doctor, log and web interface say the same sentence about encryption, the doctor once.
func (s *site) told(sentence string) {
	s.Helper()
	s.eventually("the doctor says "+sentence, func() bool { return strings.Count(s.findings(), sentence) == 1 })
	s.eventually("the log says "+sentence, func() bool {
		log, err := os.ReadFile(filepath.Join(s.dir, "relay.log"))
		s.must(err)
		return strings.Contains(string(log), sentence)
	})
	if page := s.page("/ui/rooms"); !strings.Contains(page, sentence) {
		s.Errorf("the page of rooms does not say %q:\n%s", sentence, page)
	}
}

// findings is what the doctor says.
func (s *site) findings() string {
	s.Helper()
	var all strings.Builder
	_, out := s.ask(http.MethodGet, "/doctor", nil)
	list, _ := out["findings"].([]any)
	for _, f := range list {
		finding, _ := f.(map[string]any)
		fmt.Fprintln(&all, finding["text"])
	}
	return all.String()
}

// page is the text of a page as the administrator gets it.
func (s *site) page(path string) string {
	s.Helper()
	jar, err := cookiejar.New(nil)
	s.must(err)
	client := &http.Client{Jar: jar, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	resp, err := client.PostForm(s.url+"/ui/login", url.Values{"name": {"admin"}, "password": {adminPassword}, "next": {path}})
	s.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	s.must(err)
	return html.UnescapeString(string(text))
}

// verified waits until the doctor says that the bot's device is verified.
func (s *site) verified() {
	s.Helper()
	s.eventually("the device is verified", func() bool { return strings.Contains(s.findings(), "is verified by its identity") })
}

// Another client of the bot makes a new identity: messages go on, with a warning, until the relay is given the recovery key. A wrong
// one is said to be wrong.
func TestFull_Encrypted_IdentityResetByAnotherClient(t *testing.T) {
	s := newSite(t)
	s.start()
	client, room := s.roomOfOwner()
	a := s.application("reset", room)
	s.becomes(s.say(a, "before"), "sent")
	s.trusts(client, room, "before")

	other := servertest.NewWebClient(t, homeserver.URL, s.name+"bot", botPassword)
	key := other.NewIdentity()
	s.told("Another client has replaced the bot's identity: set matrix.recovery_key to the recovery key that it showed.")
	s.becomes(s.say(a, "meanwhile"), "sent")
	s.shows(client, room, "meanwhile")

	s.stop()
	s.env = []string{"RELAY_MATRIX_RECOVERY_KEY=EsTc LW2K PGiF wKEA 3As5 g5c4 BXwk qeeJ ZJV8 Q9fu gUMN UE4d"}
	s.start()
	s.told("matrix.recovery_key is not the recovery key of the bot's identity.")

	s.stop()
	s.env = []string{"RELAY_MATRIX_RECOVERY_KEY=" + key}
	s.start()
	s.verified()
	device := s.sealed(room)[0].Field("device_id")
	s.eventually("the person is asked about the bot's new identity", func() bool { return client.Device(s.botID, device).Changed })
	client.Accept(s.botID)
	s.becomes(s.say(a, "after"), "sent")
	s.trusts(client, room, "after")
	if d := client.Device(s.botID, device); !d.Signed || d.Changed {
		t.Errorf("the bot's device is %+v", d)
	}
}

// The bot's device is removed from its account: the relay logs in with a new one, which has the same identity, so that no client warns.
func TestEncrypted_DeviceRemoved(t *testing.T) {
	s := newSite(t)
	s.start()
	room, reader := s.sealedRoom()
	a := s.application("removed", room)
	s.becomes(s.say(a, "one"), "sent")
	s.removeDevice()
	s.becomes(s.say(a, "two"), "sent")
	s.verified()
	s.reads(reader, room, "one", "two")
	if devices := senders(s.sealed(room)); len(devices) != 2 {
		t.Errorf("the events come from the devices %v, want two", devices)
	}
}

// removeDevice ends the session of the relay at the homeserver, which removes its device and keys.
func (s *site) removeDevice() {
	s.Helper()
	s.must(homeserver.Call(s.ctx, s.botToken(), http.MethodPost, "/_matrix/client/v3/logout", struct{}{}, nil))
}

// The pickle key is lost: messages to encrypted rooms wait with a sentence, others go on. Once the bot's device is removed from its
// account, as the sentence says, all arrive; with the recovery key, kept from better days, without a warning.
func TestFull_Encrypted_LostPickleKey(t *testing.T) {
	s := newSite(t)
	s.start()
	room, reader := s.sealedRoom()
	a, plain := s.application("sealed", room), s.application("plain", "")
	s.becomes(s.say(a, "one"), "sent")
	key := strings.TrimSpace(s.says(0, nil, "recovery-key", "--config", s.configure()))
	s.stop()
	s.must(os.Remove(filepath.Join(s.dir, "relay.db.pickle_key")))
	s.start()
	waits := s.say(a, "two")
	s.wantReason(s.becomes(waits, "blocked"), "pickle key")
	s.becomes(s.say(plain, "meanwhile"), "sent")
	s.told("remove the bot's device from its account: the relay then logs in with a new one")
	s.removeDevice()
	s.becomes(waits, "sent")
	s.reads(reader, room, "one", "two")
	s.told("The bot's identity was made by another client, or with keys that the relay has lost: set matrix.recovery_key to its recovery key.")
	s.stop()
	s.env = []string{"RELAY_MATRIX_RECOVERY_KEY=" + key}
	s.start()
	s.verified()
}

// A token without a device cannot encrypt, and says so; one of another device can, with keys of its own.
func TestFull_Encrypted_AccessTokens(t *testing.T) {
	s := newSite(t)
	admin, err := homeserver.NewUser(s.ctx, s.name+"admin", true)
	s.must(err)
	var without struct {
		Token string `json:"access_token"`
	}
	s.must(admin.Call(s.ctx, http.MethodPost, "/_synapse/admin/v1/users/"+url.PathEscape(s.botID)+"/login", struct{}{}, &without))
	s.env = []string{"RELAY_MATRIX_ACCESSTOKEN=" + without.Token}
	s.start()
	room, reader := s.sealedRoom()
	a, plain := s.application("sealed", room), s.application("plain", "")
	waits := s.say(a, "one")
	s.wantReason(s.becomes(waits, "blocked"), "belongs to no device")
	s.becomes(s.say(plain, "meanwhile"), "sent")
	s.told("The bot's access token belongs to no device, which an encrypted room needs: give a token that comes from a login, or the password.")
	want := []string{"one"}
	for _, text := range []string{"two", "three"} {
		s.stop()
		device, err := homeserver.Login(s.ctx, s.name+"bot", botPassword)
		s.must(err)
		s.env = []string{"RELAY_MATRIX_ACCESSTOKEN=" + device.Token}
		s.start()
		s.becomes(waits, "sent")
		s.becomes(s.say(a, text), "sent")
		want = append(want, text)
		s.reads(reader, room, want...)
		s.verified()
	}
}

// The homeserver says that it has lost the keys of the device: they are uploaded again.
func TestEncrypted_KeysLostAtTheHomeserver(t *testing.T) {
	s := newSite(t)
	s.start()
	room, reader := s.sealedRoom()
	a := s.application("sealed", room)
	s.becomes(s.say(a, "one"), "sent")
	s.stop()
	s.proxy.Forget()
	s.proxy.Script(servertest.Rule{Path: "/keys/query", Times: 1, Fault: servertest.Answer(http.StatusOK, `{"device_keys":{}}`)})
	s.start()
	s.becomes(s.say(a, "two"), "sent")
	s.reads(reader, room, "one", "two")
	uploads := s.proxy.Records("/keys/upload")
	if len(uploads) == 0 || !strings.Contains(uploads[0].Body, `"device_keys"`) {
		t.Errorf("%d uploads, the first one %v", len(uploads), uploads)
	}
	if devices := senders(s.sealed(room)); len(devices) != 1 {
		t.Errorf("the events come from the devices %v", devices)
	}
}

// A relay that was away for days, with more events in the room than sync returns, knows the members that came and left, and their devices.
func TestFull_Encrypted_AwayForDays(t *testing.T) {
	s := newSite(t)
	leaver, err := homeserver.NewUser(s.ctx, s.name+"leaver", false)
	s.must(err)
	s.must(homeserver.CreateUser(s.ctx, s.name+"late", s.name+"late-password", false))
	silent, err := homeserver.NewUser(s.ctx, s.name+"silent", false) // who has no device
	s.must(err)
	s.start()
	room, reader := s.sealedRoom()
	left := servertest.NewReader(t, homeserver.URL, s.name+"leaver", leaver.Password)
	s.must(s.owner.Invite(s.ctx, room, leaver.ID))
	s.must(left.Join(s.ctx, room))
	a := s.application("away", room)
	s.becomes(s.say(a, "one"), "sent")
	s.reads(left, room, "one")
	s.stop()

	second := servertest.NewReader(t, homeserver.URL, s.name+"owner", s.name+"owner-password")
	late := servertest.NewReader(t, homeserver.URL, s.name+"late", s.name+"late-password")
	for _, user := range []string{homeserver.UserID(s.name + "late"), silent.ID} {
		s.must(s.owner.Invite(s.ctx, room, user))
	}
	s.must(late.Join(s.ctx, room))
	s.must(silent.Join(s.ctx, room))
	s.must(silent.Call(s.ctx, http.MethodPost, "/_matrix/client/v3/logout", struct{}{}, nil))
	s.must(leaver.Call(s.ctx, http.MethodPost, "/_matrix/client/v3/rooms/"+url.PathEscape(room)+"/leave", struct{}{}, nil))
	for i := range 60 { // more than the filter's limit
		_, err := s.owner.Send(s.ctx, room, "m.room.message", map[string]any{"msgtype": "m.notice", "body": fmt.Sprint("talk ", i)})
		s.must(err)
	}
	s.proxy.Forget()
	s.start()
	s.becomes(s.say(a, "two"), "sent")
	for _, r := range []*servertest.Reader{reader, second, late} {
		s.eventually("the message is read", func() bool {
			bodies := r.Bodies(room)
			return len(bodies) > 0 && bodies[len(bodies)-1] == "two"
		})
	}
	for _, r := range s.proxy.Records("/sendToDevice/") {
		if strings.Contains(r.Body, leaver.ID) {
			t.Error("who has left gets the keys")
		}
	}
}

// The one-time keys of a member's device are used up: it gets the room's key by its fallback key. The bot uploads new ones of its own.
func TestFull_Encrypted_OneTimeKeysUsedUp(t *testing.T) {
	s := newSite(t)
	way, err := servertest.StartProxy(homeserver.URL)
	s.must(err)
	t.Cleanup(way.Close)
	client := servertest.NewWebClient(t, way.URL, s.name+"owner", s.name+"owner-password")
	client.NewIdentity()
	device := client.Start()
	room := client.CreateRoom(s.botID)
	s.start()
	thief, err := homeserver.NewUser(s.ctx, s.name+"thief", false)
	s.must(err)
	s.eventually("the device has keys", func() bool { return s.claim(thief, s.owner.ID, device) != "" })
	way.Down()
	for last, again := "", 0; again < 2; { // a fallback key is given twice
		key := s.claim(thief, s.owner.ID, device)
		if key == last {
			again++
		}
		last = key
	}
	a := s.application("sealed", room)
	s.becomes(s.say(a, "by the fallback key"), "sent")
	s.must(way.Up())
	s.trusts(client, room, "by the fallback key")

	bot := s.sealed(room)[0].Field("device_id")
	for range 60 { // as many as a device has, and more
		s.claim(thief, s.botID, bot)
	}
	s.eventually("the bot's device has one-time keys again", func() bool { return s.claim(thief, s.botID, bot) != "" })
}

// claim takes a one-time key of a device, "" if there is none.
func (s *site) claim(as *servertest.User, user, device string) (key string) {
	s.Helper()
	var out struct {
		Keys map[string]map[string]map[string]any `json:"one_time_keys"`
	}
	s.must(as.Call(s.ctx, http.MethodPost, "/_matrix/client/v3/keys/claim", map[string]any{
		"one_time_keys": map[string]any{user: map[string]string{device: "signed_curve25519"}},
	}, &out))
	for name := range out.Keys[user][device] {
		key = name
	}
	return key
}
