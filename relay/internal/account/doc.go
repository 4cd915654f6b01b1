// Package account holds users, applications, tokens, passwords and sessions, and who may do what with them. It knows
// nothing of delivery.
package account
