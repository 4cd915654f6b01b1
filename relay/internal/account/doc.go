// Package account manages users, applications, tokens, passwords and sessions, and the rights of each. It knows nothing
// of delivery.
package account
