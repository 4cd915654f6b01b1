// Package e2e runs the built registry against real clients (docker's engine,
// skopeo, crane, …) and beside real peers (CNCF distribution 2.8 and 3.x). Its
// tests need what `make tools` installs.
package e2e
