// Package relay holds the rules of the relay: who may send what, when a message counts as accepted, in which
// order messages leave for their Matrix rooms, and what happens to them when something on the way fails.
//
// It knows no HTTP and no Matrix SDK. Messages enter through [Service.Accept], which answers only after the
// message is committed to the outbox, and leave through the [Sender] in [Options].
package relay
