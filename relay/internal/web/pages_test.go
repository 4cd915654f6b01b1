package web

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"slipway/relay/internal/account"
	"slipway/relay/internal/matrix"
	"slipway/relay/internal/relaytest"
)

var tokenField = regexp.MustCompile(`<code class="token"[^>]*>([^<]+)</code>`)

// token reads the token off the page at hand.
func (b *browser) token() string {
	b.Helper()
	m := tokenField.FindStringSubmatch(b.page)
	if m == nil {
		b.Fatalf("%s shows no token", b.at)
	}
	return m[1]
}

func (b *browser) works(token string) bool {
	_, err := b.service.TokenViewer(b.Context(), token)
	return err == nil
}

// until loads a page again and again until it shows text. Tries are counted, not seconds, so that a busy machine has the
// same ones.
func (b *browser) until(path, text string) {
	b.Helper()
	for range 500 {
		if b.get(path); strings.Contains(b.page, text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatalf("%s never shows %q:\n%s", path, text, b.page)
}

// A warning of the checks is neither passed nor failed.
func TestCheck_Warning_IsShownAsOne(t *testing.T) {
	b := newBrowserWith(t, func(o *Options) {
		o.Doctor.NewRooms = func() (bool, string) { return false, "there is no pickle key" }
	})
	b.admin()
	b.get("/ui/rooms?check")
	b.want(200, `<li class="warn"><span class="hidden">Warning: </span>The rooms that the bot makes are not encrypted, because there is no pickle key.`, "Passed: ", "-Failed: ")
}

func TestRoomsAreSaid(t *testing.T) {
	b := newBrowser(t)
	b.hs.Has(matrix.RoomInfo{RoomID: "!secret:example.org", Joined: true, Writable: true, Encrypted: true})
	b.hs.Has(matrix.RoomInfo{RoomID: "!read:example.org", Joined: true})
	b.admin()
	for room, want := range map[string]string{
		"!secret:example.org": "and may write there", "!read:example.org": "may not write", "!other:example.org": "is not in this room",
	} {
		b.get("/ui/applications/new")
		b.post("/ui/applications/new", "name", "to "+room, "target", "other", "room_id", room, "priority_scale", "auto")
		b.want(200, want)
	}
	b.get("/ui/rooms?check")
	b.want(200, "Check results", "which is encrypted, and may write there", "Failed:", "Operations", "@relay:example.org")
	b.get("/ui/applications/new")
	b.post("/ui/applications/new", "name", "made", "target", "new", "priority_scale", "auto")
	b.want(200, "is ready", "The bot invites", "Accept the invitation")
	b.hs.Fail(&matrix.SendError{Class: matrix.ClassAway, Reason: "the homeserver is away"})
	b.get("/ui/applications/new")
	b.want(200, "Room lookup failed")
}

// Messages that wait for the homeserver's rate limit are no good state.
func TestRateLimited(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassWait, RetryAfter: time.Minute, Reason: "too fast"})
	b.send(b.app("a", room), "t", "m")
	b.until("/ui/", "Waiting for the homeserver&#39;s rate limit: 1 message, about 61 s.")
	b.want(200, "An administrator of the homeserver can exempt the bot")
	b.get("/ui/rooms")
	b.want(200, "Waiting for the homeserver&#39;s rate limit: 1 message, about 61 s.")
}

// The room of an application that lost its right to it isn't shown as OK.
func TestRooms_OwnerAbsent(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	admin, err := b.service.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	name, password, id := "anna", "long enough", "@anna:example.org"
	anna, err := b.service.CreateUser(t.Context(), admin, account.UserInput{Name: &name, Password: &password, MatrixID: &id})
	if err != nil {
		t.Fatal(err)
	}
	app, target := "backup", room
	_, err = b.service.CreateApplication(t.Context(), account.Principal{UserID: anna.ID}, account.ApplicationInput{Name: &app, Room: &target})
	if err != nil {
		t.Fatal(err)
	}
	b.get("/ui/rooms")
	b.want(200, `<span class="state sent">OK</span>`)
	if err := b.service.Presence(t.Context(), room, id, false); err != nil {
		t.Fatal(err)
	}
	b.get("/ui/rooms")
	b.want(200, "Messages of backup are refused.", `-<span class="state sent">OK</span>`)
	b.get("/ui/")
	b.want(200, "Messages of backup are refused.", "action required")
}

// TestReplacedRoom: its application's page shows the problem while it lasts.
func TestReplacedRoom(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.hs.Has(matrix.RoomInfo{RoomID: room, Joined: true, ReplaceBy: "!new:example.org"})
	app := b.app("a", room)
	page := "/ui/applications/" + strconv.FormatInt(app.Application.ID, 10)
	b.get(page)
	b.want(200, "Invite the bot there")
	b.hs.FailIn(room, &matrix.SendError{Class: matrix.ClassBlock, Reason: "the other room does not follow it"})
	b.until(b.send(app, "x", "text"), "does not follow")
	b.get(page)
	b.want(200, "Messages wait: The other room does not follow it.", "-nvite the bot there")
	b.hs.Has(matrix.RoomInfo{RoomID: room, Joined: true, Writable: true})
	b.get(page)
	b.want(200, "Messages wait: The other room does not follow it.")
}

func TestRetryRoom(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	app := b.app("a", "!closed:example.org")
	b.hs.FailIn("!closed:example.org", &matrix.SendError{Class: matrix.ClassBlock, Reason: "the bot may not write in the room"})
	path := b.send(app, "", "m")
	b.until("/ui/rooms", "blocked")
	b.want(200, "The bot may not write in the room.", "Try again")
	b.get("/ui/applications")
	b.want(200, "blocked", "The bot may not write in the room.")
	b.hs.FailIn("!closed:example.org", nil)
	b.post("/ui/rooms/retry", "room", "!closed:example.org")
	b.want(200, "The relay tries again to send to the room.")
	b.until(path, "Withdraw…")
	b.want(200, `<span class="state sent">sent</span>`)
}

func TestUsersAndAccount(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	b.app("of the administrator", room)
	b.get("/ui/users/new")
	b.post("/ui/users/new", "name", "maria", "password", "short")
	b.want(400, "A password has", `value="maria"`)
	b.post("/ui/users/new", "name", "maria", "password", "long enough", "matrix_id", "@maria:example.org")
	b.want(200, "Created.", "@maria:example.org", "(you)")
	b.get("/ui/users/2")
	b.post("/ui/users/2", "name", "maria", "matrix_id", "maria")
	b.want(400, "A Matrix ID looks like", `value="maria"`)
	b.get("/ui/users/1")
	b.want(200, "-Delete…")
	b.get("/ui/account")
	b.want(200, "The configuration sets this account")

	b.forget()
	b.login("maria", "long enough")
	b.want(200, "-/ui/users")
	b.get("/ui/applications")
	b.want(200, "-of the administrator")
	for path, want := range map[string]int{"/ui/users": 403, "/ui/users/new": 403, "/ui/users/1": 403, "/ui/users/1/delete": 403, "/ui/applications/1": 404, "/ui/applications/1/delete": 404} {
		b.get(path)
		b.want(want)
	}
	b.get("/ui/rooms?check")
	b.want(200, "-Check results", "-Operations", "-hs.example.org")
	b.get("/ui/applications/new")
	b.want(200, "-Operations")
	b.get("/ui/account")
	b.post("/ui/account/password", "present", "wrong", "password", "even longer", "again", "even longer")
	b.want(400, "The current password is wrong.")
	b.post("/ui/account/password", "present", "long enough", "password", "even longer", "again", "even longr")
	b.want(400, "The two new passwords differ.")
	b.post("/ui/account/password", "present", "long enough", "password", "even longer", "again", "even longer")
	b.want(200, "The password is changed.")
	b.post("/ui/account", "matrix_id", "@m:example.org")
	b.want(403, "Only administrators may set Matrix IDs", "@maria:example.org", "-@m:example.org")

	b.forget()
	b.login(relaytest.AdminName, relaytest.AdminPassword)
	b.get("/ui/users/2/delete")
	b.want(200, "Delete the user “maria”?")
	b.post("/ui/users/2/delete")
	b.want(200, "Deleted.", "-maria")
}

func TestPausedIsSaid(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	app := b.app("a", room)
	b.hs.Fail(&matrix.SendError{Class: matrix.ClassAway, Reason: "the homeserver cannot be reached"})
	b.send(app, "", "m")
	b.until("/ui/", "Deliveries are paused.")
	b.want(200, "The homeserver cannot be reached.")
	b.get("/ui/rooms")
	b.want(200, "Deliveries are paused")
}

// TestUnheard: where messages of priority 2 alert nobody, the rooms say so.
func TestUnheard(t *testing.T) {
	b := newBrowser(t)
	b.admin()
	app := b.app("a", room)
	mention := "owner"
	v, err := b.service.Authenticate(t.Context(), relaytest.AdminName, relaytest.AdminPassword, "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.service.UpdateApplication(t.Context(), v, app.Application.ID, account.ApplicationInput{Mention: &mention}); err != nil {
		t.Fatal(err)
	}
	b.get("/ui/rooms?check")
	b.want(200, "-alert nobody")
	none := ""
	if _, err := b.service.UpdateUser(t.Context(), v, v.UserID, account.UserInput{MatrixID: &none}); err != nil {
		t.Fatal(err)
	}
	b.get("/ui/rooms?check")
	b.want(200, "Messages of priority 2 from a alert nobody.")
}
