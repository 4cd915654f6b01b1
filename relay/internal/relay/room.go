package relay

import "time"

// Room is a target room with its standing.
type Room struct {
	Address   string // as applications name it: id or alias
	RoomID    string // resolved, "" if not yet
	Name      string
	Encrypted bool   // sticky: once seen encrypted, for ever
	Parked    string // why nothing is sent there, "" if nothing is wrong
	ParkedAt  time.Time
	Waiting   int64     // messages waiting for it
	Oldest    time.Time // when the oldest of them was accepted
	Apps      []string  // names of the applications that send there
}
