package relaytest

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"slipway/relay/internal/account"
	"slipway/relay/internal/delivery"
	"slipway/relay/internal/post"
	"slipway/relay/internal/service"
	"slipway/relay/internal/store"
)

// Rig is a service over a scripted homeserver that a test starts, stops and kills.
type Rig struct {
	*service.Service
	T       testing.TB
	HS      *Homeserver
	Shared  bool   // other relays may use the database
	Path    string // of the database's file, or the DSN of one in PostgreSQL
	Options service.Options
	Admin   account.Principal
	Metrics *prometheus.Registry
	Stop    func() // ends what Start began
}

// NewRig makes a service, which [Rig.Start] lets deliver. Its database is SQLite or PostgreSQL, see [Main].
func NewRig(t testing.TB, change ...func(*service.Options)) *Rig {
	t.Helper()
	return newRig(t, false, change...)
}

// NewSharedRig is NewRig with a database that other relays may share, if it is PostgreSQL.
func NewSharedRig(t testing.TB) *Rig {
	t.Helper()
	return newRig(t, true)
}

func newRig(t testing.TB, shared bool, change ...func(*service.Options)) *Rig {
	t.Helper()
	hs := NewHomeserver()
	metrics := prometheus.NewRegistry()
	r := &Rig{T: t, HS: hs, Path: NewDatabase(t), Shared: shared, Metrics: metrics, Options: service.Options{
		Delivery: delivery.Options{Sender: hs, Rooms: hs}, Log: zap.NewNop(), Metrics: service.NewMetrics(metrics),
		Accounts: account.Options{CheckToken: true, PasswordMemory: 64}, // hashing would take most of the tests' time
	}}
	r.openStore()
	for _, c := range change {
		c(&r.Options)
	}
	r.makeService()
	t.Cleanup(r.Shutdown)
	return r
}

// WithAdmin gives the administrator a password.
func WithAdmin(o *service.Options) {
	o.Accounts.Admin = account.Admin{Name: "admin", Password: "administrator", MatrixID: "@admin:hs"}
}

// Open makes the service, as at a start of the program.
func (r *Rig) Open() {
	r.T.Helper()
	r.openStore()
	r.makeService()
}

func (r *Rig) openStore() {
	r.T.Helper()
	var err error
	if r.Options.Store, err = OpenStore(r.Path, r.Shared); err != nil {
		r.T.Fatal(err)
	}
}

func (r *Rig) makeService() {
	r.T.Helper()
	s, err := service.New(context.Background(), r.Options)
	if err != nil {
		r.T.Fatal(err)
	}
	r.Service = s
	admin, there := Administrator(s)
	if !there { // most tests need no password, and argon2 takes its time
		admin = Principal(r.StoreUser(store.User{Name: "admin", IsAdmin: true, MatrixID: "@admin:hs"}))
	}
	r.Admin = admin
	r.Stop = func() {}
}

// Start begins to deliver.
func (r *Rig) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Run(ctx)
	}()
	r.Stop = func() {
		cancel()
		<-done
		r.Stop = func() {}
	}
}

// Shutdown stops the service cleanly.
func (r *Rig) Shutdown() {
	if r.Service == nil {
		return
	}
	r.Stop()
	if err := r.Close(); err != nil {
		r.T.Error(err)
	}
	r.Service = nil
}

// Restart stops the service cleanly and lets it deliver again.
func (r *Rig) Restart() {
	r.T.Helper()
	r.Shutdown()
	r.Open()
	r.Start()
}

// Recover is Restart after a crash.
func (r *Rig) Recover() {
	r.T.Helper()
	r.Crash()
	r.Open()
	r.Start()
}

// Crash ends the service without a clean shutdown: the next start must reconcile the outbox.
func (r *Rig) Crash() {
	r.T.Helper()
	r.Stop()
	if err := r.Options.Store.Close(); err != nil {
		r.T.Fatal(err)
	}
	r.Service = nil
}

// StoreUser stores a user without a password.
func (r *Rig) StoreUser(u store.User) store.User {
	r.T.Helper()
	u.CreatedAt = 1
	if err := r.Options.Store.Update(context.Background(), func(tx *store.Tx) error { return tx.SaveUser(&u) }); err != nil {
		r.T.Fatal(err)
	}
	return u
}

// NewUser makes a user with a Matrix ID that follows from the name.
func (r *Rig) NewUser(name string) account.Principal {
	r.T.Helper()
	return r.NewPerson(name, "@"+name+":hs")
}

// NewPerson makes a user.
func (r *Rig) NewPerson(name, matrixID string) account.Principal {
	r.T.Helper()
	password := "password of " + name
	u, err := r.CreateUser(context.Background(), r.Admin, account.UserInput{Name: &name, Password: &password, MatrixID: &matrixID})
	if err != nil {
		r.T.Fatal(err)
	}
	return account.Principal{UserID: u.ID, Name: u.Name}
}

// Row returns an application as it is stored.
func (r *Rig) Row(application int64) store.Application {
	r.T.Helper()
	row, err := r.Options.Store.Application(context.Background(), application)
	if err != nil {
		r.T.Fatal(err)
	}
	return row
}

// Principal is a user's.
func Principal(u store.User) account.Principal {
	return account.Principal{UserID: u.ID, Name: u.Name, Admin: u.IsAdmin}
}

// Administrator returns the first administrator.
func Administrator(s *service.Service) (account.Principal, bool) {
	users, _ := s.Users(context.Background(), account.Principal{UserID: 1, Admin: true})
	for _, u := range users {
		if u.Admin {
			return account.Principal{UserID: u.ID, Name: u.Name, Admin: true}, true
		}
	}
	return account.Principal{}, false
}

// NewApp makes an application of the administrator.
func (r *Rig) NewApp(name, room string) account.IssuedToken {
	r.T.Helper()
	a, err := r.CreateApplication(context.Background(), r.Admin, account.ApplicationInput{Name: &name, Room: &room})
	if err != nil {
		r.T.Fatal(err)
	}
	return a
}

// Set changes an application.
func (r *Rig) Set(application int64, in account.ApplicationInput) {
	r.T.Helper()
	if _, err := r.UpdateApplication(context.Background(), r.Admin, application, in); err != nil {
		r.T.Fatal(err)
	}
}

// Send has a message accepted.
func (r *Rig) Send(m post.Draft) post.Accepted {
	r.T.Helper()
	a, err := r.Accept(context.Background(), m)
	if err != nil {
		r.T.Fatal(err)
	}
	return a
}

// Post sends a message and returns its id.
func (r *Rig) Post(token, text string) int64 {
	r.T.Helper()
	return r.Send(post.Draft{Token: token, Content: post.Content{Body: text}, Source: "test"}).ID
}

// Withdraw withdraws a message.
func (r *Rig) Withdraw(id int64) {
	r.T.Helper()
	if _, err := r.Cancel(context.Background(), r.Admin, id); err != nil {
		r.T.Fatal(err)
	}
}

// Stored returns a message.
func (r *Rig) Stored(id int64) post.View {
	r.T.Helper()
	m, err := r.Message(context.Background(), r.Admin, id)
	if err != nil {
		r.T.Fatal(err)
	}
	return m
}

// Await waits until a message is in a state.
func (r *Rig) Await(id int64, want post.State) (m post.View) {
	r.T.Helper()
	for range 2000 {
		if m = r.Stored(id); m.State == want {
			return m
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.T.Fatalf("message %d is %q (%s), want %q", id, m.State, m.Error, want)
	return m
}

// Eventually waits until a condition holds, however busy the machine is.
func (r *Rig) Eventually(what string, holds func() bool) {
	r.T.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	r.T.Fatalf("never: %s", what)
}

// Waiting counts what is on its way.
func (r *Rig) Waiting() int64 { return r.Status(context.Background()).Waiting }

// Drained waits until nothing waits any more.
func (r *Rig) Drained() {
	r.T.Helper()
	var n int
	for range 2000 {
		if r.Waiting() == 0 { // an estimate, which may be ahead of what is stored
			if r.Exec("SELECT count(*) FROM outbox WHERE final_at = 0", &n); n == 0 {
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.T.Fatalf("%d wait", r.Waiting())
}
