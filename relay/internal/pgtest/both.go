package pgtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
)

// OnBoth runs a package's tests on SQLite and then, unless -short is set, on a PostgreSQL server, which it passes to use. It
// returns the exit code.
func OnBoth(m *testing.M, use func(*Server)) int {
	flag.Parse()
	code := m.Run()
	if testing.Short() || code != 0 {
		return code
	}
	s, err := Start(context.Background(), Options{})
	if errors.Is(err, ErrMissing) && os.Getenv("CI") == "" {
		fmt.Fprintln(os.Stderr, err)
		return code
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Remove()
	use(s)
	fmt.Println("the same on PostgreSQL:")
	return m.Run()
}
