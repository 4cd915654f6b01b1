package account_test

import (
	"strings"
	"testing"

	"slipway/relay/internal/account"
	"slipway/relay/internal/refusal"
	"slipway/relay/internal/relaytest"
	"slipway/relay/internal/store"
)

func TestMatrixIDOf(t *testing.T) {
	for _, tt := range []struct{ name, server, want string }{
		{"anna", "example.org", "@anna:example.org"},
		{"a.n_n=a/1+2-3", "example.org:8448", "@a.n_n=a/1+2-3:example.org:8448"},
		{"anna:evil.example", "example.org", ""},
		{"@anna:evil.example", "example.org", ""},
		{"anna@example.org", "example.org", ""},
		{"Anna", "example.org", ""},
		{"an na", "example.org", ""},
		{"anna\n", "example.org", ""},
		{"", "example.org", ""},
		{strings.Repeat("a", 250), "example.org", ""},
		{"@Anna:example.org", "", "@Anna:example.org"},
		{"anna", "", ""},
		{"@an na:example.org", "", ""},
		{"@anna:", "", ""},
	} {
		if id, ok := account.MatrixIDOf(tt.name, tt.server); ok != (tt.want != "") || ok && id != tt.want {
			t.Errorf("%q at %q: %q, %v, want %q", tt.name, tt.server, id, ok, tt.want)
		}
	}
}

// FuzzMatrixIDOf: no name leaves the server.
func FuzzMatrixIDOf(f *testing.F) {
	for _, name := range []string{"anna", "anna:evil.example", "@anna:evil.example", "an\x00na", "", "a/b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id, ok := account.MatrixIDOf(name, "example.org")
		if _, server, _ := strings.Cut(id, ":"); ok && (server != "example.org" || len(id) > 255) {
			t.Errorf("%q is %q", name, id)
		}
	})
}

// A person is the user with the person's Matrix ID, and after the first login that user, whatever the provider calls the
// person. Nobody else becomes that user.
func TestLogInPerson(t *testing.T) {
	const issuer = "https://id.example.org"
	r := relaytest.NewRig(t)
	user := map[string]int64{"admin": r.Admin.UserID}
	for name, id := range map[string]string{"anna": "@anna:hs", "eva": "@twice:hs", "eve": "@twice:hs", "carl": ""} {
		user[name] = r.NewPerson(name, id).UserID
	}
	former := r.StoreUser(store.User{Name: "former", MatrixID: "@former:hs", Subject: "https://old.example.org 7"})
	user["former"] = former.ID
	for _, tt := range []struct {
		what, subject, id string
		create            bool
		want              string // name; "" = refused
		says              string
	}{
		{what: "the first login", subject: "1", id: "@anna:hs", want: "anna"},
		{what: "the second", subject: "1", id: "@anna:hs", want: "anna"},
		{what: "renamed at the provider", subject: "1", id: "@admin:hs", want: "anna"},
		{what: "the next owner of the name", subject: "2", id: "@anna:hs", create: true, says: "The user anna is linked to another person"},
		{what: "an administrator", subject: "3", id: "@admin:hs", want: "admin"},
		{what: "two users", subject: "4", id: "@twice:hs", create: true, says: "Several users have the Matrix ID @twice:hs"},
		{what: "unknown", subject: "5", id: "@new:hs", says: "No user has the Matrix ID @new:hs"},
		{what: "a user of that name without the Matrix ID", subject: "6", id: "@carl:hs", create: true, says: "There is a user carl without your Matrix ID"},
		{what: "a user of that name at another server", subject: "6", id: "@ANNA:elsewhere", create: true, says: "There is a user anna without"},
		{what: "linked at the provider from before", subject: "7", id: "@former:hs", want: "former"},
		{what: "a new user", subject: "5", id: "@new:hs", create: true, want: "new"},
		{what: "the new user, without create", subject: "5", id: "@new:hs", want: "new"},
		{what: "a name that no user can have", subject: "8", id: "@" + strings.Repeat("a", 129) + ":hs", create: true, says: "A name has 1 to 128 bytes"},
	} {
		s, err := r.LogInPerson(ctx, account.Person{Issuer: issuer, Subject: tt.subject, MatrixID: tt.id}, tt.create)
		if tt.want == "" {
			if e := refused(err); !strings.Contains(strings.ToLower(e.Message), strings.ToLower(tt.says)) || e.Kind != refusal.KindForbidden && e.Kind != refusal.KindInvalid {
				t.Errorf("%s: %v (%+v), want %q", tt.what, err, s, tt.says)
			}
			continue
		}
		v, _, seen := r.SessionViewer(ctx, s.Token)
		if known, there := user[tt.want]; err != nil || seen != nil || v.Name != tt.want || there && v.UserID != known || v.Admin != (tt.want == "admin") {
			t.Errorf("%s: %+v, %v, %v, want %s", tt.what, v, err, seen, tt.want)
		}
		user[tt.want] = v.UserID
	}
	if u, err := r.User(ctx, r.Admin, user["new"]); err != nil || u.MatrixID != "@new:hs" || u.Admin || u.Password || !u.Linked {
		t.Errorf("the new user is %+v, %v", u, err)
	}
	for _, password := range []string{"", "password"} {
		if _, err := r.Authenticate(ctx, "new", password, "::1"); refusal.KindOf(err) != refusal.KindUnauthorized {
			t.Errorf("without a password, by %q: %v", password, err)
		}
	}
	if users, err := r.Users(ctx, r.Admin); err != nil || len(users) != 7 {
		t.Errorf("the users are %+v, %v", users, err)
	}
}

// Another Matrix ID ends the link and the sessions, because it was the former one that the person has proven.
func TestLogInPerson_Unlinked(t *testing.T) {
	r := relaytest.NewRig(t)
	anna := r.NewUser("anna")
	person := account.Person{Issuer: "https://id.example.org", Subject: "1", MatrixID: "@anna:hs"}
	s, err := r.LogInPerson(ctx, person, false)
	if err != nil {
		t.Fatal(err)
	}
	alive := func() bool { _, _, err := r.SessionViewer(ctx, s.Token); return err == nil }
	set := func(in account.UserInput) {
		t.Helper()
		if _, err := r.UpdateUser(ctx, r.Admin, anna.UserID, in); err != nil {
			t.Fatal(err)
		}
	}
	set(account.UserInput{Name: p("anne"), MatrixID: p("@anna:hs"), Admin: p(true)})
	if !alive() {
		t.Error("the session ends with a change of name and rights")
	}
	set(account.UserInput{MatrixID: p("")})
	if alive() {
		t.Error("the session outlives the link")
	}
	if _, err := r.LogInPerson(ctx, person, false); refusal.KindOf(err) != refusal.KindForbidden {
		t.Errorf("without the Matrix ID: %v", err)
	}
	set(account.UserInput{MatrixID: p("@anna:hs")})
	other := person
	other.Subject = "2"
	if s, err = r.LogInPerson(ctx, other, false); err != nil || !alive() {
		t.Errorf("the next person of the Matrix ID: %v", err)
	}
	set(account.UserInput{Password: p("a new password")})
	if alive() {
		t.Error("the session outlives a new password")
	}
	if s, err = r.LogInPerson(ctx, other, false); err != nil || !alive() {
		t.Errorf("after a new password: %v", err)
	}
	if err := r.DeleteUser(ctx, r.Admin, anna.UserID); err != nil || alive() {
		t.Errorf("the session outlives the user: %v", err)
	}
}

// The configuration's administrator, whose Matrix ID it sets, is unlinked by another one at the next start; and an
// account without a password gets the configured one.
func TestLogInPerson_Administrator(t *testing.T) {
	r := relaytest.NewRig(t, relaytest.WithAdmin)
	person := account.Person{Issuer: "https://id.example.org", Subject: "1", MatrixID: "@admin:hs"}
	s, err := r.LogInPerson(ctx, person, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.LogInPerson(ctx, account.Person{Issuer: person.Issuer, Subject: "2", MatrixID: "@chief:hs"}, true); err != nil {
		t.Fatal(err)
	}
	r.Shutdown()
	r.Options.Accounts.Admin.MatrixID = "@other:hs"
	r.Open()
	if _, _, err := r.SessionViewer(ctx, s.Token); refusal.KindOf(err) != refusal.KindUnauthorized {
		t.Errorf("a session of the former Matrix ID: %v", err)
	}
	r.Shutdown()
	r.Options.Accounts.Admin = account.Admin{Name: "chief", Password: "administrator", MatrixID: "@chief:hs"}
	r.Open()
	if v, err := r.Authenticate(ctx, "chief", "administrator", "::1"); err != nil || !v.Admin {
		t.Errorf("the new administrator: %+v, %v", v, err)
	}
}

func TestAttemptFrom(t *testing.T) {
	r := relaytest.NewRig(t)
	for range 100 {
		forgive, err := r.AttemptFrom("192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		forgive()
	}
	for range 60 {
		if _, err := r.AttemptFrom("192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.AttemptFrom("192.0.2.1"); refusal.KindOf(err) != refusal.KindRateLimited || refused(err).RetryAfter <= 0 {
		t.Errorf("the 61st failure: %v", err)
	}
	if _, err := r.AttemptFrom("198.51.100.1"); err != nil {
		t.Errorf("from elsewhere: %v", err)
	}
}
