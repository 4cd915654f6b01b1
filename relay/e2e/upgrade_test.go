//go:build goolm

package e2e

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// beforeEncryption makes the database that the relay of commit 881b2f0, which could not encrypt, left when it was killed: two
// messages wait in an encrypted room. The dump names the room, the bot and the owner ROOM, BOT and OWNER.
func (s *site) beforeEncryption(room string) {
	s.Helper()
	dump, err := os.ReadFile("testdata/before-encryption.sql")
	s.must(err)
	db, err := sql.Open("sqlite", filepath.Join(s.dir, "relay.db"))
	s.must(err)
	defer db.Close()
	_, err = db.Exec(strings.NewReplacer("ROOM", room, "BOT", s.botID, "OWNER", s.owner.ID).Replace(string(dump)))
	s.must(err)
	_, err = db.Exec(`UPDATE outbox SET queued_at = ?1, next_at = 0; UPDATE messages SET accepted_at = ?1`, time.Now().Add(-time.Hour).UnixMilli())
	s.must(err)
}

// What waited because its room is encrypted goes out after the upgrade, in order, and before what comes then.
func TestUpgrade_MessagesOfEncryptedRoomGoOut(t *testing.T) {
	s := newSite(t)
	room, reader := s.sealedRoom()
	s.beforeEncryption(room)
	s.start()
	s.eventually("the messages that waited are read", func() bool { return len(reader.Bodies(room)) == 2 })
	_, issued := s.ask(http.MethodPost, "/application/1/token", nil)
	s.becomes(s.say(app{id: 1, token: issued.text("token"), room: room}, "from now on"), "sent")
	s.reads(reader, room, "first, from before", "second, from before", "from now on")
	s.noPlainText("from before", "from now on")
}
