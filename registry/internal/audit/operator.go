package audit

import (
	"os"
	"os/user"
	"strconv"
)

// Operator returns the user of this process as user@host.
func Operator() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}
