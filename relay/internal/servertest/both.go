package servertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"slipway/shared/testserver"
)

// OnBoth runs a package's tests on SQLite and then, unless -short is set, on a PostgreSQL server, which it passes to use. It
// returns the exit code.
func OnBoth(m *testing.M, use func(*Postgres)) int {
	testserver.UseMemory()
	flag.Parse()
	code := m.Run()
	if testing.Short() || code != 0 {
		return code
	}
	s, err := SharedPostgres(context.Background())
	if errors.Is(err, ErrMissing) && os.Getenv("CI") == "" {
		fmt.Fprintln(os.Stderr, err)
		return code
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(s)
	fmt.Println("the same on PostgreSQL:")
	return m.Run()
}

// againVariable tells a test program that Again has started it.
const againVariable = "SLIPWAY_TEST_ON_POSTGRES"

// OnSQLite runs a package's tests on SQLite, and those that [Again] names on a PostgreSQL server, which it passes to use. It returns
// the exit code.
func OnSQLite(m *testing.M, use func(*Postgres)) int {
	testserver.UseMemory()
	if os.Getenv(againVariable) != "" {
		s, err := SharedPostgres(context.Background())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		use(s)
	}
	return m.Run()
}

// Again runs tests of the package on PostgreSQL: those of the names, or without names all but TestFull_*. The package's TestMain
// must call [OnSQLite].
func Again(t *testing.T, names ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a database; `make test` runs it")
	}
	if os.Getenv(againVariable) != "" {
		return // these are the tests on PostgreSQL
	}
	if _, err := find(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	args := []string{"-test.v", "-test.timeout=15m", "-test.skip=^TestFull_"}
	if len(names) > 0 {
		args = append(args, "-test.run=^("+strings.Join(names, "|")+")$")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), againVariable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("on PostgreSQL: %v\n%s", err, out)
	}
	for _, name := range names {
		if !strings.Contains(string(out), "\n--- PASS: "+name+" ") {
			t.Errorf("%s has not run on PostgreSQL:\n%s", name, out)
		}
	}
}
