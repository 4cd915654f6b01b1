package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/relay/internal/post"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/store"
)

// Room is a target room with its state.
type Room struct {
	Address   string // as applications name it: id or alias
	RoomID    string // resolved, "" if not yet
	Name      string
	Encrypted bool // sticky: once seen encrypted, always
	Notifies  bool // the bot may notify everybody there (@room), as found at CheckedAt
	CheckedAt time.Time
	Blocked   string // why nothing is sent there, "" if nothing is wrong
	BlockedAt time.Time
	Waiting   int64     // messages waiting for it
	Oldest    time.Time // when the first of them that isn't delayed was queued
	Apps      []string  // names of the applications that send there
	Refused   string    // why messages of some of them are not accepted, "" if all are; sentences
	row       int64
}

// Problem returns what needs a person's attention, in sentences; "" if nothing does.
func (r Room) Problem() string {
	return strings.TrimSpace(r.Blocked + " " + r.Refused)
}

// Rooms lists the target rooms of the applications that v may see, with their problems.
func (s *Accounts) Rooms(ctx context.Context, v Principal) ([]Room, error) {
	visible, err := s.visible(ctx, v)
	if err != nil {
		return nil, err
	}
	apps, refused := map[int64][]string{}, map[int64][]string{}
	for i := range visible {
		row := &visible[i]
		apps[row.RoomID] = append(apps[row.RoomID], row.Name)
		if err := maySend(row); err != nil {
			refused[row.RoomID] = append(refused[row.RoomID], fmt.Sprintf("Messages of %s are refused. %s", row.Name, messageOf(err)+"."))
		}
	}
	rows, err := s.store.Rooms(ctx)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	backlogs, err := s.store.Backlogs(ctx)
	if err != nil {
		return nil, refusal.Unreadable(err)
	}
	rooms := []Room{}
	for _, r := range rows {
		if names := apps[r.ID]; names != nil {
			slices.Sort(names)
			room := showRoom(r, backlogs[r.ID], names)
			slices.Sort(refused[r.ID])
			room.Refused = strings.Join(refused[r.ID], " ")
			rooms = append(rooms, room)
		}
	}
	slices.SortFunc(rooms, func(a, b Room) int { return strings.Compare(a.Address+a.Apps[0], b.Address+b.Apps[0]) })
	return rooms, nil
}

func showRoom(r store.Room, b store.Backlog, apps []string) Room {
	room := Room{
		Address: r.Address, RoomID: r.RoomID, Name: r.Name, Encrypted: r.Encrypted, Notifies: r.Notifies, CheckedAt: post.Time(r.CheckedAt), Blocked: r.Blocked, BlockedAt: post.Time(r.BlockedAt),
		Waiting: b.Waiting, Oldest: post.Time(b.Oldest), Apps: apps, row: r.ID,
	}
	if r.ToMake() {
		room.Address = ""
	}
	return room
}

// RetryRoom retries a blocked room, named by address or ID.
func (s *Accounts) RetryRoom(ctx context.Context, v Principal, address string) error {
	rooms, err := s.Rooms(ctx, v)
	if err != nil {
		return err
	}
	for _, r := range rooms {
		if address != "" && (r.Address == address || r.RoomID == address) {
			s.store.Retry(r.row)
			return nil
		}
	}
	return refusal.NotFound("room")
}

// checkEscalation refuses rooms to which no application of the owner may send: the right to write there is checked with those.
func (s *Accounts) checkEscalation(ctx context.Context, owner int64, to *string) error {
	if to == nil || !strings.ContainsAny(*to, "!#") {
		return nil
	}
	apps, err := s.store.Applications(ctx, owner, 0)
	if err != nil {
		return refusal.Unreadable(err)
	}
	rooms, err := s.store.Rooms(ctx)
	if err != nil {
		return refusal.Unreadable(err)
	}
	known := map[string]bool{}
	for i := range apps {
		for _, r := range rooms {
			if r.ID == apps[i].RoomID && !lost(&apps[i]) {
				known[r.Address], known[r.RoomID] = true, true
			}
		}
	}
	for _, address := range listOf(*to) {
		if !strings.HasPrefix(address, "@") && !known[address] {
			return refusal.Invalid("escalate_to", fmt.Sprintf("No application of the owner sends to the room %s: create one for it first.", address))
		}
	}
	return nil
}
