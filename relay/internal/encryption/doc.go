// Package encryption is the bot's device in encrypted rooms: its keys, the sessions with other devices, and the encryption of
// events. It is built with the tag goolm, which takes the library's implementation in Go.
package encryption
