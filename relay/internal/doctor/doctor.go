// Package doctor checks everything that a delivery needs and writes one line for each.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/delivery"
	"slipway/relay/internal/encryption"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/service"
	"slipway/shared/plural"
)

// Finding is the result of a check.
type Finding struct {
	Check string `json:"check"` // relay, database, delivery, homeserver, login, encryption, room, outbox
	OK    bool   `json:"ok"`
	Warn  bool   `json:"warning,omitempty"` // messages are delivered, but not as the configuration asks; OK is true
	Text  string `json:"text"`              // a sentence
	// Apps are the names of the applications that send to the room that was checked.
	Apps []string `json:"applications,omitempty"`
}

// Target is the relay to examine.
type Target struct {
	Service  *service.Service
	Probe    func(context.Context) error // checks that the homeserver answers and accepts the session
	Identity func() string               // the bot's Matrix ID, "" if not known yet
	// Encryption reports how other clients see the bot's device in encrypted rooms, or why the bot cannot encrypt. nil means that the relay has no bot.
	Encryption func() (device encryption.Identity, problem string)
	// NewRooms reports whether rooms that the bot makes are encrypted, and why they are not although they should be. nil means unknown.
	NewRooms func() (encrypted bool, problem string)
	// Stopped is the address at which the relay does not run, so that this process examines its database; "" if it runs.
	Stopped string
}

const probeTime = 15 * time.Second

// Examine checks what v may see. If the homeserver does not answer, one finding reports that in place of the rooms.
func Examine(ctx context.Context, t Target, v account.Principal) []Finding {
	st := t.Service.Status(ctx)
	delivers := t.Stopped == "" || st.Elsewhere
	var findings []Finding
	if t.Stopped != "" {
		findings = append(findings, stopped(ctx, t, st))
	}
	findings = append(findings, database(ctx, t.Service))
	findings = append(findings, server(ctx, t.Service, st, delivers)...)
	matrix, answers := homeserver(ctx, t)
	findings = append(findings, matrix...)
	rooms, err := t.Service.Rooms(ctx, v)
	switch {
	case err != nil:
		findings = append(findings, bad("room", "The rooms cannot be listed: %s.", sentenceOf(err)))
	case len(rooms) == 0:
		findings = append(findings, good("room", "No application has a room yet; create one in the web interface or with `relay app create`."))
	}
	for _, room := range rooms {
		if cannotEncrypt(t, room.Blocked) {
			room.Blocked = "the bot cannot encrypt." // the device's finding has the reason, once for all rooms
		}
		if answers || room.RoomID == "" && room.Address == "" {
			f := examineRoom(ctx, t.Service, room)
			f.Apps = room.Apps
			findings = append(findings, f)
		}
	}
	if answers {
		if delivers { // else the bot's device is not prepared
			findings = append(findings, device(t, rooms)...)
		}
		findings = append(findings, newRooms(t)...)
		findings = append(findings, unheard(ctx, t.Service, v)...)
	}
	return append(findings, outbox(t.Service.Status(ctx), answers, delivers))
}

// Runs returns the first finding for a relay that answers at an address.
func Runs(address string) Finding { return good("relay", "The relay runs at %s.", address) }

// stopped returns the finding for a relay that does not run at t.Stopped. Before the first start nothing is wrong.
func stopped(ctx context.Context, t Target, st delivery.Status) Finding {
	before, err := t.Service.Delivered(ctx)
	switch {
	case st.Elsewhere:
		return warning("relay", "The relay does not run at %s; the relay %s delivers.", t.Stopped, st.Deliverer)
	case err == nil && !before && st.Waiting == 0:
		return warning("relay", "The relay does not run at %s yet: start it.", t.Stopped)
	}
	return bad("relay", "The relay does not run at %s: nothing is delivered. Start it; its log says why it ended.", t.Stopped)
}

// cannotEncrypt reports whether a room is blocked for the reason that all encrypted rooms share.
func cannotEncrypt(t Target, blocked string) bool {
	if t.Encryption == nil || blocked == "" {
		return false
	}
	_, problem := t.Encryption()
	return problem == blocked
}

// device returns the state of the bot's device, if there is an encrypted room.
func device(t Target, rooms []account.Room) []Finding {
	if t.Encryption == nil || !slices.ContainsFunc(rooms, func(r account.Room) bool { return r.Encrypted }) {
		return nil
	}
	switch d, problem := t.Encryption(); {
	case problem != "":
		return []Finding{bad("encryption", "Messages to encrypted rooms wait: %s.", strings.TrimSuffix(problem, "."))}
	case d.Problem != "":
		return []Finding{bad("encryption", "The bot's device %s (%s) is not verified, so clients show a warning: %s", d.Device, d.Fingerprint, d.Problem)}
	case d.Verified:
		return []Finding{good("encryption", "The bot's device %s (%s) is verified by its identity.", d.Device, d.Fingerprint)}
	}
	return nil // another relay delivers
}

// newRooms returns a warning if new rooms should be encrypted but cannot be.
func newRooms(t Target) []Finding {
	if t.NewRooms == nil {
		return nil
	}
	if _, problem := t.NewRooms(); problem != "" {
		return []Finding{warning("encryption", "The rooms that the bot makes are not encrypted, because %s. matrix.encrypt_new_rooms: false says that this is intended.", problem)}
	}
	return nil
}

// unheard returns the applications whose urgent messages alert nobody, and those whose owner left the room.
func unheard(ctx context.Context, s *service.Service, v account.Principal) (findings []Finding) {
	apps, err := s.Applications(ctx, v)
	if err != nil {
		return []Finding{bad("room", "The applications cannot be listed: %s.", sentenceOf(err))}
	}
	for _, a := range apps {
		switch {
		case a.RoomLost:
			findings = append(findings, bad("room", "The application %s is refused: its owner %s is not in its room any more. Join the room again, or give the application another one.", a.Name, a.OwnerName))
		case a.Unheard():
			findings = append(findings, bad("room", "Messages of priority 2 of %s alert nobody: the bot may not notify the room (@room), and the owner %s is not in it. Give the bot the power level for notifying, invite the owner, or set whom the application mentions.", a.Name, a.OwnerName))
		}
	}
	return findings
}

// OK reports whether all checks passed.
func OK(findings []Finding) bool {
	for _, f := range findings {
		if !f.OK {
			return false
		}
	}
	return true
}

func good(check, format string, args ...any) Finding {
	return Finding{Check: check, OK: true, Text: fmt.Sprintf(format, args...)}
}

func warning(check, format string, args ...any) Finding {
	return Finding{Check: check, OK: true, Warn: true, Text: fmt.Sprintf(format, args...)}
}

func bad(check, format string, args ...any) Finding {
	return Finding{Check: check, Text: fmt.Sprintf(format, args...)}
}

func database(ctx context.Context, s *service.Service) Finding {
	if err := s.CheckDatabase(ctx); err != nil {
		return bad("database", "The database cannot be written to: %s.", strings.TrimSuffix(err.Error(), "."))
	}
	return good("database", "The database can be written to.")
}

// server returns what durability on PostgreSQL depends on besides the connection, and the delivering relay.
func server(ctx context.Context, s *service.Service, st delivery.Status, delivers bool) (findings []Finding) {
	db, ok, err := s.Database(ctx)
	if !ok {
		return nil
	}
	if err != nil {
		return []Finding{bad("database", "PostgreSQL cannot be asked how it is set: %s.", sentenceOf(err))}
	}
	switch {
	case len(db.Unsafe) > 0:
		findings = append(findings, bad("database", "PostgreSQL may lose what was accepted when its machine crashes: %s is off. Turn it on.", strings.Join(db.Unsafe, ", ")))
	case db.Synchronous != "":
		findings = append(findings, good("database", "PostgreSQL replicates synchronously (%s): what was accepted survives a failover.", db.Synchronous))
	default:
		findings = append(findings, good("database", "PostgreSQL does not replicate synchronously (synchronous_standby_names is empty, or synchronous_commit is local): what was accepted survives a crash, but a failover to a standby may lose the last messages."))
	}
	switch {
	case !delivers: // reported by the first finding
	case st.Deliverer == "":
		findings = append(findings, bad("delivery", "No relay delivers at this moment. One that runs takes over within seconds."))
	case st.Elsewhere:
		findings = append(findings, good("delivery", "The relay %s has been delivering since %s.", st.Deliverer, st.Since.UTC().Format(time.RFC3339)))
	default:
		findings = append(findings, good("delivery", "This relay (%s) has been delivering since %s.", st.Deliverer, st.Since.UTC().Format(time.RFC3339)))
	}
	return findings
}

// homeserver checks that the homeserver answers and that the login is valid. answers reports whether rooms can be checked.
func homeserver(ctx context.Context, t Target) (findings []Finding, answers bool) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	err := t.Probe(ctx)
	if err == nil {
		return []Finding{good("homeserver", "The homeserver answers."), good("login", "The login is good: the bot is %s.", t.Identity())}, true
	}
	reason := strings.TrimSuffix(err.Error(), ".")
	var failed *matrix.SendError
	if !errors.As(err, &failed) {
		return []Finding{bad("homeserver", "The homeserver check failed: %s.", reason)}, false
	}
	switch failed.Class {
	case matrix.ClassLocked:
		return []Finding{good("homeserver", "The homeserver answers."), bad("login", "The login fails: %s. %s", reason, failed.Remedy())}, false
	case matrix.ClassRelogin:
		return []Finding{good("homeserver", "The homeserver answers."), bad("login", "The login fails: %s.", reason)}, false
	case matrix.ClassWait:
		return []Finding{good("homeserver", "The homeserver answers."), bad("login", "The homeserver limits the relay's requests: %s.", reason)}, false
	}
	switch {
	case failed.Reason == "":
	case errors.Is(failed.Err, context.DeadlineExceeded): // reported in the reason
		reason = strings.TrimSuffix(failed.Reason, ".")
	case failed.Err != nil:
		reason = fmt.Sprintf("%s (%s)", failed.Reason, strings.TrimSuffix(failed.Err.Error(), "."))
	}
	return []Finding{bad("homeserver", "The homeserver does not respond: %s. Start it, or correct matrix.homeserver; accepted messages wait.", reason)}, false
}

func examineRoom(ctx context.Context, s *service.Service, room account.Room) Finding {
	who := "of " + strings.Join(room.Apps, ", ")
	address := room.RoomID
	if address == "" {
		address = room.Address
	}
	if address == "" && room.Blocked != "" {
		return bad("room", "The room %s is not ready yet: %s.", who, strings.TrimSuffix(room.Blocked, "."))
	}
	if address == "" {
		return bad("room", "The room %s does not exist yet: the bot creates it as soon as the homeserver allows it.", who)
	}
	info, err := s.CheckRoom(ctx, address)
	if err != nil {
		return bad("room", "The room %s (%s) could not be checked: %s. If its address is wrong, give the application another room.", who, address, sentenceOf(err))
	}
	name := fmt.Sprintf("%s (%s)", address, strings.TrimPrefix(who, "of "))
	switch {
	case info.Invited && !info.Joined:
		return bad("room", "The bot is invited to the room %s but has not joined: the inviter is not an administrator, a known user or of a server in matrix.invites.servers.", name)
	case !info.Joined:
		return bad("room", "The bot is not in the room %s: invite it, or give the application another room.", name)
	case info.ReplaceBy != "" && room.Blocked != "": // the last attempt's result is more specific
		return bad("room", "Messages to the room %s are blocked: %s", name, room.Blocked)
	case info.ReplaceBy != "":
		return bad("room", "The room %s was replaced by %s: invite the bot there.", name, info.ReplaceBy)
	case !info.Writable:
		return bad("room", "The bot may not write in the room %s: give it the power level for messages.", name)
	case room.Blocked != "":
		return bad("room", "Messages to the room %s are blocked: %s", name, room.Blocked)
	}
	if info.Encrypted {
		return good("room", "The bot is in the room %s, which is encrypted, and may write there.", name)
	}
	return good("room", "The bot is in the room %s, which is not encrypted, and may write there.", name)
}

// outbox returns the number of waiting messages. Earlier findings have the reason.
func outbox(st delivery.Status, answers, delivers bool) Finding {
	switch {
	case !answers && st.Waiting == 0:
		return good("outbox", "No message waits.")
	case !answers && st.Waiting == 1:
		return bad("outbox", "1 message waits until this is fixed.")
	case !answers:
		return bad("outbox", "%s wait until this is fixed.", plural.Of(st.Waiting, "message"))
	case !delivers && st.Waiting == 1:
		return bad("outbox", "1 message waits until the relay runs.")
	case !delivers && st.Waiting > 0:
		return bad("outbox", "%s wait until the relay runs.", plural.Of(st.Waiting, "message"))
	case st.Ambiguous > 0:
		return bad("outbox", "The outcome of %s is unknown: deliver them again or withdraw them.", plural.Of(st.Ambiguous, "message"))
	case st.RateLimited() != "":
		return bad("outbox", "%s Exempt the bot from the limit; with Synapse, `relay setup` does (docs/install.md, The bot's rate limit).", st.RateLimited())
	case st.Dead > 0:
		return warning("outbox", "Waiting: %s. Dead: %s; `relay messages list --state dead` names the reasons. Redeliver or withdraw them.", plural.Of(st.Waiting, "message"), plural.Of(st.Dead, "message"))
	}
	return good("outbox", "Waiting: %s. Dead: none.", plural.Of(st.Waiting, "message"))
}

// sentenceOf returns the message of an error for people, without its full stop.
func sentenceOf(err error) string {
	var e *refusal.Error
	if errors.As(err, &e) {
		return strings.TrimSuffix(e.Message, ".")
	}
	return strings.TrimSuffix(err.Error(), ".")
}
