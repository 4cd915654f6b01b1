//go:build goolm

package matrix

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway/relay/internal/servertest"
)

var encryptedState = []map[string]any{{"type": "m.room.encryption", "state_key": "", "content": map[string]any{"algorithm": "m.megolm.v1.aes-sha2", "rotation_period_msgs": 5}}}

// encryptedWorld is a bot that follows its rooms, an encrypted one among them, and a device of its owner that reads there.
func encryptedWorld(t *testing.T) (w *world, room string, reader *servertest.Reader) {
	t.Helper()
	w = newWorld(t)
	w.bot = w.newBot(Options{Username: w.name + "bot", Password: "bot-password", PickleKey: []byte("a key for tests")})
	reader = servertest.NewReader(t, w.server.URL, w.name+"owner", w.name+"owner-password")
	w.connect()
	room = w.ownersRoom(map[string]any{"invite": []string{w.bot.UserID()}, "initial_state": encryptedState})
	w.must(w.bot.Join(w.ctx, room))
	w.run(w.bot)
	w.eventually("the device is open", func() bool { _, problem := w.bot.Encryption(); return problem == "" })
	return w, room, reader
}

// sendEncrypted sends a text as delivery does.
func (w *world) sendEncrypted(room, txn, body string) (string, error) {
	out, err := w.bot.Prepare(w.ctx, Outgoing{RoomID: room, TxnID: txn, Device: w.bot.Device(), EventType: "m.room.message", Content: text(body, txn)})
	if err != nil {
		return "", err
	}
	if out.EventType != EventEncrypted || strings.Contains(string(out.Content), `"body"`) {
		w.Errorf("prepared as %s: %s", out.EventType, out.Content)
	}
	return w.bot.Send(w.ctx, out)
}

func (w *world) reads(reader *servertest.Reader, room string, want ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("reads %q, has %q and %d unread", want, reader.Bodies(room), reader.Unread(room)), func() bool { return slices.Equal(reader.Bodies(room), want) })
	if n := reader.Unread(room); n != 0 {
		w.Errorf("%d events cannot be read", n)
	}
}

func TestEncrypted_KeysCannotBeHad(t *testing.T) {
	w, room, reader := encryptedWorld(t)
	for name, fault := range map[string]servertest.Fault{
		"failed": servertest.Matrix(500, "M_UNKNOWN"), "away": servertest.ReplaceAnswer(502, "<html>"),
	} {
		w.proxy.Script(servertest.Rule{Path: "/keys/query", Fault: fault})
		_, err := w.sendEncrypted(room, "t-"+name, "waits")
		if failed := w.wantClass(err, ClassRetry); !failed.Alone || !strings.Contains(failed.Reason, "keys") {
			t.Errorf("%s is told as %v", name, failed)
		}
	}
	w.proxy.Script()
	_, err := w.sendEncrypted(room, "t1", "goes")
	w.must(err)
	w.reads(reader, room, "goes")
}

// Where the homeserver wants a password that the relay does not have, starts leave nothing there, and say what to do.
func TestEncrypted_IdentityWithoutPassword(t *testing.T) {
	w := newWorld(t)
	login, err := w.server.Login(w.ctx, w.name+"bot", "bot-password")
	w.must(err)
	w.proxy.Script(servertest.Rule{Path: "/device_signing/upload", Fault: servertest.Answer(401, `{"session":"s","flows":[{"stages":["m.login.password"]}],"params":{}}`)})
	for range 2 {
		w.bot = w.newBot(Options{AccessToken: login.Token, PickleKey: []byte("a key for tests")})
		stop := w.run(w.bot)
		w.eventually("the bot says what it needs", func() bool {
			status, _ := w.bot.Encryption()
			return strings.Contains(status.Problem, "set matrix.password")
		})
		stop()
	}
	if n := len(w.proxy.Records("/account_data/m.secret_storage")); n > 0 {
		t.Errorf("%d requests leave keys at the homeserver", n)
	}
	if key, err := w.bot.RecoveryKey(w.ctx); key != "" || err == nil {
		t.Errorf("a recovery key: %v", err)
	}
}

// A bot that is logged out and cannot log in again keeps its recovery key for its administrator.
func TestEncrypted_RecoveryKeyOfBotThatIsLoggedOut(t *testing.T) {
	w, _, _ := encryptedWorld(t)
	key, err := w.bot.RecoveryKey(w.ctx)
	w.must(err)
	w.proxy.Script(servertest.Rule{Method: "POST", Path: "/login", Fault: servertest.Matrix(403, "M_FORBIDDEN")})
	w.must(w.server.Call(w.ctx, w.bot.session.Load().Token, "POST", "/_matrix/client/v3/logout", struct{}{}, nil))
	w.eventually("the bot is logged out", func() bool {
		kept, err := w.bot.storedSession(w.ctx)
		return err == nil && kept.DeviceID == ""
	})
	if now, err := w.bot.RecoveryKey(w.ctx); now != key || err != nil {
		t.Errorf("the recovery key is another one or gone: %v", err)
	}
}
