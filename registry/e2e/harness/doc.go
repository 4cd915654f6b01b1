// Package harness starts the built registry, its peers, and real clients for the tests in the
// folders beside it, which need what `make tools` installs.
package harness
